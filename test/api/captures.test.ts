// Captures over HTTP: nothing is kept until asked for, personal data is replaced before it is written, and what passes the filters
// becomes a document or a benchmark.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { places } from "../../src/base/config.ts";
import { filter, type Wanted } from "../../src/domain/captures/filter.ts";
import { forms, type Heard, overheard } from "../../src/domain/captures/forms.ts";
import type { CaptureRow } from "../../src/domain/captures/store.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

describe("captures", () => {
  let it: Scripted;
  let keyId: string;
  let agentId: string;
  before(async () => {
    it = await scriptedHouse();
    keyId = it.store
      .prepare<[], { id: string }>(
        "SELECT k.id FROM api_key AS k JOIN user AS u ON u.id = k.user_id WHERE u.name = 'ada'",
      )
      .get()!.id;
    const agent = { name: "desk", description: "d", base_model: it.baseId, system_prompt: "Be brief.", temperature: 0 };
    const made = await it.call("agents.create", { body: agent });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    agentId = made.body.data.id;
  });
  after(() => it.close());

  const chat = async (content: string, more: object = {}, key?: string): Promise<string> => {
    const { status, body } = await it.call("inference.chat", {
      body: { model: it.baseId, messages: [{ role: "user", content }], ...more },
      ...(key === undefined ? {} : { key }),
    });
    assert.equal(status, 200, JSON.stringify(body));
    return typeof body === "string" ? body : body.choices[0].message.content;
  };
  const set = (subject_id: string, enabled: boolean, more: object = {}, key?: string) =>
    it.call("captures.set", {
      body: { kind: subject_id === agentId ? "agent" : "key", subject_id, enabled, ...more },
      ...(key === undefined ? {} : { key }),
    });
  const kept = async (query = "limit=100") => (await it.call("captures.list", { query })).body;
  const select = (body: object) => it.call("captures.select", { body: { into: "document", name: "Asked", ...body } });

  test("off by default, for each key and agent by itself, and only for its owner to switch", async () => {
    await chat("When does the harbour open?");
    assert.deepEqual(await kept(), { captures: [], total: 0 });
    assert.equal((await set(keyId, true, {}, it.otherKey)).status, 404);
    assert.equal((await set(agentId, true, {}, it.otherKey)).status, 404);
    assert.equal((await set("key_none", true)).status, 404);
    assert.deepEqual((await set(keyId, true)).body, { kind: "key", subject_id: keyId, enabled: true, masking: true });
    const answer = await chat("When does the harbour open?");
    await chat("And of bob?", {}, it.otherKey);
    const { captures, total } = await kept();
    assert.equal(total, 1);
    assert.deepEqual([captures[0].question, captures[0].answer], ["When does the harbour open?", answer]);
    assert.deepEqual((await it.call("captures.list", { key: it.otherKey })).body.total, 0);
    const gone = await it.call("captures.delete", {
      params: { capture_id: captures[0].capture_id },
      key: it.otherKey,
    });
    assert.equal(gone.status, 404);
    assert.equal((await it.call("captures.delete", { params: { capture_id: captures[0].capture_id } })).status, 200);
    assert.equal((await set(keyId, false)).body.enabled, false);
    await chat("When does the harbour close?");
    assert.equal((await kept()).total, 0);
  });

  test("personal data is replaced before anything is written, unless the owner says otherwise", async () => {
    await set(keyId, true);
    const asked = "Write to ada.lovelace@example.org or call +44 20 7946 0958, then ada.lovelace@example.org again";
    await chat(asked);
    const [row] = (await kept()).captures;
    assert.equal(row.question, "Write to [email 1] or call [phone 2], then [email 1] again");
    assert.equal(row.masked, 2);
    const stored = JSON.stringify(it.store.prepare("SELECT * FROM capture").all());
    assert.ok(!stored.includes("lovelace") && !stored.includes("7946"));
    await set(keyId, true, { masking: false });
    await chat(asked);
    assert.equal((await kept()).captures[0].question, asked);
    await set(keyId, false);
  });

  test("streams are kept once they have ended, agents' answers by the agent", async () => {
    await set(keyId, true);
    await set(agentId, true);
    const whole = await chat("How long is the north pier?");
    const stream = await chat("How long is the north pier?", { stream: true });
    assert.match(stream, /data: \[DONE\]/);
    const run = await it.call("agents.run", {
      params: { agent_id: agentId },
      body: { message: "Who keeps the keys?" },
    });
    const completion = await it.call("agents.completions", {
      params: { agent_id: agentId },
      body: { messages: [{ role: "user", content: [{ type: "text", text: "Who locks up?" }] }] },
    });
    const { captures } = await kept("limit=4");
    assert.deepEqual(
      captures.map(({ kind, question, answer }: Record<string, string>) => [kind, question, answer]),
      [
        ["agent", "Who locks up?", completion.body.choices[0].message.content],
        ["agent", "Who keeps the keys?", run.body.response],
        ["key", "How long is the north pier?", whole],
        ["key", "How long is the north pier?", whole],
      ],
    );
    assert.equal((await kept(`subject_id=${agentId}`)).total, 2);
  });

  test("messages and responses are kept too, whole and streamed", async () => {
    const ask = async (path: string, body: object): Promise<string> => {
      const response = await it.get(path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: it.baseId, ...body }),
      });
      assert.equal(response.status, 200);
      return response.text();
    };
    const messages = { max_tokens: 20, messages: [{ role: "user", content: "Where is the crane?" }] };
    const message = JSON.parse(await ask("/api/v3/inference/messages", messages));
    await ask("/api/v3/inference/messages", { ...messages, stream: true });
    const responses = { input: [{ role: "user", content: [{ type: "input_text", text: "Where is the lock?" }] }] };
    const response = JSON.parse(await ask("/api/v3/inference/responses", responses));
    await ask("/api/v3/inference/responses", { ...responses, stream: true });
    await ask("/api/v3/inference/responses", { input: "Where is the gate?" });
    const { captures } = await kept("limit=5");
    const [gate, ...others] = captures.map(({ question, answer, model_id }: Record<string, string>) => [
      question,
      answer,
      model_id,
    ]);
    assert.equal(gate[0], "Where is the gate?");
    const lock = ["Where is the lock?", response.output[0].content[0].text, response.model];
    const crane = ["Where is the crane?", message.content[0].text, message.model];
    assert.deepEqual(others, [lock, lock, crane, crane]);
    for (const { capture_id } of captures) await it.call("captures.delete", { params: { capture_id } });
  });

  test("a response to no unused capture, and a second one to the same, are refused, and nothing is made", async () => {
    const [first, ...others] = (await kept(`subject_id=${agentId}`)).captures;
    const ofKey = (await kept(`subject_id=${keyId}`)).captures[0];
    const response = "At six";
    for (const [responses, at, told] of [
      [[{ capture: "capture_none", response }], 0, /unused/],
      [
        [
          { capture: first.capture_id, response },
          { capture: ofKey.capture_id, response },
        ],
        1,
        /unused/,
      ],
      [
        [
          { capture: first.capture_id, response },
          { capture: others[0].capture_id, response },
          { capture: first.capture_id, response: "At seven" },
        ],
        2,
        /answered twice/,
      ],
    ] as const) {
      const { status, body } = await select({ subject_id: agentId, responses });
      assert.equal(status, 422, JSON.stringify(body));
      assert.deepEqual(body.detail[0].loc, ["body", "responses", at, "capture"]);
      assert.match(body.detail[0].msg, told);
    }
    assert.equal((await it.call("documents.list")).body.total, 0);
  });

  test("a selection fails whose captures another request used or deleted meanwhile", async () => {
    for (const change of ["UPDATE capture SET used_in = 'document_other'", "DELETE FROM capture"]) {
      const before = await kept();
      it.store.prepare(`CREATE TRIGGER meanwhile AFTER INSERT ON document BEGIN ${change}; END`).run();
      try {
        const { status, body } = await select({});
        assert.deepEqual([status, body.error.code], [409, "conflict"], change);
      } finally {
        it.store.prepare("DROP TRIGGER meanwhile").run();
      }
      assert.deepEqual(await kept(), before);
      assert.equal((await it.call("documents.list")).body.total, 0);
      assert.deepEqual(readdirSync(places(it.data).uploads), []);
    }
  });

  test("what passes the filters becomes a document, once, and benchmark items with a person's answers", async () => {
    const made = await select({ name: "Asked in May", subject_id: keyId });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    assert.deepEqual(readdirSync(places(it.data).uploads), []);
    assert.match(made.body.id, /^document_/);
    assert.equal(made.body.left.duplicate, 1);
    const listed = (await it.call("documents.list")).body;
    assert.ok(JSON.stringify(listed).includes("Asked in May"));
    const used = (await kept()).captures.filter(({ used_in }: { used_in: string | null }) => used_in !== null);
    assert.equal(used.length, made.body.taken.length);
    const ofAgent = (await kept(`subject_id=${agentId}`)).captures;
    const responses = [{ capture: ofAgent[0].capture_id, response: "The warden" }];
    const items = await select({ into: "benchmark", name: "Desk", subject_id: agentId, responses });
    assert.deepEqual([items.status, items.body.left.unanswered], [200, 1]);
    assert.deepEqual(readdirSync(places(it.data).uploads), []);
    const again = await select({ subject_id: agentId, responses });
    assert.equal(again.status, 422, "a capture that was used");
    const data = await it.call("benchmarks.data", { params: { benchmark_id: items.body.id } });
    assert.deepEqual(
      [data.body.samples.length, data.body.samples[0].instruction, data.body.samples[0].response],
      [1, ofAgent[0].question, "The warden"],
    );
    // Now a benchmark's question, it is trained on no more.
    await it.call("agents.run", { params: { agent_id: agentId }, body: { message: "who locks up" } });
    const left = await select({ name: "More", subject_id: agentId });
    assert.equal(left.body.left.in_benchmark, 1);
  });

  test("a deleted agent is captured no more; what it said is its owner's still", async () => {
    const agent = { name: "gate", base_model: it.baseId };
    const subject_id = (await it.call("agents.create", { body: agent })).body.data.id;
    const setting = (enabled: boolean, id = subject_id, key = it.key) =>
      it.call("captures.set", { body: { kind: "agent", subject_id: id, enabled }, key });
    const enabledFor = async () =>
      (await it.call("captures.settings")).body.settings.map((one: { subject_id: string }) => one.subject_id);
    await setting(true);
    await it.call("agents.run", { params: { agent_id: subject_id }, body: { message: "Who opens the gate?" } });
    await it.call("agents.delete", { params: { agent_id: subject_id } });
    assert.ok(!(await enabledFor()).includes(subject_id));
    assert.equal((await kept(`subject_id=${subject_id}`)).total, 1);
    assert.equal((await it.call("captures.list", { query: `subject_id=${subject_id}`, key: it.otherKey })).status, 404);
    assert.equal((await select({ subject_id })).body.taken.length, 1);
    assert.equal((await setting(true)).status, 404, "it can answer no more");
    // Older versions left the setting of an agent that was deleted.
    it.store
      .prepare("INSERT INTO capture_setting SELECT 'agent', 'agent_gone', id, 1, '' FROM user WHERE name = 'ada'")
      .run();
    assert.equal((await setting(false, "agent_gone", it.otherKey)).status, 404);
    assert.equal((await setting(false, "agent_gone")).status, 200);
    assert.ok(!(await enabledFor()).includes("agent_gone"));
  });
});

