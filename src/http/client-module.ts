// The console's client as a module made from the OpenAPI document: a table of operations. `npm run client` writes it, and a test
// compares it, so that the console cannot call what the API does not have.

interface Operation {
  operationId: string;
  parameters?: { name: string }[];
  "x-scope"?: string;
}

export function renderClientModule(document: Record<string, unknown>): string {
  const paths = document.paths as Record<string, Record<string, Operation>>;
  const lines = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const takesKey = (operation.parameters ?? []).some(({ name }) => name === "idempotency-key");
      const entry = [operation["x-scope"] ?? "-", method.toUpperCase(), path, ...(takesKey ? ["once"] : [])];
      return `  ${operation.operationId}: "${entry.join(" ")}",`;
    }),
  );
  return `// Made from /openapi.json by \`npm run client\`; not edited by hand.
/** Scope ("-": any key), method and path of every operation of the API; "once" where it takes an Idempotency-Key. */
export const operations = {
${lines.sort().join("\n")}
};
`;
}
