// Inference under /v1 of the host, where tools look that know no other place: the same answers, the same refusals.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

let it: Scripted;
before(async () => {
  it = await scriptedHouse();
});
after(() => it.close());

const messages = [{ role: "user" as const, content: "Hello" }];

test("OpenAI's client chats, streams and lists models at /v1", async () => {
  const clientAt = (path: string) => new OpenAI({ baseURL: `${it.url}${path}`, apiKey: it.key, maxRetries: 0 });
  const [root, long] = [clientAt("/v1"), clientAt("/api/v3/inference")];
  const said = async (client: OpenAI) =>
    (await client.chat.completions.create({ model: it.baseId, messages })).choices[0]!.message.content;
  assert.equal(await said(root), await said(long));
  const streamed = root.chat.completions.stream({ model: it.baseId, messages });
  assert.equal((await streamed.finalChatCompletion()).choices[0]!.message.content, await said(long));
  assert.deepEqual((await root.models.list()).data, (await long.models.list()).data);
  await assert.rejects(root.models.retrieve("model_none"), OpenAI.NotFoundError);
});

test("a key is asked there as under /api, in either header, whether the path leads anywhere or not", async () => {
  const ask = async (path: string, headers: Record<string, string> = {}) =>
    (await fetch(it.url + path, { headers })).status;
  for (const path of ["/v1/models", "/v1/nothing", "/v1"]) {
    assert.equal(await ask(path), 422, path);
    assert.equal(await ask(path, { authorization: "Bearer wrong" }), 401, path);
    assert.equal(await ask(path, { "x-api-key": "wrong" }), 401, path);
  }
  assert.equal(await ask("/v1/models", { "x-api-key": it.key }), 200);
  assert.equal(await ask("/v1/nothing", { authorization: `Bearer ${it.key}` }), 404);
  const { key } = (await it.call("keys.create", { body: { scopes: ["documents"] } })).body;
  assert.equal(await ask("/v1/models", { authorization: `Bearer ${key}` }), 403);
});

test("an unknown path has a hint of its own, and so has an id that is not there", async () => {
  const failureAt = async (path: string) =>
    ((await (await it.get(path)).json()) as { error: { code: string; hint: string } }).error;
  for (const path of ["/api/v3/nothing", "/v1/nothing", "/nothing", "/api/v3/documents/"]) {
    const { code, hint } = await failureAt(path);
    assert.deepEqual([code, /openapi\.json/.test(hint)], ["unknown_path", true], path);
  }
  const { code, hint } = await failureAt("/api/v3/documents/document_x");
  assert.deepEqual([code, /openapi\.json/.test(hint)], ["not_found", false]);
});

test("Messages' errors have their own form there too", async () => {
  const response = await it.get("/v1/messages", {
    method: "POST",
    body: "{}",
    headers: { "content-type": "application/json" },
  });
  assert.equal(response.status, 422);
  assert.equal(((await response.json()) as { type: string }).type, "error");
});
