// Every field of every body and query of the contract, and what it is not: the wrong type, and numbers at and over each edge. What is
// expected comes from the bounds that the contract states.
import assert from "node:assert/strict";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { type Asked, type Ids, RawNumber, request, type Schema } from "./matrix.ts";

export interface Given {
  endpoint: Endpoint;
  part: "body" | "query";
  field: string;
  schema: Schema;
}

const typesOf = (schema: Schema): string[] => [schema.type ?? []].flat();

/** The fields of one type alone: what is in range is then known from its bounds. */
export const fields: Given[] = Object.values<Endpoint>(contract)
  .filter(({ open }) => !open)
  .flatMap((endpoint) =>
    (["body", "query"] as const).flatMap((part) =>
      Object.entries(((endpoint[part] ?? {}) as Schema).properties ?? {}).map(([field, schema]) => ({
        endpoint,
        part,
        field,
        schema,
      })),
    ),
  );

/** Of a query everything is text. */
export const typed = fields.filter(({ schema, part }) => part === "body" && (schema.type || schema.enum));

export const numeric = fields.filter(({ schema }) =>
  typesOf(schema).some((type) => type === "integer" || type === "number"),
);

/** What the model that is asked can do bounds these further, and says so with the same field. */
const boundByModel = new Set(["POST /api/v3/inference/embeddings body.dimensions"]);

export const titleOf = ({ endpoint, part, field }: Given): string =>
  `${endpoint.method} ${endpoint.path} ${part}.${field}`;

/** Whose, and with which key, everything else of a request is in order. */
export interface Asker {
  it: Asked;
  ids: Ids;
  key: string;
}

export async function askField(
  { it, ids, key }: Asker,
  { endpoint, part, field }: Given,
  value: unknown,
): Promise<{ status: number; locs: string[] }> {
  const response = await request(it, endpoint, ids, ids, key, { [field]: value });
  const text = await response.text();
  assert.ok(response.status < 500, `${response.status} for ${JSON.stringify(value)}: ${text}`);
  const detail = response.status === 422 ? (JSON.parse(text) as { detail: { loc?: unknown[] }[] | string }).detail : [];
  const locs = typeof detail === "string" ? [] : detail.map(({ loc }) => (loc ?? []).join("."));
  return { status: response.status, locs: locs.filter((loc) => loc.startsWith(`${part}.${field}`)) };
}

const values: [type: string, value: unknown][] = [
  ["string", "text"],
  ["number", 5],
  ["boolean", true],
  ["null", null],
  ["array", []],
  ["object", {}],
];

/** The wrong type names its field. How many values were sent. */
export async function refusesWrongTypes(asker: Asker, given: Given): Promise<number> {
  const { schema } = given;
  const types = typesOf(schema);
  let sent = 0;
  for (const [type, value] of values) {
    const fits = types.includes(type) || (type === "number" && types.includes("integer"));
    const isListed = schema.enum?.includes(value) === true;
    if (fits || isListed || (type === "null" && schema.enum?.includes(null))) continue;
    const { status, locs } = await askField(asker, given, value);
    assert.equal(status, 422, `${titleOf(given)}: ${type} instead of ${types.join("|")}`);
    assert.ok(locs.length > 0, `${titleOf(given)}: ${JSON.stringify(value)}: the field is not named`);
    sent++;
  }
  return sent;
}

const edgesOf = ({ minimum, maximum, exclusiveMinimum }: Schema): string[] => {
  const own = [minimum, maximum, exclusiveMinimum].filter((one) => one !== undefined);
  const around = own.flatMap((edge) => [edge - 1, edge, edge + 1]).map(String);
  return [...around, "0", "-0", "1", "1.5", "-1", "2147483648", "-9223372036854775808", "9007199254740993", "1e400"];
};

const fits = (text: string, { minimum, maximum, exclusiveMinimum, ...schema }: Schema): boolean => {
  const value = Number(text);
  const isWhole = typesOf(schema).includes("number") || Number.isInteger(value);
  // What no double holds exactly would not be what was sent.
  const isKept = Number.isFinite(value) && (/[.e]/.test(text) || Number.isSafeInteger(value));
  const isIn = value >= (minimum ?? -Infinity) && value <= (maximum ?? Infinity);
  return isWhole && isKept && isIn && value > (exclusiveMinimum ?? -Infinity);
};

/** Numbers in range are taken, others refused. How many were sent. */
export async function keepsItsBounds(asker: Asker, given: Given): Promise<number> {
  const edges = new Set(edgesOf(given.schema));
  for (const text of edges) {
    // Query numbers are written in digits.
    const isFit = fits(text, given.schema) && (given.part === "body" || /^\d+$/.test(text));
    const { status, locs } = await askField(asker, given, given.part === "body" ? new RawNumber(text) : text);
    if (isFit && boundByModel.has(titleOf(given))) continue;
    if (isFit) assert.deepEqual(locs, [], `${titleOf(given)}: ${text} is in range`);
    else assert.ok(status === 422 && locs.length > 0, `${titleOf(given)}: ${text} is out of range, answered ${status}`);
  }
  return edges.size;
}
