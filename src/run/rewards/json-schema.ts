// 1 if the answer is JSON, alone or as a single fenced block, and fits a JSON schema (2020-12). The contract's validator is not used,
// because it would fill in defaults that the answer must contain, and its patterns backtrack.
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { RE2JS } from "re2js";
import { type Options, UnusableReference, type Verify } from "./item.ts";
import { linearPattern } from "./pattern.ts";

const longestSchema = 100_000;
/** Deepest nesting that is judged. A schema that refers to itself makes the check recurse as deeply as the answer is nested. */
const deepest = 200;

export function jsonSchema({ schema }: Options): Verify {
  const fits = compiled(schema!);
  return (answer) => {
    const text = withoutFence(answer);
    if (text === null) return 0;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return 0;
    }
    if (depthOf(text) > deepest) return null;
    return fits(value) ? 1 : 0;
  };
}

function compiled(text: string): ValidateFunction {
  if (text.length > longestSchema) throw new UnusableReference(`a schema may have at most ${longestSchema} characters`);
  // Ajv tells compiled patterns apart by their text.
  const regExp = (pattern: string) => ({
    test: linearPattern(RE2JS.translateRegExp(pattern)),
    toString: () => pattern,
  });
  const ajv = new Ajv2020({
    strictSchema: true,
    strictTypes: false,
    strictTuples: false,
    logger: false,
    code: { regExp: Object.assign(regExp, { code: "" }) },
  });
  // Ajv's own uniqueItems compares every item with every other, which takes too long for long lists.
  ajv.removeKeyword("uniqueItems");
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    validate: (isUnique: boolean, items: unknown[]) => !isUnique || new Set(items.map(canonical)).size === items.length,
  });
  try {
    const fits = ajv.compile(JSON.parse(text) as object);
    if ("$async" in fits) throw new Error("$async is not a keyword of JSON Schema");
    return fits;
  } catch (error) {
    throw new UnusableReference(`schema cannot be used: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Returns a text that is the same for equal values, whatever the order of their keys. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );

/** Returns the answer without its fence; null if the answer has a fence but is not exactly one fenced block. */
function withoutFence(answer: string): string | null {
  const text = answer.trim();
  const lines = text.split("\n");
  const fences = [...lines.keys()].filter((at) => /^\s*```/.test(lines[at]!));
  if (fences.length === 0) return text;
  const isOneBlock = fences[0] === 0 && fences[1] === lines.length - 1;
  return isOneBlock && lines.at(-1)!.trim() === "```" ? lines.slice(1, -1).join("\n") : null;
}

/** Returns the deepest nesting of brackets outside strings. */
function depthOf(text: string): number {
  let depth = 0;
  let most = 0;
  let isString = false;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (isString) {
      if (sign === "\\") at++;
      else if (sign === '"') isString = false;
    } else if (sign === '"') isString = true;
    else if (sign === "[" || sign === "{") most = Math.max(most, ++depth);
    else if (sign === "]" || sign === "}") depth--;
  }
  return most;
}
