// Makes a module of the console from the OpenAPI document: a table of the operations that the console's modules name. `npm run client`
// writes the module, and a test compares it, so that the console cannot call an operation that the API does not have.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Operation {
  operationId: string;
  parameters?: { name: string }[];
  "x-scope"?: string;
}

/** Returns the module's text. `folder` is the console's. */
export function renderClientModule(document: Record<string, unknown>, folder: string): string {
  const paths = document.paths as Record<string, Record<string, Operation>>;
  const named = namesIn(folder);
  const lines = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { operationId }]) => named.has(operationId))
      .map(([method, operation]) => {
        const takesKey = (operation.parameters ?? []).some(({ name }) => name === "idempotency-key");
        const entry = [
          operation["x-scope"] ?? "-",
          method.toUpperCase(),
          path.replace("/api/v3/", ""),
          ...(takesKey ? ["once"] : []),
        ];
        return `  ${operation.operationId}: "${entry.join(" ")}",`;
      }),
  );
  return `// Generated from /openapi.json by \`npm run client\`; do not edit.
/**
 * For each operation that the console calls: its scope ("-": any key), method and path (under /api/v3/ unless it begins with a slash); "once" if it takes an Idempotency-Key.
 * @type {Record<string, string>}
 */
export const operations = {
${lines.sort().join("\n")}
};
`;
}

/** Returns every quoted word in the console's modules, because they name each operation by such a word. */
function namesIn(folder: string): Set<string> {
  const modules = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
    (name) => name.endsWith(".js") && !name.endsWith("operations.js"),
  );
  const code = modules.map((name) => readFileSync(join(folder, name), "utf8")).join("\n");
  return new Set([...code.matchAll(/"([a-z_]+)"/g)].map(([, name]) => name!));
}
