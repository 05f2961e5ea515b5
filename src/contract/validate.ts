// Validation with ajv: strict schemas, a bounded number of errors, and errors in the contract's form.
import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { FromSchema, JSONSchema } from "json-schema-to-ts";
import type { ValidationDetail } from "../base/errors.ts";
import { name } from "./common.ts";
import { renamedFields } from "./renamed.ts";

const options = {
  strict: true,
  allowUnionTypes: true,
  useDefaults: true,
  strictRequired: false,
  // Attaches the schema to each error; its description is used in the message.
  verbose: true,
} as const;

/**
 * `thorough` checks small values and reports every error. `quick` checks large values only up to the first error, because an
 * invalid list of millions of items has millions of errors. It checks lengths before items. The fields of a large invalid object
 * are then checked one by one, and the same rule applies to each field.
 */
const thorough = new Ajv2020({ ...options, allErrors: true });
const quick = new Ajv2020(options);

/** A value with at most this many parts, nested ones included, counts as small. */
const fewParts = 2_000;

/**
 * Returns a function that checks a value against the schema, fills in defaults and reports the invalid fields. The schema is
 * compiled on first use, because compiling all schemas at once would take a third of the appliance's start. The first use throws
 * if the schema itself is invalid.
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
    // The errors reference the value and would keep it in memory until the next check.
    check.errors = null;
    const details = told(errors).map((error) => detailOf(error, at));
    const ofFields = isSmall ? [] : detailsOfFields(value, at);
    // An error of a rule between fields belongs to no single field. In that case the first error is reported.
    return { ok: false, details: ofFields.length > 0 ? ofFields : details };
  };
}

type Path = (string | number)[];

/** Returns a function that checks an object's fields one by one and lists their errors. */
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
    return [...missing, ...unknown.map((name) => unknownAt(at, name, properties)), ...wrong].slice(0, mostErrors);
  };
}

/** Removes the default, which applies to a field and has no meaning in a schema on its own. */
const bare = ({ default: _, ...schema }: { default?: unknown }): object => schema;

type FieldCheck = (value: unknown, at: Path) => { ok: true } | { ok: false; details: ValidationDetail[] };

interface ObjectSchema {
  properties?: Record<string, object>;
  required?: readonly string[];
  additionalProperties?: unknown;
}

const missingAt = (loc: Path): ValidationDetail => ({ loc, msg: "field required", type: "missing" });

/** Reports an unknown field. If the field was renamed, and the schema has a field of the new name, the message names that. */
function unknownAt(at: Path, name: string, properties: object): ValidationDetail {
  const successor = Object.hasOwn(renamedFields, name) ? renamedFields[name]! : null;
  const isRenamed = successor !== null && Object.hasOwn(properties, successor);
  const msg = isRenamed ? `unknown field; it is called ${successor} now` : "unknown field";
  return { loc: [...at, name], msg, type: "extra_forbidden" };
}

/** Whether a value is small. Stops counting once more than `fewParts` parts are found. */
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

/** Errors beyond this number are dropped: the first ones are enough to correct a request. */
const mostErrors = 200;

/**
 * Returns the useful ones of ajv's errors. For alternatives (anyOf), only the errors of the alternative that fits the value's
 * type are kept, if there is exactly one. Errors of `if` are dropped, because the errors within its `then` say what is missing.
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
  if (error.keyword === "additionalProperties") {
    const { properties = {} } = error.parentSchema as ObjectSchema;
    return unknownAt([...at, ...path], String(error.params.additionalProperty), properties);
  }
  // If a property is never accepted, its description says why.
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
  [name.pattern]: "contains a control character, or a character that changes the text direction; remove it",
};

function allowed(error: ErrorObject): string {
  const values = error.keyword === "const" ? [error.params.allowedValue] : error.params.allowedValues;
  if (!Array.isArray(values)) return "";
  const { description } = (error.parentSchema ?? {}) as { description?: string };
  return `: ${values.map((value) => value ?? "null").join(", ")}${description === undefined ? "" : `. ${description}`}`;
}
