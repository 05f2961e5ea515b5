// Sound requests to every endpoint of the contract, made from the contract: what tests that go through all of them start from.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { exampleOf } from "../../src/http/examples.ts";
import type { Scripted } from "./scripted.ts";

/** Ids in paths, each of something that is somebody's. */
export const pathIds = [
  "agent_id",
  "alignment_id",
  "auto_align_id",
  "benchmark_id",
  "capture_id",
  "document_id",
  "evaluation_id",
  "key_id",
  "model_id",
  "proposal_id",
  "response_id",
] as const;
export type Kind = (typeof pathIds)[number];

/** Fields of bodies and queries that name something that can be somebody's. */
export const named: Record<string, Kind> = {
  base_model: "model_id",
  base_model_id: "model_id",
  benchmark_id: "benchmark_id",
  capture_id: "capture_id",
  compared_with: "model_id",
  document_ids: "document_id",
  judge_model_id: "model_id",
  model: "model_id",
  model_id: "model_id",
  previous_response_id: "response_id",
  subject_id: "agent_id",
};

export interface Schema {
  properties?: Record<string, Schema>;
  items?: Schema;
  maxItems?: number;
  anyOf?: Schema[];
  oneOf?: Schema[];
  type?: string | string[];
  enum?: unknown[];
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
}

/** Every property of a schema, at any depth. */
export function* propertiesOf(schema: Schema, depth = 0): Generator<{ name: string; depth: number }> {
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    yield { name, depth };
    yield* propertiesOf(one, depth + 1);
  }
  if (schema.items) yield* propertiesOf(schema.items, depth + 1);
  for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) yield* propertiesOf(one, depth);
}

export const fieldsOf = (endpoint: Endpoint, part: "query" | "body"): string[] =>
  [...propertiesOf((endpoint[part] ?? {}) as Schema)].filter(({ depth }) => depth === 0).map(({ name }) => name);

/** What the requests are sent to: a house, or an appliance that is served. */
export type Asked = Pick<Scripted, "get" | "call" | "align" | "baseId" | "store" | "data" | "key">;

/** One of each kind. */
export type Ids = Record<Kind, string>;

export async function ownedBy(it: Asked, user: string, key: string): Promise<Ids> {
  const upload = async (name: "documents.upload" | "benchmarks.upload", file: string, content: string) =>
    (await it.call(name, { files: [{ name: `${user}-secret.${file}`, content }], key })).body;
  const items = ["Who", "Where"].map((ask) => JSON.stringify({ instruction: `${ask} is ${user}?`, response: "One." }));
  const { document_id } = (await upload("documents.upload", "txt", `${user} knows.`)).documents[0];
  const { benchmark_id } = await upload("benchmarks.upload", "jsonl", items.join("\n"));
  const { modelId: model_id, alignmentId: alignment_id } = await it.align(user);
  writeFileSync(join(it.data, `${user}.gguf`), "adapter");
  it.store
    .prepare<string[]>("UPDATE aligned_model SET adapter_path = ? WHERE id = ?")
    .run(join(it.data, `${user}.gguf`), model_id);
  const artefact = join(it.data, "runs", alignment_id, "artefact");
  mkdirSync(artefact, { recursive: true });
  writeFileSync(join(artefact, "report.html"), `<title>${user}-secret</title>`);
  const prepared = join(it.data, "runs", alignment_id, "prepared");
  mkdirSync(prepared, { recursive: true });
  const passage = { start: 0, end: 1, heading: `${user}-secret`, rows: 1, written: 0, none: null };
  const documents = [{ document_id: "d", name: `${user}-secret`, passages: [passage] }];
  const coverage = { content: 1, covered: 1, written: 0, documents };
  writeFileSync(join(prepared, "report.json"), JSON.stringify({ study: { coverage } }));
  const post = async (path: string, body: object) => {
    const response = await send(it, path, "POST", key, body);
    assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
    return (await response.json()) as any;
  };
  const recorded = await post(`/api/v3/alignment-projects/${alignment_id}/auto-align`, { target_score: 5 });
  const evaluation = await post("/api/v3/evaluations/create", { model_id: it.baseId, benchmark_id });
  const agent = await post("/api/v3/agents", { name: `${user}-secret`, base_model: it.baseId });
  const spare = await post("/api/v3/keys", { name: `${user}-secret` });
  const response_id = `resp_${user.padEnd(24, "0")}`;
  it.store
    .prepare<string[]>(
      `INSERT INTO response(id, owner_id, response_json, messages_json, created_at)
       VALUES(?, (SELECT id FROM user WHERE name = ?), '{}', '[]', '2026-01-01T00:00:00.000Z')`,
    )
    .run(response_id, user);
  const capture_id = `capture_${user}`;
  it.store
    .prepare<string[]>(
      `INSERT INTO capture(id, owner_id, kind, subject_id, model_id, question, answer, masked, created_seq, created_at)
       SELECT ?, id, 'agent', ?, 'm', ?, 'One.', 0, 1, '2026-01-01T00:00:00.000Z' FROM user WHERE name = ?`,
    )
    .run(capture_id, agent.data.id, `Who is ${user}-secret?`, user);
  const proposal_id = `proposal_${user}`;
  it.store
    .prepare<string[]>(
      `INSERT INTO auto_align_proposal(id, owner_id, alignment_id, created_seq, created_at)
       SELECT ?, owner_id, id, 1, '2026-01-01T00:00:00.000Z' FROM alignment WHERE id = ?`,
    )
    .run(proposal_id, alignment_id);
  return {
    capture_id,
    document_id,
    benchmark_id,
    model_id,
    alignment_id,
    auto_align_id: recorded.auto_align_id,
    evaluation_id: evaluation.evaluation_id,
    agent_id: agent.data.id,
    key_id: spare.id,
    proposal_id,
    response_id,
  };
}

