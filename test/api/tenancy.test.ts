// The tenancy matrix: every route × every kind of id, in path, query, body and header, as the wrong user. It is made from the
// contract: a route or a field that it does not know how to try fails it, so none can be forgotten.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { exampleOf } from "../../src/http/examples.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

const endpoints = Object.entries<Endpoint>(contract).filter(([, endpoint]) => !endpoint.open);

/** Ids in paths, each of something that is somebody's. */
const pathIds = [
  "agent_id",
  "alignment_id",
  "auto_align_id",
  "benchmark_id",
  "document_id",
  "evaluation_id",
  "key_id",
  "model_id",
  "response_id",
] as const;
type Kind = (typeof pathIds)[number];

/** Fields of bodies and queries that name something that can be somebody's. */
const named: Record<string, Kind> = {
  base_model: "model_id",
  base_model_id: "model_id",
  benchmark_id: "benchmark_id",
  document_ids: "document_id",
  model: "model_id",
  model_id: "model_id",
  previous_response_id: "response_id",
};

/** Fields that look like ids, and why they name nothing of another user's. */
const nobodys: Record<string, string> = {
  workflow_id: "a preset of the appliance",
  session_id: "counts within the caller's own agent",
  after_id: "a place in the caller's own list",
  before_id: "a place in the caller's own list",
  tool_call_id: "ties messages of one body together",
  tool_use_id: "ties messages of one body together",
  call_id: "ties items of one body together",
  id: "of a message, tool call or item of one body",
  user_id: "a label of the caller's own",
};

/** Headers, and what is proved of each below. */
const headerIds: Record<string, string> = {
  "x-session-id": "counts within the caller",
  "x-provider": "names an upstream of the appliance",
};

/** These filter the caller's own rows: what is another's matches none. */
const filters = new Set(["models.aligned base_model_id"]);

/** These are taken from clients that always send one, and not read: what answers is said by the path. */
const unread = new Set(["agents.completions model"]);

const looksLikeId = (name: string): boolean => /(^|_)ids?$/.test(name) || /^(base_)?model$/.test(name);

interface Schema {
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
}

/** Every property of a schema, at any depth. */
function* propertiesOf(schema: Schema, depth = 0): Generator<{ name: string; depth: number }> {
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    yield { name, depth };
    yield* propertiesOf(one, depth + 1);
  }
  if (schema.items) yield* propertiesOf(schema.items, depth + 1);
  for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) yield* propertiesOf(one, depth);
}

const fieldsOf = (endpoint: Endpoint, part: "query" | "body"): string[] =>
  [...propertiesOf((endpoint[part] ?? {}) as Schema)].filter(({ depth }) => depth === 0).map(({ name }) => name);

type Ids = Record<Kind, string>;

let it: Scripted;
let adas: Ids;
let bobs: Ids;
/** What nobody but ada and the appliance may know. */
let secrets: string[];

