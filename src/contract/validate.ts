// ajv, set up once: strict schemas, every error at once, and its errors in the contract's form.
import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { FromSchema, JSONSchema } from "json-schema-to-ts";
import type { ValidationDetail } from "../base/errors.ts";

const ajv = new Ajv2020({
  allErrors: true,
  strict: true,
  allowUnionTypes: true,
  useDefaults: true,
  strictRequired: false,
});

/** Compiles a schema; the check fills in defaults and says which fields are wrong. */
export function compile<S extends JSONSchema>(
  schema: S,
): (
  value: unknown,
  at?: (string | number)[],
) => { ok: true; value: FromSchema<S> } | { ok: false; details: ValidationDetail[] } {
  const check: ValidateFunction = ajv.compile(schema as object);
  return (value, at = []) =>
    check(value)
      ? { ok: true, value: value as FromSchema<S> }
      : { ok: false, details: (check.errors ?? []).map((error) => detailOf(error, at)) };
}

function detailOf(error: ErrorObject, at: (string | number)[]): ValidationDetail {
  const path = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  if (error.keyword === "required")
    return { loc: [...at, ...path, String(error.params.missingProperty)], msg: "field required", type: "missing" };
  if (error.keyword === "additionalProperties")
    return {
      loc: [...at, ...path, String(error.params.additionalProperty)],
      msg: "unknown field",
      type: "extra_forbidden",
    };
  return {
    loc: [...at, ...path],
    msg: `${error.message ?? "is not valid"}${allowed(error)}`,
    type: `${error.keyword}_error`,
  };
}

function allowed(error: ErrorObject): string {
  const values = error.params.allowedValues;
  return Array.isArray(values) ? `: ${values.join(", ")}` : "";
}