/** A number as it shall be sent, which no JavaScript number is. */
export class RawNumber {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

const rawNumbers = (_: string, value: unknown): unknown => (value instanceof RawNumber ? `raw:${value.text}` : value);

export function send(
  it: Asked,
  path: string,
  method: string,
  key: string,
  body?: unknown,
  headers: object = {},
): Promise<Response> {
  return it.get(path, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body, rawNumbers).replace(/"raw:([^"]*)"/g, "$1") }),
  });
}

export const pathOf = (endpoint: Endpoint, ids: Ids): string =>
  endpoint.path.replace(/\{(\w+)\}/g, (_, name: Kind) => encodeURIComponent(ids[name]));

/** What the contract's example has, with that user's ids. */
function soundPart(it: Asked, endpoint: Endpoint, own: Ids, part: "query" | "body"): Record<string, unknown> {
  const made = endpoint[part] ? (exampleOf(endpoint[part], false) as Record<string, unknown>) : {};
  for (const name of Object.keys(made)) {
    const kind = named[name];
    if (kind) made[name] = name === "document_ids" ? [own[kind]] : name === "base_model_id" ? it.baseId : own[kind];
  }
  return made;
}

export const bodyOf = (it: Asked, endpoint: Endpoint, own: Ids): Record<string, unknown> =>
  soundPart(it, endpoint, own, "body");

/** A sound request of that user's, with the ids of `path` in its path and `changes` in its body or query. */
export function request(
  it: Asked,
  endpoint: Endpoint,
  own: Ids,
  path: Ids,
  key: string,
  changes: Record<string, unknown> = {},
): Promise<Response> {
  const ofPart = (part: "query" | "body") => {
    const fields = fieldsOf(endpoint, part);
    const changed = Object.entries(changes).filter(([name]) => fields.includes(name));
    return { ...soundPart(it, endpoint, own, part), ...Object.fromEntries(changed) };
  };
  const query = new URLSearchParams(ofPart("query") as Record<string, string>).toString();
  const body = endpoint.body ? ofPart("body") : undefined;
  return send(it, pathOf(endpoint, path) + (query === "" ? "" : `?${query}`), endpoint.method, key, body);
}
