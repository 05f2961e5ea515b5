// Questions of the appliance's own work to a chat model: of an upstream, which here is a small real server, and of this machine.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, describe, test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { noTraces } from "../../src/base/traces.ts";
import { patient } from "../../src/domain/inference/patient.ts";
import { createSaying, type Say } from "../../src/domain/inference/say.ts";
import type { SessionParts } from "../../src/domain/inference/session.ts";
import { prepareUsage } from "../../src/domain/inference/store.ts";
import { createForward } from "../../src/domain/inference/upstreams.ts";
import type { GeneratedToken, GenerateEnd, GenerateRequest, Tokenizer } from "../../src/engine/generator.ts";
import { openStore } from "../../src/store/open.ts";
import { letters } from "../helpers/letters.ts";

interface Body extends Record<string, unknown> {
  model: string;
  messages: { role: string; content: string }[];
  max_tokens: number;
}

const folder = mkdtempSync(join(tmpdir(), "plumbline-say-"));
const store = openStore(join(folder, "plumbline.db"));
store.prepare("INSERT INTO user VALUES('u', 'u', '')").run();
let log: Record<string, unknown>[];
let bodies: Body[];
/** Answers the request; the `count`th, from 1. */
let answer: (response: ServerResponse, body: Body, count: number) => void;

const server = createServer((request, response) => {
  let text = "";
  request.on("data", (part) => {
    text += part;
  });
  request.on("end", () => {
    bodies.push(JSON.parse(text) as Body);
    answer(response, bodies.at(-1)!, bodies.length);
  });
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
after(() => {
  server.closeAllConnections();
  server.close();
  store.close();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => {
  [log, bodies, answer] = [[], [], streamed("Well.")];
  store.prepare("DELETE FROM usage").run();
});

const event = (chunk: unknown): string => `data: ${JSON.stringify(chunk)}\n\n`;
const sent = (response: ServerResponse, ...events: string[]): void => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const one of events) response.write(one);
  response.end("data: [DONE]\n\n");
};
const delta = (content: unknown, finish_reason: string | null = null) =>
  event({ id: "a", choices: [{ index: 0, delta: { content }, finish_reason }] });
const streamed =
  (content: unknown, finish = "stop") =>
  (response: ServerResponse) =>
    sent(response, delta(content, finish));
const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
};
const refused = (message: string) => ({ error: { message } });

interface Local {
  tokenizer?: Tokenizer;
  text?: string;
  slotContext?: number;
}