const row = (id: string, question: string, answer: string, confidence: number | null = null): CaptureRow => ({
  ...{ id, question, answer, confidence, owner_id: "o", kind: "key", subject_id: "k", model_id: "m" },
  ...{ masked: 0, used_in: null, request_id: null, created_seq: 0, created_at: "" },
});

test("each filter leaves behind what it is for, and counts it", () => {
  const rows = [
    row("unsure", "What is the harbour fee?", "5", 20),
    row("unscored", "What is the pier fee?", "5"),
    row("sure", "What is the gate fee?", "5", 99),
    row("short", "Hi", "Hello", 80),
    row("empty", "What is the lock fee?", " ", 80),
    row("declined", "What is the dock fee?", "I don't know", 80),
    row("taken", "What is the quay fee?", "5 euros", 80),
    row("duplicate", "what is the QUAY fee", "6 euros", 80),
    row("known", "What is the crane fee?", "7 euros", 80),
    row("answered", "What is the berth fee?", "I don't know", 80),
  ];
  const wanted: Wanted = {
    into: "document",
    leastConfidence: 50,
    mostConfidence: 90,
    limit: 100,
    responses: new Map([["answered", "8 euros"]]),
    declines: (answer) => answer === "I don't know",
    benchmarkQuestions: ["What is the crane fee"],
  };
  const found = filter(rows, wanted);
  assert.deepEqual(
    found.taken.map(({ row: { id }, response }) => [id, response]),
    [
      ["taken", "5 euros"],
      ["answered", "8 euros"],
    ],
  );
  assert.deepEqual(found.left, {
    unsure: 2,
    sure: 1,
    short: 2,
    declined: 1,
    duplicate: 1,
    in_benchmark: 1,
    unanswered: 0,
  });
  assert.deepEqual(
    filter(rows, { ...wanted, into: "benchmark" }).taken.map(({ row: { id } }) => id),
    ["answered"],
  );
  assert.equal(filter(rows, { ...wanted, limit: 1 }).taken.length, 1);
});

test("a stream passes on as it is, whatever it says; one that fails or is not understood is not kept", async () => {
  const through = async (data: string[]) => {
    const ended: Heard[] = [];
    async function* events() {
      for (const one of data) yield { data: one };
    }
    const passed: string[] = [];
    for await (const event of overheard(forms.chat, events(), (heard) => void ended.push(heard)))
      passed.push(event.data);
    assert.deepEqual(passed, data);
    return ended;
  };
  const chunk = (content: string) => JSON.stringify({ model: "m", choices: [{ index: 0, delta: { content } }] });
  assert.deepEqual(await through([chunk("a"), chunk("b"), "[DONE]"]), [{ answer: "ab", model: "m", confidence: null }]);
  assert.deepEqual(await through([chunk("a"), '{"error":{"message":"gone"}}']), []);
  assert.deepEqual(await through([chunk("a"), "no JSON", "[DONE]"]), []);
  assert.deepEqual(await through(["null"]), []);
});
