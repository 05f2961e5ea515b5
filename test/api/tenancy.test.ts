// The tenancy matrix: every route × every kind of id, in path, query, body and header, as the wrong user. It is made from the
// contract: a route or a field that it does not know how to try fails it, so none can be forgotten.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { exampleOf } from "../../src/http/examples.ts";
import {
  fieldsOf,
  type Ids,
  type Kind,
  named,
  ownedBy,
  pathIds,
  propertiesOf,
  request,
  type Schema,
  send,
} from "../helpers/matrix.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

const endpoints = Object.entries<Endpoint>(contract).filter(([, endpoint]) => !endpoint.open);

/** Fields that look like ids, and why they name nothing of another user's. */
const nobodys: Record<string, string> = {
  workflow_id: "a preset of the appliance",
  session_id: "counts within the caller's own agent",
  request_id: "counts within the caller's own agent",
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
  "idempotency-key": "counts within the caller",
};

/** These filter the caller's own rows: what is another's matches none. */
const filters = new Set(["models.aligned base_model_id", "evaluations.list model_id", "evaluations.list benchmark_id"]);

/** These are taken from clients that always send one, and not read: what answers is said by the path. */
const unread = new Set(["agents.completions model"]);

const looksLikeId = (name: string): boolean => /(^|_)ids?$/.test(name) || /^(base_)?model$/.test(name);

let it: Scripted;
let adas: Ids;
let bobs: Ids;
/** What nobody but ada and the appliance may know. */
let secrets: string[];

/** What differs between two answers for no reason of ours. */
const withoutRequestId = (text: string): string => text.replaceAll(/req_[0-9a-z]{24}/g, "req");

before(async () => {
  it = await scriptedHouse();
  adas = await ownedBy(it, "ada", it.key);
  bobs = await ownedBy(it, "bob", it.otherKey);
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
        const { status, text } = await asBob(() => request(it, endpoint, bobs, foreign, it.otherKey));
        assert.equal(status, 404, text);
        const never = { ...bobs, [param]: adas[param].replace(/.{4}$/, "zzzz") };
        const other = await asBob(() => request(it, endpoint, bobs, never, it.otherKey));
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
          const { status, text } = await asBob(() => request(it, endpoint, bobs, bobs, it.otherKey, changes));
          if (unread.has(`${name} ${field}`)) assert.ok(!text.includes(foreign), text);
          else if (!filters.has(`${name} ${field}`)) assert.equal(status, 404, text);
          else {
            const { total = 0, ...lists } = JSON.parse(text) as { total?: number };
            assert.deepEqual([total, Object.values(lists)], [0, [[]]]);
          }
        });
});

describe("lists hold the caller's own only", () => {
  for (const [name, endpoint] of endpoints.filter(([, { method, path }]) => method === "GET" && !path.includes("{")))
    test(name, async () => {
      const { text } = await asBob(() => request(it, endpoint, bobs, bobs, it.otherKey));
      for (const id of Object.values(adas)) assert.ok(!text.includes(id), `${id} in ${text}`);
    });
});

test("another user's session is none: each has the conversation of that name for itself", async () => {
  const headers = { "x-session-id": "shared" };
  const ask = (key: string) =>
    send(
      it,
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
    const made = (await (await send(it, "/api/v3/agents", "POST", key, body)).json()) as { data: { id: string } };
    return made.data.id;
  };
  const tokens: number[] = [];
  for (const key of [it.key, it.otherKey]) {
    const path = `/api/v3/agents/${await agentOf(key)}/run`;
    const answer = await (await send(it, path, "POST", key, { message: "Hello" }, headers)).json();
    tokens.push((answer as { usage: { input_tokens: number } }).usage.input_tokens);
  }
  assert.equal(tokens[0], tokens[1]);
});

test("an upstream that is not configured is refused, whatever its name", async () => {
  const { status } = await asBob(() =>
    send(
      it,
      "/api/v3/inference/chat/completions",
      "POST",
      it.otherKey,
      exampleOf(contract["inference.chat"].body, false),
      {
        "x-provider": "http://169.254.169.254/",
      },
    ),
  );
  assert.equal(status, 422);
});

// Last, as some of these end what they ask for: each id opens to its owner, so that none of the above was a 404 for want of it.
describe("the owner finds each", () => {
  const last = endpoints.toSorted(([, a], [, b]) => Number(a.method === "DELETE") - Number(b.method === "DELETE"));
  for (const [name, endpoint] of last.filter(([, { path }]) => path.includes("{")))
    test(name, async () => {
      const response = await request(it, endpoint, adas, adas, it.key);
      const text = await response.text();
      assert.notEqual(response.status, 404, text);
      assert.notEqual(response.status, 422, text);
    });
});