/** `requests` are those that reached the engine of this machine. */
function sayer({ tokenizer = letters(), text = "Yes.", slotContext = 4096 }: Local = {}) {
  const requests: GenerateRequest[] = [];
  async function* generate(request: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void> {
    requests.push(request);
    const characters = [...text].slice(0, request.maxTokens);
    for (const character of characters) {
      const token = character.charCodeAt(0);
      const top = { tokens: new Int32Array(64).fill(token), logits: new Float32Array(64) };
      yield { token, text: character, logprob: 0, top, logZ: null, isForced: false };
    }
    const end = { promptTokens: request.prompt.length, cachedTokens: 0, completionTokens: characters.length };
    return { ...end, finishReason: characters.length < text.length ? "length" : "stop" };
  }
  const parts = {
    generator: { generate, kind: () => "text", tokenizer: () => tokenizer, slotContext },
    resolve: (_: unknown, name: string) => ({
      ...{ modelId: name, ref: { baseId: name, basePath: "/b" }, calibration: null },
      ...{ baseSha256: "b", adapterSha256: null, sources: null },
    }),
    lease: async () => ({ release: async () => {} }),
    usage: prepareUsage(store),
    clock: systemClock,
    log: createLog("debug", (line) => void log.push(JSON.parse(line) as Record<string, unknown>)),
    metrics: { tokens() {}, truncation() {}, firstToken() {}, token() {} },
    traces: noTraces,
  } as unknown as SessionParts;
  const upstreams = new Map([["far", { name: "far", url, key: "sk-secret" }]]);
  return { say: createSaying(parts, createForward({ ...parts, upstreams })), requests, parts };
}

const asker =
  (say: Say, provider: string | null) =>
  (content: string, { model = "big", maxTokens = 4000, signal = new AbortController().signal } = {}) =>
    say("u", { model, provider, key_id: "k" }, content, { maxTokens, signal });
const far = () => asker(sayer().say, "far");
const outcomes = () =>
  store
    .prepare<[], { outcome: string }>("SELECT outcome FROM usage ORDER BY outcome")
    .all()
    .map((row) => row.outcome);

describe("an upstream that is asked", () => {
  test("gets the message as a stream, with what changes something and no thinking", async () => {
    assert.deepEqual(await far()("Is it?", { maxTokens: 700 }), { text: "Well.", isWhole: true });
    assert.deepEqual(bodies, [
      {
        ...{ model: "big", messages: [{ role: "user", content: "Is it?" }] },
        ...{ temperature: 0, max_tokens: 700, stream: true, stream_options: { include_usage: true } },
      },
    ]);
  });

  test("may stop at the limit, which is told and logged", async () => {
    answer = streamed("We", "length");
    assert.deepEqual(await far()("Is it?"), { text: "We", isWhole: false });
    assert.ok(log.some((line) => line.event === "answer_cut_off" && line.tokens === 4000));
  });

  const answers: [what: string, content: unknown, text: string][] = [
    ["a thought before it", "<think>Hm.</think>\n\nWell.", "Well."],
    ["the end of a thought that the template began", "Hm.\n</think>Well.", "Well."],
    ["two thoughts", "<think>Hm.</think> So <think>Oh.</think> Well. ", "Well."],
    ["a thought that is cut off", "<think>Hm, Well.", ""],
    [
      "parts of text",
      [
        { type: "text", text: "We" },
        { type: "text", text: "ll." },
      ],
      "Well.",
    ],
    [
      "parts of other types",
      [
        { type: "thinking", thinking: [] },
        { type: "text", text: "Well." },
      ],
      "Well.",
    ],
    ["no content", null, ""],
  ];
  for (const [what, content, text] of answers)
    test(`may answer with ${what}, streamed and whole`, async () => {
      answer = streamed(content);
      assert.equal((await far()("Is it?")).text, text);
      answer = (response) => json(response, 200, { choices: [{ message: { content }, finish_reason: "length" }] });
      assert.deepEqual(await far()("Is it?"), { text, isWhole: false });
    });

  test("may send chunks of other forms", async () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2 };
    answer = (response) =>
      sent(
        response,
        ": keep waiting\n\n",
        event({ id: "a", prompt_filter_results: [] }),
        event({ id: "a", choices: [], usage: null }),
        event({ id: "a", choices: [{ index: 0, finish_reason: null }], usage }),
        delta("We"),
        delta("ll."),
        event({ id: "a", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
        event({ id: "a", choices: [], error: null }),
      );
    assert.deepEqual(await far()("Is it?"), { text: "Well.", isWhole: true });
    const row = store.prepare<[], object>("SELECT prompt_tokens, completion_tokens, outcome FROM usage").get();
    assert.deepEqual(row, { ...usage, outcome: "done" });
  });

  const failing: [what: string, body: unknown, code: string, words: RegExp][] = [
    [
      "an error with status 200",
      refused("the model is loading"),
      "upstream_failed",
      /far failed: the model is loading/,
    ],
    ["an error that is a text", { error: "no such model" }, "upstream_failed", /far failed: no such model/],
    ["an answer without choices", {}, "upstream_failed", /without choices/],
    ["JSON that is no object", "null", "upstream_failed", /./],
    ["what is no JSON", "<html>", "upstream_failed", /./],
  ];
  for (const [what, body, code, message] of failing)
    test(`fails in words with ${what}`, async () => {
      answer = (response) => json(response, 200, body);
      await assert.rejects(far()("Is it?"), { name: "Failure", code, message });
      assert.deepEqual(outcomes(), ["failed"]);
    });

  test("fails if the stream ends before the answer", async () => {
    answer = (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(delta("We"));
    };
    await assert.rejects(far()("Is it?"), { code: "upstream_failed", message: /broke off/ });
  });

  test("is asked without a temperature if it refuses it, and so from then on", async () => {
    answer = (response, { temperature }) =>
      temperature === undefined
        ? streamed("Well.")(response)
        : json(response, 400, refused(`'temperature' does not support ${temperature} with this model.`));
    const ask = far();
    assert.equal((await ask("Is it?")).text, "Well.");
    assert.deepEqual(
      bodies.map(({ temperature }) => temperature),
      [0, 1, undefined],
    );
    await ask("Is it?");
    assert.equal(bodies.length, 4);
    await ask("Is it?", { model: "small" });
    assert.equal(bodies.length, 7, "another model is another matter");
  });

  test("is asked for less if its context is too small, and so for messages that are as long", async () => {
    answer = (response, { messages, max_tokens }) =>
      messages[0]!.content.length + max_tokens <= 3000
        ? streamed("Well.")(response)
        : json(response, 400, refused("This model's maximum context length is 3000 tokens."));
    const limits = () => bodies.splice(0).map(({ max_tokens }) => max_tokens);
    const ask = far();
    await ask("a".repeat(1500));
    assert.deepEqual(limits(), [4000, 2000, 1000]);
    await ask("a".repeat(1600));
    assert.deepEqual(limits(), [1000]);
    await ask("a".repeat(700));
    assert.deepEqual(limits(), [4000, 2000]);
    await ask("a".repeat(700), { maxTokens: 600 });
    assert.deepEqual(limits(), [600]);
    await assert.rejects(ask("a".repeat(2600)), { code: "bad_request", message: /maximum context length/ });
    assert.deepEqual(limits(), [1000, 500]);
    assert.deepEqual(new Set(outcomes()), new Set(["done", "failed"]));
  });

  test("is not asked again for another refusal", async () => {
    answer = (response) => json(response, 400, refused("Your account is not active."));
    await assert.rejects(far()("Is it?"), { code: "bad_request", message: /not active/ });
    assert.equal(bodies.length, 1);
  });
});

describe("a model of this machine that is asked", () => {
  const here = (local: Local = {}) => {
    const { say, requests } = sayer(local);
    return { ask: asker(say, null), requests };
  };
  const promptOf = ({ prompt }: GenerateRequest): string => String.fromCharCode(...prompt);

  test("gets the whole message, however long", async () => {
    const { ask, requests } = here();
    const content = `Begin ${"and on ".repeat(400)}`;
    assert.deepEqual(await ask(content), { text: "Yes.", isWhole: true });
    assert.equal(promptOf(requests[0]!), `<user>${content}<assistant>`);
    assert.equal(requests[0]!.sampling.temperature, 0);
    assert.equal(requests[0]!.priority, "generation");
  });

  test("is not asked what its context has no room for", async () => {
    const { ask, requests } = here({ slotContext: 100 });
    await assert.rejects(ask("a".repeat(200)), { code: "prompt_too_long" });
    assert.equal(requests.length, 0);
  });

  test("may stop at the limit, but not for want of room", async () => {
    const text = "y".repeat(2000);
    const { ask } = here({ slotContext: 1000, text });
    assert.deepEqual(await ask("a".repeat(200), { maxTokens: 300 }), { text: "y".repeat(300), isWhole: false });
    const cut = await ask("a".repeat(200));
    assert.equal(cut.isWhole, false);
    await assert.rejects(ask("a".repeat(700)), { code: "prompt_too_long", message: /only 2\d\d tokens/ });
  });

  test("does not think", async () => {
    const chatTemplate =
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is false %}<think></think>{% endif %}";
    const { ask, requests } = here({ tokenizer: letters({ chatTemplate }), text: "Yes." });
    assert.equal((await ask("Is it?")).text, "Yes.");
    assert.equal(promptOf(requests[0]!), "Is it?<think></think>");
  });
});

