// The API page: the OpenAPI document as one HTML page. It uses no script and no external resources, so it also works without a
// network and as a saved file.

// biome-ignore lint/suspicious/noExplicitAny: a document of foreign shape, made in openapi.ts.
type Json = any;

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const safe = (text: unknown): string => String(text).replace(/[&<>"]/g, (one) => escapes[one]!);
/** Text in backticks becomes code; everything is escaped. */
const prose = (text: string): string => safe(text).replace(/`([^`]+)`/g, "<code>$1</code>");
const code = (value: unknown): string => `<pre><code>${safe(JSON.stringify(value, null, 2))}</code></pre>`;
const cells = (values: string[]): string => `<tr>${values.map((value) => `<td>${value}</td>`).join("")}</tr>`;

function table(head: string[], rows: string[]): string {
  if (rows.length === 0) return "";
  return `<table><tr>${head.map((one) => `<th>${one}</th>`).join("")}</tr>${rows.join("")}</table>`;
}

interface Operation {
  path: string;
  method: string;
  of: Json;
}

export function renderDocs(document: Json): string {
  const operations: Operation[] = Object.entries(document.paths as Json).flatMap(([path, methods]) =>
    Object.entries(methods as Json).map(([method, of]) => ({ path, method: method.toUpperCase(), of })),
  );
  const tags = (document.tags as { name: string }[]).map(({ name }) => ({
    name,
    operations: operations.filter(({ of }) => of.tags.includes(name)),
  }));
  const contents = tags.map(
    ({ name, operations: these }) =>
      `<li>${safe(name)}<ul>${these.map((one) => `<li><a href="#${one.of.operationId}">${one.method} ${safe(one.path)}</a></li>`).join("")}</ul></li>`,
  );
  const sections = tags.map(
    ({ name, operations: these }) => `<h2>${safe(name)}</h2>${these.map(operationHtml).join("")}`,
  );
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${safe(document.info.title)} API ${safe(document.info.version)}</title>
<style>${style}</style>
<h1>${safe(document.info.title)} API <small>${safe(document.info.version)}</small></h1>
<p>${prose(document.info.description)} The same description as JSON: <a href="/openapi.json">/openapi.json</a>.</p>
<p>Every request under <code>/api</code> or <code>/v1</code> needs the header <code>Authorization: Bearer KEY</code>; inference also accepts <code>x-api-key</code>. <code>/v1</code> is another prefix for the inference paths.</p>
<nav><ul>${contents.join("")}</ul></nav>
${sections.join("\n")}
</html>
`;
}

function operationHtml({ path, method, of }: Operation): string {
  const aliases = (of["x-aliases"] ?? []) as string[];
  const body = of.requestBody?.content["application/json"];
  const responses = Object.entries(of.responses as Json);
  return `<section id="${of.operationId}">
<h3><code>${method} ${safe(path)}</code></h3>
<p>${prose(of.summary)} ${prose(of.description ?? "")}</p>
${aliases.length > 0 ? `<p>Also: ${aliases.map((one) => `<code>${safe(one)}</code>`).join(", ")}</p>` : ""}
${table(["parameter", "in", "required", "type", "meaning"], (of.parameters ?? []).map(parameterRow))}
${body ? `<h4>Body</h4>${fields(body.schema)}${code(body.example)}` : ""}
${of.requestBody?.content["multipart/form-data"] ? "<h4>Body</h4><p><code>multipart/form-data</code>, files in the field <code>file</code>.</p>" : ""}
${responses.map(([status, one]) => responseHtml(status, one)).join("")}
</section>`;
}

const parameterRow = ({ name, in: place, required, schema }: Json): string =>
  cells([`<code>${safe(name)}</code>`, place, required ? "yes" : "", typeText(schema), meaning(schema)]);

function responseHtml(status: string, response: Json): string {
  const title = `<b>${status}</b> ${prose(response.description).replaceAll("\n\n", "<br>")}`;
  if (status.startsWith("2")) {
    const types = Object.entries(response.content as Json).map(
      ([type, one]) =>
        `<p><code>${safe(type)}</code></p>${(one as Json).example === undefined ? "" : code((one as Json).example)}`,
    );
    return `<h4>Answer</h4><p>${title}</p>${types.join("")}`;
  }
  const examples = Object.values((response.content["application/json"].examples ?? {}) as Json);
  return `<details><summary>${title}</summary>${examples.map((one) => code((one as Json).value)).join("")}</details>`;
}

/** A table of a body's fields. Nested fields are listed with their path. */
function fields(schema: Json): string {
  return table(["field", "required", "type", "meaning"], fieldRows(schema, ""));
}

function fieldRows(schema: Json, under: string): string[] {
  return Object.entries((schema.properties ?? {}) as Json).flatMap(([name, one]) => {
    const field = one as Json;
    const path = `${under}${name}`;
    const required = (schema.required ?? []).includes(name);
    const inner = field.items?.properties ? { of: field.items, mark: "[]." } : { of: field, mark: "." };
    return [
      cells([`<code>${safe(path)}</code>`, required ? "yes" : "", typeText(field), meaning(field)]),
      ...(under.split(".").length > 4 ? [] : fieldRows(inner.of, `${path}${inner.mark}`)),
    ];
  });
}

function typeText(schema: Json): string {
  if (schema.const !== undefined) return safe(JSON.stringify(schema.const));
  if (schema.enum) return schema.enum.map((one: unknown) => safe(JSON.stringify(one))).join(", ");
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants) return variants.map(typeText).join(" or ");
  const types = [schema.type ?? "any"].flat().join(" or ");
  return schema.type === "array" && schema.items ? `array of ${typeText(schema.items)}` : types;
}

const bounds: [keyword: string, words: string][] = [
  ["minimum", "at least"],
  ["exclusiveMinimum", "more than"],
  ["maximum", "at most"],
  ["minLength", "characters, at least"],
  ["maxLength", "characters, at most"],
  ["minItems", "items, at least"],
  ["maxItems", "items, at most"],
];

function meaning(schema: Json): string {
  const parts = schema.description ? [prose(schema.description)] : [];
  if (schema.default !== undefined) parts.push(`default <code>${safe(JSON.stringify(schema.default))}</code>`);
  for (const [keyword, words] of bounds)
    if (schema[keyword] !== undefined) parts.push(`${words} ${safe(schema[keyword])}`);
  return parts.join("; ");
}

const style = `
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
nav { columns: 2; font-size: .85rem; }
section { border-top: 1px solid #8884; }
code, pre { font: .85rem/1.4 ui-monospace, monospace; }
pre { background: #8881; padding: .6rem; overflow: auto; max-height: 24rem; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { border: 1px solid #8884; padding: .2rem .5rem; text-align: left; vertical-align: top; }
:root { color-scheme: light dark; }
`;
