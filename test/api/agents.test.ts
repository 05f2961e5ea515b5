// Agents: what they are, that they answer as themselves, and what their figures are made of. The model answers by a script.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import OpenAI from "openai";
import { insertBase } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
type Any = any;

describe("agents", () => {
  let it: Scripted;
  before(async () => {
    it = await scriptedHouse();
  });
  after(() => it.close());

  const make = async (body: object = {}, key = it.key): Promise<Any> => {
    const given = { name: "helper", base_model: it.baseId, temperature: 0, ...body };
    const reply = await it.call("agents.create", { body: given, key });
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
    return reply.body.data;
  };
  const of = (agent: { id: string }) => ({ params: { agent_id: agent.id } });
  const run = (agent: { id: string }, message: string, headers = {}) =>
    it.call("agents.run", { ...of(agent), body: { message }, headers });
  const usageRows = () =>
    it.store.prepare<[], Record<string, unknown>>("SELECT * FROM usage ORDER BY created_at").all();

  test("are made, listed, read and deleted", async () => {
    const agent = await make({ description: "helps", system_prompt: "Be brief.", temperature: 0.5 });
    assert.match(agent.id, /^agent_/);
    assert.equal(agent.base_model, it.baseId);
    assert.equal(agent.creator, "ada");
    assert.equal(agent.status, "ACTIVE");
    assert.equal(agent.usage_count, 0);
    assert.equal(agent.last_used, null);
    assert.deepEqual(agent.performance_metrics, {
      average_uncertainty: null,
      human_interventions: null,
      average_response_time: null,
      user_satisfaction_score: null,
    });
    const other = await make({ name: "second" });
    const ids = async (query = "") =>
      (await it.call("agents.list", { query })).body.data.map((one: { id: string }) => one.id);
    assert.deepEqual((await ids()).slice(0, 2), [other.id, agent.id]);
    assert.deepEqual(await ids("limit=1&offset=1"), [agent.id]);
    assert.deepEqual((await it.call("agents.get", of(agent))).body.data, agent);
    assert.equal((await it.call("agents.delete", of(agent))).body.agent_id, agent.id);
    for (const name of ["agents.get", "agents.delete"] as const)
      assert.equal((await it.call(name, of(agent))).status, 404);
  });

  test("are edited field by field, and keep what they are known by", async () => {
    const agent = await make({ description: "helps", system_prompt: "Be brief.", conversation_saving_enabled: true });
    await run(agent, "Hello");
    const edit = (body: object, key = it.key) => it.call("agents.update", { ...of(agent), body, key });
    const { status, body } = await edit({ system_prompt: "Be kind.", temperature: 1.5 });
    assert.equal(status, 200, JSON.stringify(body));
    const { last_used, performance_metrics } = body.data;
    const changed = { system_prompt: "Be kind.", temperature: 1.5, usage_count: 1, last_used, performance_metrics };
    assert.deepEqual(body.data, { ...agent, ...changed });
    assert.deepEqual((await it.call("agents.get", of(agent))).body.data, body.data);
    it.requests.length = 0;
    await run(agent, "Hello");
    assert.match(it.requests[0]!.prompt, /Be kind\./);
    assert.equal(it.requests[0]!.temperature, 1.5);
    assert.equal((await it.call("agents.conversations", of(agent))).body.turns.length, 4);

    const other = insertBase(it.store, "another");
    const moved = (await edit({ base_model: "another", name: "mover", description: "" })).body.data;
    assert.deepEqual(
      [moved.base_model, moved.base_model_name, moved.name, moved.description],
      [other, "another", "mover", ""],
    );
    const wrong: [object, number, string?][] = [
      [{}, 422],
      [{ name: "" }, 422],
      [{ temperature: 3 }, 422],
      [{ creator: "bob" }, 422],
      [{ base_model: "model_none" }, 404],
      [{ name: "mine" }, 404, it.otherKey],
    ];
    for (const [given, expected, key] of wrong)
      assert.equal((await edit(given, key)).status, expected, JSON.stringify(given));
    assert.deepEqual((await it.call("agents.get", of(agent))).body.data.name, "mover");
  });

  test("are refused where a field is wrong, and the model must be the caller's", async () => {
    const wrong: [object, number][] = [
      [{ name: "" }, 422],
      [{ name: undefined }, 422],
      [{ base_model: undefined }, 422],
      [{ temperature: 2.1 }, 422],
      [{ temperature: "1" }, 422],
      [{ system_prompt: "x".repeat(20_001) }, 422],
      [{ conversation_saving_enabled: 1 }, 422],
      [{ tools: [] }, 422],
      [{ base_model: "model_none" }, 404],
    ];
    for (const [changes, status] of wrong) {
      const body = { name: "a", base_model: it.baseId, ...changes };
      assert.equal((await it.call("agents.create", { body })).status, status, JSON.stringify(changes));
    }
    const embedding = insertBase(it.store, "vectors");
    it.store.prepare<[string]>("UPDATE base_model SET kind = 'embedding' WHERE id = ?").run(embedding);
    const refused = await it.call("agents.create", { body: { name: "a", base_model: embedding } });
    assert.deepEqual([refused.status, refused.body.error.code], [422, "wrong_kind"]);
    const { modelId } = await it.align();
    it.store.prepare<[string]>("UPDATE aligned_model SET deployment_status = 'UNDEPLOYED' WHERE id = ?").run(modelId);
    const theirs = { name: "a", base_model: modelId };
    assert.equal((await it.call("agents.create", { body: theirs, key: it.otherKey })).status, 404);
    const agent = await make({ base_model: modelId });
    assert.equal(agent.status, "INACTIVE");
    assert.equal((await run(agent, "Hello")).status, 409);
    for (const body of [{}, { message: "" }, { message: 5 }, { message: "a", system: "b" }])
      assert.equal((await it.call("agents.run", { ...of(agent), body })).status, 422);
  });

  test("answer with and without the slash at the end, and every answer is one usage row", async () => {
    const agent = await make({ system_prompt: "You answer with one word." });
    const before_ = usageRows().length;
    for (const path of [`/api/v3/agents/${agent.id}/run/`, `/api/v3/agents/${agent.id}/run`]) {
      const response = await it.get(path, {
        method: "POST",
        headers: { authorization: `Bearer ${it.key}`, "content-type": "application/json" },
        body: JSON.stringify({ message: "Which colour has the sky?" }),
      });
      assert.equal(response.status, 200);
      const body = (await response.json()) as Any;
      assert.deepEqual(Object.keys(body).sort(), ["agent_id", "model", "response", "usage"]);
      assert.equal(body.agent_id, agent.id);
      assert.equal(body.model, it.baseId);
      assert.ok(body.response.length > 0);
      const { input_tokens, output_tokens, total_tokens } = body.usage;
      assert.equal(input_tokens + output_tokens, total_tokens);
      const row = usageRows().at(-1)!;
      assert.deepEqual([row.prompt_tokens, row.completion_tokens, row.outcome], [input_tokens, output_tokens, "done"]);
    }
    assert.equal(usageRows().length, before_ + 2);
    const after_ = (await it.call("agents.get", of(agent))).body.data;
    assert.equal(after_.usage_count, 2);
    assert.ok(after_.performance_metrics.average_response_time > 0);
    assert.equal(after_.performance_metrics.average_uncertainty, null);
    assert.ok(Date.parse(after_.last_used) >= Date.parse(agent.created_date));
  });

  test("speak as themselves: the same question gets the answer of the chat with their prompt and temperature", async () => {
    const system_prompt = "You are a pirate. Always say Arr.";
    const agent = await make({ system_prompt });
    const asked = [{ role: "user" as const, content: "Who are you?" }];
    it.requests.length = 0;
    const plain = await it.call("inference.chat", {
      body: {
        model: it.baseId,
        messages: [{ role: "system", content: system_prompt }, ...asked],
        temperature: 0,
        max_tokens: 200,
      },
    });
    const expected = plain.body.choices[0].message.content;
    const client = new OpenAI({ apiKey: it.key, baseURL: agent.endpoint.replace(/\/chat\/completions$/, "") });
    const whole = await client.chat.completions.create({ messages: asked, max_tokens: 200 } as Any);
    assert.equal(whole.choices[0]!.message.content, expected);
    let text = "";
    const stream = await client.chat.completions.create({ messages: asked, max_tokens: 200, stream: true } as Any);
    for await (const chunk of stream as unknown as AsyncIterable<Any>) text += chunk.choices[0]?.delta?.content ?? "";
    assert.equal(text, expected);
    assert.equal(new Set(it.requests.map(({ prompt }) => prompt)).size, 1);
    assert.deepEqual(
      it.requests.map(({ temperature }) => temperature),
      [0, 0, 0],
    );
    // A system message of the caller's comes after the agent's, in one.
    const two = await it.call("agents.completions", {
      ...of(agent),
      body: { messages: [{ role: "system", content: "Be brief." }, ...asked], max_tokens: 200 },
    });
    const both = await it.call("inference.chat", {
      body: {
        model: it.baseId,
        messages: [{ role: "system", content: `${system_prompt}\n\nBe brief.` }, ...asked],
        temperature: 0,
        max_tokens: 200,
      },
    });
    assert.equal(two.body.choices[0].message.content, both.body.choices[0].message.content);
    // The role developer is another name for system, so its message is merged too.
    it.requests.length = 0;
    await it.call("agents.completions", {
      ...of(agent),
      body: { messages: [{ role: "developer", content: "Be brief." }, ...asked] },
    });
    assert.equal(it.requests[0]!.prompt, `<system>${system_prompt}\n\nBe brief.<user>Who are you?<assistant>`);
    assert.equal((await it.call("agents.get", of(agent))).body.data.usage_count, 4);
  });

  test("have the whole context for a long system prompt and the conversation, less the room for the answer", async () => {
    const agent = await make({ system_prompt: "x".repeat(2500), conversation_saving_enabled: true });
    it.requests.length = 0;
    const session = { "x-session-id": "long" };
    assert.equal((await run(agent, "Hi")).status, 200);
    // A token is a character here: the second message fills the context, and the next one pushes it out.
    for (const message of ["y".repeat(1000), "How are you?"])
      assert.equal((await run(agent, message, session)).status, 200);
    const prompts = it.requests.map(({ prompt }) => prompt);
    assert.deepEqual(
      prompts.map((prompt) => prompt.length <= 3072 && prompt.startsWith(`<system>${"x".repeat(2500)}`)),
      [true, true, true],
    );
    assert.match(prompts[0]!, /x<user>Hi<assistant>$/);
    assert.match(prompts[1]!, /x<user>y{500,}<assistant>$/);
    assert.match(prompts[2]!, /<user>How are you\?<assistant>$/);

    const huge = await make({ system_prompt: "x".repeat(5000) });
    const refused = await run(huge, "Hi");
    assert.deepEqual([refused.status, refused.body.error.code], [422, "prompt_too_long"]);
    assert.doesNotMatch(refused.body.error.message, /prompt_truncate_len|truncation/);
    const limited = { messages: [{ role: "user", content: "Hi" }], prompt_truncate_len: 100 };
    const cut = await it.call("agents.completions", { ...of(agent), body: limited });
    assert.match(cut.body.error.message, /the limit of 100 tokens that prompt_truncate_len sets/);
  });

  test("go on with a saved conversation, and with no other", async () => {
    const agent = await make({ conversation_saving_enabled: true });
    const forgetful = await make();
    const inputTokens = async (to: Any, headers = {}): Promise<number> =>
      (await run(to, "My name is Ada.", headers)).body.usage.input_tokens;
    const session = { "x-session-id": "one" };
    const [first, second] = [await inputTokens(agent, session), await inputTokens(agent, session)];
    assert.ok(second > first + 5, `${first} ${second}`);
    assert.equal(await inputTokens(agent, { "x-session-id": "two" }), first);
    assert.equal(await inputTokens(agent), first);
    assert.equal(await inputTokens(agent), first);
    await inputTokens(forgetful, session);
    assert.equal(await inputTokens(forgetful, session), first);

    const { turns } = (await it.call("agents.conversations", { ...of(agent), query: "session_id=one" })).body;
    assert.deepEqual(
      turns.map(({ role, session_id }: Any) => [role, session_id]),
      [
        ["assistant", "one"],
        ["user", "one"],
        ["assistant", "one"],
        ["user", "one"],
      ],
    );
    const all = (await it.call("agents.conversations", { ...of(agent), query: "limit=100" })).body.turns;
    assert.equal(all.filter((turn: Any) => turn.session_id === null).length, 4);
    assert.deepEqual((await it.call("agents.conversations", of(forgetful))).body.turns, []);
    assert.equal((await it.call("agents.conversations", { ...of(agent), key: it.otherKey })).status, 404);
    assert.equal((await run(agent, "x", { "x-session-id": "a b" })).status, 422);
  });

  test("two at once in one conversation: the second knows the first", async () => {
    const agent = await make({ conversation_saving_enabled: true });
    const session = { "x-session-id": "race" };
    const replies = await Promise.all([run(agent, "One.", session), run(agent, "Two.", session)]);
    const tokens = replies.map(({ body }) => body.usage.input_tokens);
    assert.ok(tokens[1] > tokens[0] + 5, String(tokens));
    const { turns } = (await it.call("agents.conversations", of(agent))).body;
    assert.deepEqual(
      turns.map(({ role }: Any) => role),
      ["assistant", "user", "assistant", "user"],
    );
  });

  test("feedback makes satisfaction and interventions, and uncertainty comes from the answers of an aligned model", async () => {
    const { modelId } = await it.align();
    const agent = await make({ base_model: modelId });
    const feedback = (body: object, key = it.key) => it.call("agents.feedback", { ...of(agent), body, key });
    for (const body of [{}, { rating: 101 }, { rating: "5" }, { intervention: 1 }, { stars: 5 }])
      assert.equal((await feedback(body)).status, 422);
    assert.equal((await feedback({ rating: 5 }, it.otherKey)).status, 404);
    await feedback({ rating: 80 });
    await feedback({ rating: 60, intervention: true });
    const { performance_metrics: after_ } = (await feedback({ intervention: true })).body.data;
    assert.equal(after_.user_satisfaction_score, 70);
    assert.equal(after_.human_interventions, 2);

    const messages = [{ role: "user", content: "Hello" }];
    const score = (await it.call("agents.completions", { ...of(agent), body: { messages, max_tokens: 200 } })).body
      .confidence_score;
    assert.equal(typeof score, "number");
    const stream = await it.call("agents.completions", {
      ...of(agent),
      body: { messages, max_tokens: 200, stream: true },
    });
    assert.match(stream.body, /\[DONE\]/);
    const { performance_metrics, usage_count } = (await it.call("agents.get", of(agent))).body.data;
    assert.equal(usage_count, 2);
    assert.ok(Math.abs(performance_metrics.average_uncertainty - (100 - score)) < 1e-6);
    await it.call("agents.delete", of(agent));
    for (const table of ["agent_run", "agent_turn", "agent_feedback"]) {
      const rows = it.store.prepare<[string], { n: number }>(`SELECT count(*) AS n FROM ${table} WHERE agent_id = ?`);
      assert.equal(rows.get(agent.id)!.n, 0);
    }
  });

  test("spend their key's tokens, and are refused with chats once these are used up", async () => {
    const made = (await it.house.admin("key.create", { user: "ada", tokens_per_day: 60 })) as {
      id: string;
      key: string;
    };
    const agent = await make();
    const messages = [{ role: "user", content: "A question of some length, to spend tokens on" }];
    const asks = [
      () => it.call("agents.run", { ...of(agent), body: { message: messages[0]!.content }, key: made.key }),
      () => it.call("agents.completions", { ...of(agent), body: { messages }, key: made.key }),
      () => it.call("inference.chat", { body: { model: it.baseId, messages }, key: made.key }),
    ];
    const first = await asks[0]!();
    assert.equal(first.status, 200);
    const spent = first.body.usage.total_tokens;
    assert.ok(spent >= 60, `${spent}`);
    for (const ask of asks) {
      const { status, headers } = await ask();
      assert.equal(status, 429);
      assert.equal(headers.get("x-ratelimit-remaining-tokens"), "0");
    }
    assert.equal((await it.call("agents.get", { ...of(agent), key: made.key })).status, 200);
    assert.equal((await run(agent, "Hello")).status, 200);
    const own = usageRows().filter((row) => row.key_id === made.id);
    assert.deepEqual(
      own.map((row) => Number(row.prompt_tokens) + Number(row.completion_tokens)),
      [spent],
    );
    assert.ok(own[0]!.ended_at);
  });

  test("a stream under way outlives its key, and the next request does not", async () => {
    const made = (await it.house.admin("key.create", { user: "ada" })) as { id: string; key: string };
    const agent = await make();
    const response = await fetch(agent.endpoint, {
      method: "POST",
      headers: { authorization: `Bearer ${made.key}`, "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: "Hello" }], stream: true }),
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader.read()).value ?? "";
    await it.house.admin("key.revoke", { id: made.id });
    for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value;
    assert.ok(text.trimEnd().endsWith("data: [DONE]"), text.slice(-100));
    assert.equal((await it.call("agents.get", { ...of(agent), key: made.key })).status, 401);
  });

  test("another user's is not found, whatever is asked of it", async () => {
    const agent = await make();
    const key = it.otherKey;
    const bodies = {
      "agents.run": { message: "a" },
      "agents.completions": { messages: [{ role: "user", content: "a" }] },
    };
    for (const [name, body] of Object.entries({ "agents.get": undefined, "agents.delete": undefined, ...bodies }))
      assert.equal((await it.call(name as "agents.get", { ...of(agent), body, key })).status, 404);
    assert.deepEqual((await it.call("agents.list", { key })).body.data, []);
  });
});