describe("an upstream that cannot answer now", () => {
  /** Time passes only in waits. */
  const patiently = () => {
    const { say, parts } = sayer();
    const state = { ms: 0, waits: [] as number[] };
    const ask = asker(
      patient(say, {
        log: parts.log,
        clock: { monotonicMs: () => state.ms },
        random: () => 0,
        async sleep(ms) {
          state.waits.push(Math.round(ms / 1000));
          state.ms += ms;
        },
      }),
      "far",
    );
    return { ask, waits: state.waits };
  };
  const broken = (response: ServerResponse): void => void response.destroy();

  const passing: [what: string, fail: (response: ServerResponse) => void, seconds: number][] = [
    ...[408, 409, 425, 500, 502, 503, 529].map((status): (typeof passing)[number] => [
      `${status}`,
      (response) => json(response, status, {}),
      1,
    ]),
    ["429 with seconds", (response) => json(response, 429, {}, { "retry-after": "7" }), 7],
    ["503 with seconds", (response) => json(response, 503, {}, { "retry-after": "7" }), 7],
    [
      "429 with a date",
      (response) => json(response, 429, {}, { "retry-after": new Date(Date.now() + 90_000).toUTCString() }),
      90,
    ],
    ["a connection that breaks", broken, 1],
    ["JSON that cannot be read", (response) => json(response, 200, '{"choices": ['), 1],
  ];
  for (const [what, fail, seconds] of passing)
    test(`is asked again after ${what}`, async () => {
      answer = (response, _, count) => (count === 1 ? fail(response) : streamed("Well.")(response));
      const { ask, waits } = patiently();
      assert.equal((await ask("Is it?")).text, "Well.");
      assert.ok(waits.length === 1 && Math.abs(waits[0]! - seconds) <= 1, `${waits}`);
      assert.deepEqual(outcomes(), ["done", "failed"]);
    });

  const lasting: [status: number, code: string, words: RegExp][] = [
    [302, "upstream_failed", /answered 302/],
    [400, "bad_request", /because/],
    [401, "upstream_failed", /refused the key/],
    [403, "upstream_failed", /refused the key/],
    [404, "not_found", /because/],
    [422, "bad_request", /because/],
  ];
  for (const [status, code, message] of lasting)
    test(`is not asked again after ${status}`, async () => {
      answer = (response) => json(response, status, refused("because"), { location: "/elsewhere" });
      const { ask, waits } = patiently();
      await assert.rejects(ask("Is it?"), { code, message });
      assert.deepEqual([bodies.length, waits], [1, []]);
    });

  test("is given up after half an hour", async () => {
    answer = (response) => json(response, 503, {});
    await assert.rejects(patiently().ask("Is it?"), {
      code: "upstream_failed",
      message: "The upstream far answered 503 (retried for 30 minutes)",
    });
  });

  test("is not waited for once nobody wants the answer", async () => {
    const leaving = new AbortController();
    answer = (response) => {
      leaving.abort(new Error("left"));
      json(response, 503, {});
    };
    const { ask, waits } = patiently();
    await assert.rejects(ask("Is it?", { signal: leaving.signal }));
    assert.deepEqual([bodies.length, waits], [1, []]);
  });
});