async function ownedBy(user: string, key: string): Promise<Ids> {
  const upload = async (name: "documents.upload" | "benchmarks.upload", file: string, content: string) =>
    (await it.call(name, { files: [{ name: `${user}-secret.${file}`, content }], key })).body;
  const item = JSON.stringify({ instruction: `Who is ${user}?`, response: "One." });
  const { document_id } = (await upload("documents.upload", "txt", `${user} knows.`)).documents[0];
  const { benchmark_id } = await upload("benchmarks.upload", "jsonl", `${item}\n`);
  const { modelId: model_id, alignmentId: alignment_id } = await it.align(user);
  writeFileSync(join(it.data, `${user}.gguf`), "adapter");
  it.store
    .prepare<string[]>("UPDATE aligned_model SET adapter_path = ? WHERE id = ?")
    .run(join(it.data, `${user}.gguf`), model_id);
  const post = async (path: string, body: object) => {
    const response = await send(path, "POST", key, body);
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
  return {
    document_id,
    benchmark_id,
    model_id,
    alignment_id,
    auto_align_id: recorded.auto_align_id,
    evaluation_id: evaluation.evaluation_id,
    agent_id: agent.data.id,
    key_id: spare.id,
    response_id,
  };
}

function send(path: string, method: string, key: string, body?: unknown, headers: object = {}): Promise<Response> {
  return it.get(path, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** A sound request of that user's, with the ids of `path` in its path and `changes` in its body or query. */
function request(endpoint: Endpoint, own: Ids, path: Ids, key: string, changes: Record<string, unknown> = {}) {
  const filled = endpoint.path.replace(/\{(\w+)\}/g, (_, name: Kind) => encodeURIComponent(path[name]));
  const ofPart = (part: "query" | "body") => {
    const made = endpoint[part] ? (exampleOf(endpoint[part], false) as Record<string, unknown>) : {};
    for (const name of Object.keys(made)) {
      const kind = named[name];
      if (kind) made[name] = name === "document_ids" ? [own[kind]] : name === "base_model_id" ? it.baseId : own[kind];
    }
    const fields = fieldsOf(endpoint, part);
    return { ...made, ...Object.fromEntries(Object.entries(changes).filter(([name]) => fields.includes(name))) };
  };
  const query = new URLSearchParams(ofPart("query") as Record<string, string>).toString();
  const body = endpoint.body ? ofPart("body") : undefined;
  return send(filled + (query === "" ? "" : `?${query}`), endpoint.method, key, body);
}

/** What differs between two answers for no reason of ours. */
const withoutRequestId = (text: string): string => text.replaceAll(/req_[0-9a-z]{24}/g, "req");

before(async () => {
  it = await scriptedHouse();
  adas = await ownedBy("ada", it.key);
  bobs = await ownedBy("bob", it.otherKey);
  const user = it.store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!;
  secrets = ["ada-secret", "ada knows", user.id, it.key, it.key.slice(0, 9)];
});
after(() => it.close());

/** Nothing that names ada may reach the answer or the log; the ids that bob himself sent are not counted. */
async function asBob(ask: () => Promise<Response>): Promise<{ status: number; text: string }> {
  const logged = it.log.length;
  const response = await ask();
  const text = await response.text();
  for (const secret of secrets) {
    assert.ok(!text.includes(secret), `the answer names ${secret}`);
    for (const line of it.log.slice(logged))
      assert.ok(!JSON.stringify(line).includes(secret), `the log names ${secret}: ${JSON.stringify(line)}`);
  }
  return { status: response.status, text };
}

describe("the matrix knows", () => {
  test("every id in a path", () => {
    for (const [name, { path }] of endpoints)
      for (const [, param] of path.matchAll(/\{(\w+)\}/g))
        assert.ok((pathIds as readonly string[]).includes(param!), `${name}: {${param}}`);
  });

  test("every field of a body or query that looks like an id", () => {
    for (const [name, endpoint] of endpoints)
      for (const part of ["body", "query"] as const)
        for (const { name: field, depth } of propertiesOf((endpoint[part] ?? {}) as Schema)) {
          const isVerbatim = depth > 0 && part === "body" && endpoint.verbatim !== undefined;
          if (!looksLikeId(field) || isVerbatim) continue;
          assert.ok((depth === 0 && named[field]) || nobodys[field], `${name}: ${part}.${field}`);
        }
  });

  test("every header", () => {
    for (const [name, endpoint] of endpoints)
      for (const { name: header } of propertiesOf((endpoint.headers ?? {}) as Schema))
        assert.ok(headerIds[header] || /^anthropic-/.test(header), `${name}: ${header}`);
  });
});

describe("another user's id in the path is not found, and is told from one that never was by nothing", () => {
  for (const [name, endpoint] of endpoints) {
    const params = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as Kind);
    for (const param of params)
      test(`${name} {${param}}`, async () => {
        const foreign = { ...bobs, [param]: adas[param] };
        const { status, text } = await asBob(() => request(endpoint, bobs, foreign, it.otherKey));
        assert.equal(status, 404, text);
        const never = { ...bobs, [param]: adas[param].replace(/.{4}$/, "zzzz") };
        const other = await asBob(() => request(endpoint, bobs, never, it.otherKey));
        assert.equal(other.status, 404);
        assert.equal(withoutRequestId(other.text), withoutRequestId(text));
      });
  }
});

describe("another user's id in a body or query is not found", () => {
  for (const [name, endpoint] of endpoints)
    for (const part of ["body", "query"] as const)
      for (const field of fieldsOf(endpoint, part).filter((one) => named[one]))
        test(`${name} ${part}.${field}`, async () => {
          const foreign = adas[named[field]!];
          const changes = { [field]: field === "document_ids" ? [bobs.document_id, foreign] : foreign };
          const { status, text } = await asBob(() => request(endpoint, bobs, bobs, it.otherKey, changes));
          if (unread.has(`${name} ${field}`)) assert.ok(!text.includes(foreign), text);
          else if (!filters.has(`${name} ${field}`)) assert.equal(status, 404, text);
          else assert.deepEqual(Object.values(JSON.parse(text) as object), [[]]);
        });
});

describe("lists hold the caller's own only", () => {
  for (const [name, endpoint] of endpoints.filter(([, { method, path }]) => method === "GET" && !path.includes("{")))
    test(name, async () => {
      const { text } = await asBob(() => request(endpoint, bobs, bobs, it.otherKey));
      for (const id of Object.values(adas)) assert.ok(!text.includes(id), `${id} in ${text}`);
    });
});

test("another user's session is none: each has the conversation of that name for itself", async () => {
  const headers = { "x-session-id": "shared" };
  const ask = (key: string) =>
    send(
      "/api/v3/inference/chat/completions",
      "POST",
      key,
      {
        model: it.baseId,
        messages: [{ role: "user", content: "Hello" }],
      },
      headers,
    );
  it.requests.length = 0;
  await ask(it.key);
  const { status } = await asBob(() => ask(it.otherKey));
  assert.equal(status, 200);
  const owners = it.requests.map(({ owner }) => owner);
  assert.equal(new Set(owners).size, 2);

  // An agent's saved conversation is its owner's: the same session of another user's agent begins anew.
  const agentOf = async (key: string): Promise<string> => {
    const body = { name: "a", base_model: it.baseId, conversation_saving_enabled: true };
    const made = (await (await send("/api/v3/agents", "POST", key, body)).json()) as { data: { id: string } };
    return made.data.id;
  };
  const tokens: number[] = [];
  for (const key of [it.key, it.otherKey]) {
    const path = `/api/v3/agents/${await agentOf(key)}/run`;
    const answer = await (await send(path, "POST", key, { message: "Hello" }, headers)).json();
    tokens.push((answer as { usage: { input_tokens: number } }).usage.input_tokens);
  }
  assert.equal(tokens[0], tokens[1]);
});

test("an upstream that is not configured is refused, whatever its name", async () => {
  const { status } = await asBob(() =>
    send("/api/v3/inference/chat/completions", "POST", it.otherKey, exampleOf(contract["inference.chat"].body, false), {
      "x-provider": "http://169.254.169.254/",
    }),
  );
  assert.equal(status, 422);
});

// Last, as some of these end what they ask for: each id opens to its owner, so that none of the above was a 404 for want of it.
describe("the owner finds each", () => {
  const last = endpoints.toSorted(([, a], [, b]) => Number(a.method === "DELETE") - Number(b.method === "DELETE"));
  for (const [name, endpoint] of last.filter(([, { path }]) => path.includes("{")))
    test(name, async () => {
      const response = await request(endpoint, adas, adas, it.key);
      const text = await response.text();
      assert.notEqual(response.status, 404, text);
      assert.notEqual(response.status, 422, text);
    });
});
