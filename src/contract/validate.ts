// ajv, set up once: strict schemas, bounded errors, and its errors in the contract's form.
import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { FromSchema, JSONSchema } from "json-schema-to-ts";
import type { ValidationDetail } from "../base/errors.ts";
import { name } from "./common.ts";

const options = {
  strict: true,
  allowUnionTypes: true,
  useDefaults: true,
  strictRequired: false,
  // The schema of an error, for its description.
  verbose: true,
} as const;

/**
 * Of a small value every error is told. A large one is checked up to its first error, for a wrong list of millions of items has
 * millions of errors; lengths are then checked before items, and what is after the error is not looked at. Of a large object that
 * is wrong the fields are then looked at one by one, each by this rule.
 */
const thorough = new Ajv2020({ ...options, allErrors: true });
const quick = new Ajv2020(options);

/** A small value has so many at most, its own parts and theirs. */
const fewParts = 2_000;

/**
 * A schema's check, which fills in defaults and says which fields are wrong. It is compiled when it is first asked: all at once
 * would take a third of the appliance's start. Throws then if the schema itself is wrong.
 */
export function compile<S extends JSONSchema>(
  schema: S,
): (value: unknown, at?: Path) => { ok: true; value: FromSchema<S> } | { ok: false; details: ValidationDetail[] } {
  const compiled = new Map<Ajv2020, ValidateFunction>();
  const detailsOfFields = fieldsOf(schema);
  return (value, at = []) => {
    const isSmall = hasFewParts(value);
    const ajv = isSmall ? thorough : quick;
    const check = compiled.get(ajv) ?? ajv.compile(schema as object);
    compiled.set(ajv, check);
    if (check(value)) return { ok: true, value: value as FromSchema<S> };
    const errors = check.errors ?? [];
    // They hold the value, which would stay until the next check.
    check.errors = null;
    const details = told(errors).map((error) => detailOf(error, at));
    const ofFields = isSmall ? [] : detailsOfFields(value, at);
    // Rules between fields are no field's.
    return { ok: false, details: ofFields.length > 0 ? ofFields : details };
  };
}

type Path = (string | number)[];

/** What is wrong with an object's fields, each by itself. */
function fieldsOf(schema: JSONSchema): (value: unknown, at: Path) => ValidationDetail[] {
  const { properties = {}, required = [], additionalProperties } = schema as ObjectSchema;
  const checks = new Map<string, FieldCheck>();
  const detailsOf = (name: string, value: unknown, at: Path): ValidationDetail[] => {
    const check = checks.get(name) ?? (compile(bare(properties[name]!) as never) as FieldCheck);
    checks.set(name, check);
    const result = check(value, [...at, name]);
    return result.ok ? [] : result.details;
  };
  return (value, at) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
    const given = value as Record<string, unknown>;
    const missing = required.filter((name) => !Object.hasOwn(given, name)).map((name) => missingAt([...at, name]));
    const isUnknown = (name: string): boolean => additionalProperties === false && !Object.hasOwn(properties, name);
    const unknown = Object.keys(given).filter(isUnknown).slice(0, mostErrors);
    const wrong = Object.keys(properties)
      .filter((name) => Object.hasOwn(given, name))
      .flatMap((name) => detailsOf(name, given[name], at));
    return [...missing, ...unknown.map((name) => unknownAt([...at, name])), ...wrong].slice(0, mostErrors);
  };
}

/** A default is its field's, and none of a schema by itself. */
const bare = ({ default: _, ...schema }: { default?: unknown }): object => schema;

type FieldCheck = (value: unknown, at: Path) => { ok: true } | { ok: false; details: ValidationDetail[] };

interface ObjectSchema {
  properties?: Record<string, object>;
  required?: readonly string[];
  additionalProperties?: unknown;
}

const missingAt = (loc: Path): ValidationDetail => ({ loc, msg: "field required", type: "missing" });
const unknownAt = (loc: Path): ValidationDetail => ({ loc, msg: "unknown field", type: "extra_forbidden" });

/** Looks at no more of the value than that. */
function hasFewParts(value: unknown): boolean {
  const left = [value];
  for (let parts = 0; left.length > 0; ) {
    const part = left.pop();
    if (typeof part !== "object" || part === null) continue;
    const own: unknown[] = Array.isArray(part) ? part : Object.values(part);
    parts += own.length;
    if (parts > fewParts) return false;
    left.push(...own);
  }
  return true;
}

/** More are not looked through: whoever sends so much that is wrong reads the first of it. */
const mostErrors = 200;

/**
 * What helps of ajv's errors. Of alternatives only the one speaks that the value has the type of, where there is just one; and
 * that a rule's `then` does not hold is said by what it misses.
 */
function told(errors: readonly ErrorObject[]): ErrorObject[] {
  let kept = errors.slice(0, mostErrors).filter(({ keyword }) => keyword !== "if");
  for (const union of kept.filter(({ keyword }) => keyword === "anyOf")) {
    const isOfUnion = ({ schemaPath, instancePath }: ErrorObject): boolean =>
      schemaPath.startsWith(`${union.schemaPath}/`) && `${instancePath}/`.startsWith(`${union.instancePath}/`);
    const branchOf = ({ schemaPath }: ErrorObject): string =>
      schemaPath.slice(union.schemaPath.length + 1).split("/")[0]!;
    const isOfAnother = ({ keyword, instancePath }: ErrorObject): boolean =>
      instancePath === union.instancePath && ["type", "enum", "const"].includes(keyword);
    const branches = Map.groupBy(kept.filter(isOfUnion), branchOf);
    const fitting = [...branches].filter(([, its]) => !its.some(isOfAnother));
    if (fitting.length !== 1) continue;
    const spoken = new Set(fitting[0]![1]);
    kept = kept.filter((error) => error !== union && (spoken.has(error) || !isOfUnion(error)));
  }
  return kept;
}

function detailOf(error: ErrorObject, at: Path): ValidationDetail {
  const path = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  if (error.keyword === "required") return missingAt([...at, ...path, String(error.params.missingProperty)]);
  if (error.keyword === "additionalProperties")
    return unknownAt([...at, ...path, String(error.params.additionalProperty)]);
  // What is not taken at all says why not.
  const { type, description } = (error.parentSchema ?? {}) as { type?: unknown; description?: string };
  const isNotTaken = error.keyword === "not" || (error.keyword === "type" && type === "null");
  if (isNotTaken && description !== undefined)
    return { loc: [...at, ...path], msg: description, type: `${error.keyword}_error` };
  const inWords = error.keyword === "pattern" && patternsInWords[String(error.params.pattern)];
  return {
    loc: [...at, ...path],
    msg: inWords || `${error.message ?? "is not valid"}${allowed(error)}`,
    type: `${error.keyword}_error`,
  };
}

const patternsInWords: Readonly<Record<string, string>> = {
  [name.pattern]: "has a control character, or one that turns the direction of text; leave it out",
};

function allowed(error: ErrorObject): string {
  const values = error.keyword === "const" ? [error.params.allowedValue] : error.params.allowedValues;
  if (!Array.isArray(values)) return "";
  const { description } = (error.parentSchema ?? {}) as { description?: string };
  return `: ${values.map((value) => value ?? "null").join(", ")}${description === undefined ? "" : `. ${description}`}`;
}
