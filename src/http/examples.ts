// Makes examples from the schemas of the contract: a schema's own example if it has one, otherwise one value per field. A test
// checks that each example fits its schema.
import { exampleValues } from "../contract/examples.ts";

interface Schema {
  examples?: readonly unknown[];
  const?: unknown;
  enum?: readonly unknown[];
  default?: unknown;
  type?: string | readonly string[];
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
  properties?: Record<string, Schema>;
  required?: readonly string[];
  items?: Schema;
  minItems?: number;
  minimum?: number;
}

/** Returns an example for a schema. `all` includes optional fields, for a reply. A request is easier to read without them. */
export function exampleOf(schema: unknown, all: boolean, name = ""): unknown {
  const given = schema as Schema;
  if (given.examples?.[0] !== undefined) return given.examples[0];
  if ("const" in given) return given.const;
  if (given.enum) return given.enum.includes(exampleValues[name]) ? exampleValues[name] : given.enum[0];
  const types = [given.type ?? []].flat();
  const named = exampleValues[name];
  if (named !== undefined && isOf(types, named) && !given.properties && !given.items?.properties) return named;
  const variant = (given.anyOf ?? given.oneOf)?.find((one) => one.type !== "null");
  if (variant && !given.properties) return exampleOf(variant, all, name);
  const type = types.find((one) => one !== "null");
  if (type === "object") return exampleObject(given, all);
  if (type === "array") return exampleArray(given, all, name);
  if (given.default !== undefined) return given.default;
  if (type === "number" || type === "integer") return Math.max(1, given.minimum ?? 1);
  if (type === "boolean") return true;
  return type === "string" ? "text" : null;
}

function exampleObject({ properties = {}, required = [] }: Schema, all: boolean): Record<string, unknown> {
  const names = Object.keys(properties).filter((name) => all || required.includes(name));
  return Object.fromEntries(names.map((name) => [name, exampleOf(properties[name], all, name)]));
}

function exampleArray({ items, minItems = 1 }: Schema, all: boolean, name: string): unknown[] {
  if (!items) return [];
  return Array.from({ length: Math.max(1, minItems) }, () => exampleOf(items, all, name.replace(/s$/, "")));
}

/** Whether a value has one of the types. An integer is a number too. */
const isOf = (types: readonly string[], value: unknown): boolean =>
  types.includes(typeOf(value)) || (typeof value === "number" && types.includes("number"));

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return "array";
  return value === null ? "null" : typeof value === "number" && Number.isInteger(value) ? "integer" : typeof value;
}
