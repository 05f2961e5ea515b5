// Answers without an engine: prompts, truncation, the shapes of replies and chunks, usage rows, and who ends what.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sha256 } from "../../src/base/files.ts";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { systemClock } from "../../src/base/time.ts";
import { noTraces } from "../../src/base/traces.ts";
import type { Calibration } from "../../src/confidence/calibration.ts";
import { groundingReference } from "../../src/confidence/grounding.ts";
import { sourceReference, sourceSpace } from "../../src/confidence/sources.ts";
import { chat as chatPromises } from "../../src/contract/chat.ts";
import { completions as completionPromises } from "../../src/contract/completions.ts";
import { type Caller, EventStream, type Input } from "../../src/contract/endpoint.ts";
import { compile } from "../../src/contract/validate.ts";
import { listenerOf } from "../../src/domain/inference/confidence.ts";
import type { DriftMeter } from "../../src/domain/inference/drift.ts";
import { createInference } from "../../src/domain/inference/index.ts";
import { type PromptField, promptsOf } from "../../src/domain/inference/prompts.ts";
import type { ServedModel } from "../../src/domain/inference/session.ts";
import { fitConversation } from "../../src/domain/inference/truncate.ts";
import type { ChatMessage } from "../../src/engine/format/chat-format.ts";
import type { GeneratedToken, GenerateEnd, GenerateRequest, Generator, Tokenizer } from "../../src/engine/generator.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { calibrationWith, modelOf } from "../helpers/calibration.ts";
import { letters } from "../helpers/letters.ts";

const contract = { ...completionPromises, ...chatPromises };
const folder = mkdtempSync(join(tmpdir(), "plumbline-inference-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const log = createLog("error", () => {});
const caller: Caller = { userId: "user_ada", userName: "ada", keyId: "key_ada" };

/** 1 begins a text. */
const tokenizer = letters({
  bos: 1,
  vocabulary: 300,
  trainContext: 64,
  chatTemplate:
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}",
  bytesOf: (token) => Uint8Array.of(token),
});

const token = (text: string): GeneratedToken => ({
  token: text.charCodeAt(0),
  text,
  logprob: -0.1,
  top: { tokens: new Int32Array(64).fill(text.charCodeAt(0)), logits: new Float32Array(64) },
  logZ: 1,
  isForced: false,
});

interface Script {
  /** What each request is answered with. */
  text?: (request: GenerateRequest) => string;
  /** Fails when the request arrives, or after that many tokens. */
  fails?: { after: number; failure: Failure };
  /** Waits for the signal after that many tokens. */
  hangsAfter?: number;
  /** Tokens of a slot, and of the context that the model was trained with. */
  slotContext?: number;
  trainContext?: number;
  /** Whether the model's template knows the marks of thoughts. */
  thinks?: boolean;
  /** Ids of the models that are listed. */
  models?: string[];
}

function fakeGenerator(script: Script) {
  const state = { running: 0, requests: [] as GenerateRequest[] };
  async function* generate(request: GenerateRequest): AsyncGenerator<GeneratedToken, GenerateEnd, void> {
    if (request.maxTokens === 0)
      return { finishReason: "length", promptTokens: request.prompt.length, cachedTokens: 0, completionTokens: 0 };
    state.requests.push(request);
    state.running++;
    try {
      const text = script.text?.(request) ?? "abcdefghijklmnopqrstuvwxyz";
      let drawn = 0;
      const end = (finishReason: GenerateEnd["finishReason"]): GenerateEnd => ({
        finishReason,
        promptTokens: request.prompt.length,
        cachedTokens: 1,
        completionTokens: drawn,
      });
      for (const character of text) {
        if (script.fails?.after === drawn) throw script.fails.failure;
        if (script.hangsAfter === drawn)
          await new Promise((resolve) => request.signal.addEventListener("abort", resolve, { once: true }));
        if (request.signal.aborted) return end("aborted");
        await new Promise((resolve) => setImmediate(resolve));
        drawn++;
        yield token(character);
        if (drawn === request.maxTokens) return end("length");
      }
      return end("stop");
    } finally {
      state.running--;
    }
  }
  const { slotContext = 64, trainContext = slotContext, thinks = false } = script;
  const chatTemplate = `${tokenizer.chatTemplate}${thinks ? "{# <think></think> #}" : ""}`;
  const model = { ...tokenizer, trainContext, chatTemplate };
  const generator = {
    generate,
    kind: () => "text",
    tokenizer: () => model,
    slotContext,
    score: async (_model: unknown, rows: readonly object[]) => rows.map(() => Float64Array.of(-1)),
  } as unknown as Generator;
  return { generator, state };
}

let stores = 0;

const nearby: DriftMeter = { of: async () => ({ pValue: 0.5, reason: null, outOfDomain: 0 }) };

function open(
  script: Script = {},
  calibration: Calibration | null = null,
  drift = nearby,
  sources: ServedModel["sources"] = null,
) {
  const store: Store = openStore(join(folder, `${stores++}.db`));
  store.prepare<[string, string]>("INSERT INTO user VALUES(?, ?, '')").run(caller.userId, caller.userName);
  const { generator, state } = fakeGenerator(script);
  const leases = { held: 0 };
  const room = createInference({
    store,
    generator,
    clock: systemClock,
    log,
    traces: noTraces,
    engine: "this one",
    drift,
    resolve: (_caller, name) => {
      if (name !== "model_base") throw new Failure("not_found");
      const ref = { baseId: name, basePath: "/b" };
      return { modelId: name, ref, calibration, baseSha256: "b", adapterSha256: "a", sources };
    },
    hasDocument: (ownerId, id) => ownerId === caller.userId && id === "document_kept",
    upstreams: new Map(),
    onlyBase: () => "model_base",
    metrics: createMetrics({ version: "1", engine: "scripted", database: join(folder, "none.db"), freeDisk: 0 }),
    listModels: () =>
      (script.models ?? []).map((modelId) => ({
        modelId,
        name: modelId,
        kind: "text",
        owner: null,
        createdAt: "2026-01-01",
      })),
    lease: async () => {
      leases.held++;
      return { release: async () => void leases.held-- };
    },
  });
  let requests = 0;
  const headers: Record<string, string> = {};
  const setHeader = (name: string, value: string): void => void Object.assign(headers, { [name]: value });
  const ask = async (name: keyof typeof contract, given: object, signal = new AbortController().signal) => {
    const checked = compile(contract[name].body)({ model: "model_base", ...given });
    if (!checked.ok) throw new Failure("validation", "", { details: checked.details });
    const input = { params: {}, query: {}, headers: {}, files: [], lastEventId: null, requestId: `req_${requests++}` };
    return room.handlers[name](
      { ...input, body: checked.value, signal, setHeader } as unknown as Input<never> as never,
      caller,
    );
  };
  const usage = () =>
    store
      .prepare<[], { outcome: string; prompt_tokens: number; completion_tokens: number }>(
        "SELECT outcome, prompt_tokens, completion_tokens FROM usage ORDER BY request_id",
      )
      .all();
  return { ask, usage, leases, state, store, headers, handlers: room.handlers };
}

const chat = { messages: [{ role: "user", content: "hi" }] };

/** All events of a stream, each checked against its promise; the last must be [DONE]. */
async function chunksOf(name: keyof typeof contract, answer: unknown): Promise<Chunk[]> {
  assert(answer instanceof EventStream);
  const data: string[] = [];
  for await (const event of answer.events) data.push(event.data);
  assert.equal(data.pop(), "[DONE]");
  const check = compile(contract[name].events);
  return data.map((text) => {
    const chunk = JSON.parse(text) as Chunk;
    const result = check(structuredClone(chunk));
    assert(result.ok, JSON.stringify(result));
    return chunk;
  });
}

interface Chunk {
  id: string;
  choices: {
    index: number;
    delta?: { role?: string; content?: string };
    text?: string;
    message?: { content: string };
    finish_reason: string | null;
    confidence_score?: number | null;
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number };
  confidence_score?: number | null;
}

const until = async (holds: () => boolean): Promise<void> => {
  for (let round = 0; !holds(); round++) {
    assert(round < 200, "it never came true");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};

const thinking = "<think>hm</think>\n\n";

const failsWith = (code: string, loc?: unknown[]) => (error: unknown) => {
  assert(error instanceof Failure, String(error));
  assert.equal(error.code, code);
  if (loc) assert.deepEqual(error.details?.[0]?.loc, loc);
  return true;
};

describe("prompts", () => {
  const room = { maxTokens: 2, context: 64 };
  test("text, texts, ids and lists of ids are one choice each", async () => {
    assert.deepEqual(await promptsOf("ab", tokenizer, room), [[97, 98]]);
    assert.deepEqual(await promptsOf(["a", "b"], tokenizer, room), [[97], [98]]);
    assert.deepEqual(await promptsOf([5, 6], tokenizer, room), [[5, 6]]);
    assert.deepEqual(await promptsOf([[5], [6, 7]], tokenizer, room), [[5], [6, 7]]);
  });
  test("an empty text begins with the first token of all, or is refused where there is none", async () => {
    assert.deepEqual(await promptsOf("", tokenizer, room), [[1]]);
    await assert.rejects(
      promptsOf(["a", ""], { ...tokenizer, bos: null }, room),
      failsWith("validation", ["body", "prompt", 1]),
    );
  });
  test("ids out of the vocabulary are named", async () => {
    const places: [PromptField, (string | number)[]][] = [
      [
        [1, 300],
        ["body", "prompt", 1],
      ],
      [
        [[1], [2, 300]],
        ["body", "prompt", 1, 1],
      ],
    ];
    for (const [prompt, loc] of places)
      await assert.rejects(promptsOf(prompt, tokenizer, room), failsWith("validation", loc));
  });
  test("prompt and answer fit together or not at all", async () => {
    await promptsOf(new Array(62).fill(5), tokenizer, room);
    const long = [[1], new Array(63).fill(5)];
    await assert.rejects(promptsOf(long, tokenizer, room), failsWith("prompt_too_long"));
    const unread = { ...tokenizer, encode: () => assert.fail("what could never fit is read") };
    await assert.rejects(promptsOf("x".repeat(300_000), unread, room), failsWith("prompt_too_long"));
    // By their number, before one of them is looked at.
    await assert.rejects(promptsOf(new Array(1_000_000).fill(300), tokenizer, room), failsWith("prompt_too_long"));
  });
  test("others are served between one text and the next", async () => {
    let served = 0;
    const others = setInterval(() => served++, 1);
    const slow = {
      ...tokenizer,
      encode: () => {
        const end = performance.now() + 40;
        while (performance.now() < end);
        return [5];
      },
    };
    await promptsOf(["a", "b", "c", "d", "e"], slow, room);
    clearInterval(others);
    assert.ok(served >= 3, `${served} times`);
  });
});

describe("truncation", () => {
  const renderAfter = (tools: string) => (messages: readonly ChatMessage[]) => [
    ...tokenizer.encode(tools, false),
    ...messages.flatMap((m) => [0, ...tokenizer.encode(m.content, false)]),
  ];
  const words = (tokens: number[]) => tokens.map((id) => (id === 0 ? "|" : String.fromCharCode(id))).join("");
  const say = (role: string, content: string): ChatMessage => ({ role, content });
  const talk = [
    say("system", "S"),
    say("user", "one"),
    say("assistant", "two"),
    say("user", "three"),
    say("assistant", "four"),
    say("user", "five"),
  ];
  const calling = (content: string, ...results: string[]): ChatMessage[] => [
    say("user", "ask"),
    { ...say("assistant", content), toolCalls: results.map((_, at) => ({ id: `${at}`, name: "f", arguments: "{}" })) },
    ...results.map((result, at) => ({ ...say("tool", result), toolCallId: `${at}` })),
  ];
  /** For a conversation that is refused, the expected value is the length of its shortest prompt. */
  const rows: [name: string, messages: ChatMessage[], limit: number, expected: string | number, tools?: string][] = [
    ["what fits stays whole", talk, 100, "|S|one|two|three|four|five"],
    ["the oldest turns go, to where a user speaks", talk, 20, "|S|three|four|five"],
    ["the last message alone", talk, 8, "|S|five"],
    ["then its head is cut", talk, 5, "|S|ve"],
    ["system messages are never cut", talk, 2, 3],
    ["a system message alone too", [say("system", "long")], 3, 5],
    ["a single message", [say("user", "abcdef")], 4, "|def"],
    ["a call's text goes before the head of its result", calling("look", "result"), 5, "||ult"],
    ["a call without text", calling("", "result"), 5, "||ult"],
    ["a short result goes before the head of a long one", calling("look", "ab", "result"), 6, "|||ult"],
    ["tools are never cut", [say("user", "one")], 5, 7, "[long]"],
  ];
  for (const [name, messages, limit, expected, tools = ""] of rows)
    test(name, async () => {
      const render = renderAfter(tools);
      const fitted = await fitConversation(messages, limit, tokenizer, render);
      if (typeof fitted === "number") return assert.equal(fitted, expected);
      assert.equal(words(fitted.tokens), expected);
      assert.equal(fitted.truncated, render(messages).length - fitted.tokens.length);
    });
});

test("what cannot be cut to the limit stays whole where the slot holds it", async () => {
  const render = (messages: readonly ChatMessage[]) => messages.flatMap((m) => tokenizer.encode(m.content, false));
  const fit = (content: string) => fitConversation([{ role: "system", content }], 3, tokenizer, render, 5);
  assert.deepEqual(await fit("abcde"), { tokens: tokenizer.encode("abcde", false), truncated: 0 });
  assert.equal(await fit("abcdef"), 6);
});

test("others are served between one look for what fits and the next", async () => {
  let served = 0;
  const others = setInterval(() => served++, 1);
  const messages: ChatMessage[] = Array.from({ length: 64 }, () => ({ role: "user", content: "ab" }));
  const fitted = await fitConversation(messages, 126, tokenizer, (kept) => {
    const end = performance.now() + 40;
    while (performance.now() < end);
    return kept.flatMap(({ content }) => tokenizer.encode(content, false));
  });
  clearInterval(others);
  assert(typeof fitted !== "number");
  assert.equal(fitted.truncated, 2);
  assert.ok(served >= 3, `${served} times`);
});

describe("replies", () => {
  test("a chat of n choices: parallel, seeds apart, usage summed, confidence null on a base", async () => {
    const { ask, usage, leases, state } = open({ text: (request) => String.fromCharCode(97 + request.sampling.seed) });
    const answer = (await ask("inference.chat", { ...chat, n: 3, seed: 1, max_tokens: null })) as never as Chunk;
    assert(compile(contract["inference.chat"].reply)(structuredClone(answer)).ok);
    assert.deepEqual(
      answer.choices.map((choice) => choice.message!.content),
      ["b", "c", "d"],
    );
    assert.equal(answer.usage!.completion_tokens, 3);
    assert.equal(answer.confidence_score, null);
    // Prompt and answer share the slot.
    assert(state.requests.every((request) => request.prompt.length + request.maxTokens === 64));
    await until(() => leases.held === 0);
    assert.deepEqual(usage(), [{ outcome: "done", prompt_tokens: answer.usage!.prompt_tokens, completion_tokens: 3 }]);
  });

  test("completions of several prompts; max_tokens 0 draws nothing", async () => {
    const { ask, state } = open();
    const answer = (await ask("inference.completions", { prompt: ["a", "bc"], max_tokens: 2 })) as never as Chunk;
    assert(compile(contract["inference.completions"].reply)(structuredClone(answer)).ok);
    assert.deepEqual(
      answer.choices.map((choice) => [choice.text, choice.finish_reason]),
      [
        ["ab", "length"],
        ["ab", "length"],
      ],
    );
    assert.equal(answer.usage!.prompt_tokens, 3);
    const none = (await ask("inference.completions", { prompt: "a", max_tokens: 0 })) as never as Chunk;
    assert.deepEqual(
      none.choices.map((choice) => [choice.text, choice.finish_reason]),
      [["", "length"]],
    );
    assert.equal(state.requests.length, 2);
  });

  test("an answer has one call where parallel_tool_calls is false", async () => {
    const call = (name: string): string => `<tool_call>\n{"name": "${name}", "arguments": {}}\n</tool_call>`;
    const { ask } = open({ text: () => `${call("f")}\n${call("g")}`, slotContext: 4096 });
    const tools = ["f", "g"].map((name) => ({ type: "function", function: { name } }));
    const namesOf = async (parallel_tool_calls: boolean) => {
      const answer = (await ask("inference.chat", { ...chat, tools, parallel_tool_calls })) as never as {
        choices: { message: { tool_calls: { function: { name: string } }[] }; finish_reason: string }[];
      };
      const [{ message, finish_reason } = assert.fail()] = answer.choices;
      return [...message.tool_calls.map((one) => one.function.name), finish_reason];
    };
    assert.deepEqual(await namesOf(false), ["f", "tool_calls"]);
    assert.deepEqual(await namesOf(true), ["f", "g", "tool_calls"]);
  });

  test("a thought gets its share of the tokens that the slot has left, not of those that were requested", async () => {
    const { ask, state } = open({ thinks: true });
    await ask("inference.chat", { ...chat, reasoning: { effort: "medium" }, max_tokens: 1000 });
    const { steer, maxTokens } = state.requests[0]!;
    assert.equal(maxTokens, 64 - "<user>hi<a>".length);
    for (const letter of tokenizer.encode("<think>", true)) steer!(letter);
    let tokens = 1;
    while (steer!(97).take === undefined) assert.ok(tokens++ < maxTokens, "the thought is never closed");
    assert.equal(tokens, Math.floor(0.5 * maxTokens));
  });

  test("a cut conversation says so in a header and beside the usage", async () => {
    const { ask, headers } = open();
    const messages = [{ role: "user", content: "old words" }, ...chat.messages];
    const answer = (await ask("inference.chat", { messages, prompt_truncate_len: 16 })) as never as {
      usage: { prompt_tokens_details: { truncated_tokens: number } };
    };
    assert.equal(answer.usage.prompt_tokens_details.truncated_tokens, 15);
    assert.equal(headers["x-plumbline-truncated-tokens"], "15");
  });

  test("tools too long for the limit are refused as such, although the text is short", async () => {
    const { ask } = open({ slotContext: 4096 });
    const tools = [{ type: "function", function: { name: "f", description: "x".repeat(1500) } }];
    await assert.rejects(
      ask("inference.chat", { ...chat, tools }),
      /\(system messages, tools, .*\) has \d{4} tokens, which exceed the limit of 1500 tokens that prompt_truncate_len sets$/,
    );
  });

  const refusals: [string, keyof typeof contract, object, string][] = [
    ["an unknown model", "inference.chat", { ...chat, model: "/etc/passwd" }, "not_found"],
    [
      "a prompt that leaves no room",
      "inference.chat",
      { messages: [{ role: "user", content: "x".repeat(60) }], prompt_truncate_len: 100 },
      "prompt_too_long",
    ],
    ["prompt and answer over the context", "inference.completions", { prompt: "x".repeat(60) }, "prompt_too_long"],
    ["an id out of the vocabulary", "inference.completions", { prompt: [300] }, "validation"],
    ["mixed prompts", "inference.completions", { prompt: ["a", 1] }, "validation"],
    ["no messages", "inference.chat", { messages: [] }, "validation"],
    ["tools", "inference.chat", { ...chat, tools: [{}] }, "validation"],
    ["a temperature over 2", "inference.chat", { ...chat, temperature: 2.0000001 }, "validation"],
    ["n 0", "inference.chat", { ...chat, n: 0 }, "validation"],
  ];
  for (const [name, endpoint, body, code] of refusals)
    test(`${name} is refused, and nothing is billed or held`, async () => {
      const { ask, usage, leases } = open();
      await assert.rejects(ask(endpoint, body), failsWith(code));
      assert.deepEqual(usage(), []);
      assert.equal(leases.held, 0);
    });
});

describe("pages of models", () => {
  const { handlers } = open({ models: ["a", "b", "c", "d", "e"] });
  const rows: [query: object, page: string, hasMore: boolean][] = [
    [{}, "abcde", false],
    [{ limit: 2 }, "ab", true],
    [{ limit: 2, after_id: "c" }, "de", false],
    [{ limit: 2, before_id: "e" }, "cd", true],
    [{ limit: 2, before_id: "c" }, "ab", false],
    [{ limit: 2, before_id: "a" }, "", false],
    [{ before_id: "c" }, "ab", false],
    [{ limit: 1, after_id: "a", before_id: "d" }, "b", true],
    [{ after_id: "d", before_id: "b" }, "", false],
  ];
  for (const [query, page, hasMore] of rows)
    test(JSON.stringify(query), async () => {
      const { data, has_more, first_id, last_id } = await handlers["inference.models"]({ query } as never, caller);
      assert.equal(data.map(({ id }) => id).join(""), page);
      assert.deepEqual([has_more, first_id, last_id], [hasMore, page[0] ?? null, page.at(-1) ?? null]);
    });
});

test("every prompt that fits a slot is counted", async () => {
  const { handlers } = open({ slotContext: 65_536 });
  const asked = { headers: {}, signal: new AbortController().signal };
  const body = { model: "model_base", messages: [{ role: "user", content: "x".repeat(40_000) }] };
  const counted = await handlers["inference.count_tokens"]({ ...asked, body } as never, caller);
  assert.equal(counted.input_tokens, "<user>".length + 40_000 + "<a>".length);
});

describe("a model whose own context is smaller than a slot", () => {
  const small = { slotContext: 64, trainContext: 32 };
  test("prompt and answer fit it", async () => {
    const { ask } = open(small);
    await ask("inference.completions", { prompt: "x".repeat(30), max_tokens: 2 });
    const long = ask("inference.completions", { prompt: "x".repeat(30), max_tokens: 20 });
    await assert.rejects(long, failsWith("prompt_too_long"));
    const body = { messages: [{ role: "user", content: "x".repeat(30) }] };
    await assert.rejects(ask("inference.chat", { ...body, prompt_truncate_len: 1000 }), failsWith("prompt_too_long"));
  });

  test("a chat that sets no limit is cut to leave room for the answer, and a system text may take that room", async () => {
    const tokensOf = async (messages: object[], more: object): Promise<(number | undefined)[]> => {
      const { ask } = open(small);
      const { usage } = (await ask("inference.chat", { messages, ...more })) as never as {
        usage: { prompt_tokens: number; prompt_tokens_details: { truncated_tokens: number } };
      };
      return [usage.prompt_tokens, usage.prompt_tokens_details.truncated_tokens];
    };
    const long = [{ role: "user", content: "x".repeat(30) }];
    for (const prompt_truncate_len of [undefined, null])
      assert.deepEqual(await tokensOf(long, { prompt_truncate_len }), [24, 15]);
    assert.deepEqual(await tokensOf(long, { max_tokens: 2 }), [30, 9]);
    assert.deepEqual(await tokensOf([{ role: "system", content: "x".repeat(18) }], {}), [29, 0]);
    const system = open(small).ask("inference.chat", { messages: [{ role: "system", content: "x".repeat(30) }] });
    await assert.rejects(
      system,
      /has 41 tokens, which exceed the limit of 24 tokens that the context of 32 tokens leaves for a prompt$/,
    );
  });

  test("its tokenizer names it", async () => {
    const { handlers } = open(small);
    const info = await handlers["inference.tokenizer_info"](
      { query: { model: "model_base" }, headers: {} } as never,
      caller,
    );
    assert.equal(info.model_max_length, 32);
    const read = await handlers["inference.tokenize"](
      { body: { model: "model_base", prompt: "a" }, headers: {} } as never,
      caller,
    );
    assert.equal(read.max_model_len, 32);
  });

  const around = { headers: {}, requestId: "req_1", signal: new AbortController().signal, setHeader: () => {} };
  test("truncation auto leaves room in it", async () => {
    const { handlers } = open(small);
    const input = ["x".repeat(20), "hi"].map((content) => ({ role: "user", content }));
    const body = { model: "model_base", input, truncation: "auto", max_output_tokens: 8 };
    const { usage } = (await handlers["inference.responses"]({ ...around, body } as never, caller)) as never as {
      usage: { input_tokens: number; input_tokens_details: { truncated_tokens: number } };
    };
    assert.deepEqual([usage.input_tokens, usage.input_tokens_details.truncated_tokens], [11, 26]);
  });

  test("documents are cut to it where they may be", async () => {
    const { handlers } = open({ slotContext: 256, trainContext: 128 });
    const body = { model: "model_base", query: "Why?", documents: ["x".repeat(200)], truncate: true };
    const { usage } = (await handlers["inference.rerank"]({ ...around, body } as never, caller)) as never as {
      usage: { prompt_tokens: number; truncated_tokens: number };
    };
    assert.equal(usage.prompt_tokens, 128);
    assert(usage.truncated_tokens > 72);
  });
});

describe("confidence", () => {
  /** Scores by the mean log-prob, −0.1 of every token here: 100·σ(10·(−0.1)) = 27. */
  const calibrationOf = (engine: string): Calibration =>
    calibrationWith({
      identity: {
        base_sha256: "b",
        adapter_sha256: "a",
        template_sha256: sha256(tokenizer.chatTemplate!),
        feature_source: "A",
        engine,
      },
      model: modelOf("logprob_mean", 10),
    });
  const behind = {
    calibrated: true,
    n: 120,
    reason: null,
    date: "2026-01-01T00:00:00.000Z",
    drift: { p_value: 0.5, reason: null },
  };
  const prior = "the prior of test is used";
  const word = { text: "abcdef", start: 0, end: 6, probability: Math.exp(-0.6) };
  type Answer = { confidence_score: number; confidence: Record<string, unknown> };
  const rows: [string, string, object, Answer][] = [
    [
      "a score and what stands behind it",
      "this one",
      { max_tokens: 6 },
      { confidence_score: 27, confidence: { ...behind, least_certain: word, sources: null } },
    ],
    [
      "one calibrated on another engine is void: the prior answers",
      "an older one",
      { max_tokens: 6 },
      {
        confidence_score: 50,
        confidence: {
          ...behind,
          calibrated: false,
          n: 0,
          reason: `Calibrated with another engine; ${prior}`,
          date: null,
          least_certain: word,
          sources: null,
        },
      },
    ],
    [
      "an empty answer",
      "this one",
      { max_tokens: 0 },
      {
        confidence_score: 0,
        confidence: {
          calibrated: false,
          n: 0,
          reason: "The answer is empty",
          date: null,
          drift: { p_value: null, reason: "The answer is empty" },
          least_certain: null,
          sources: null,
        },
      },
    ],
  ];
  const rounded = ({ confidence_score, confidence }: Answer): Answer =>
    JSON.parse(JSON.stringify({ confidence_score, confidence }), (_, value) =>
      typeof value === "number" ? Number(value.toFixed(9)) : value,
    );
  for (const [name, engine, body, expected] of rows)
    test(name, async () => {
      const { ask } = open({}, calibrationOf(engine));
      const answer = (await ask("inference.chat", { ...chat, ...body })) as never as Answer;
      assert.deepEqual(rounded(answer), rounded(expected));
    });

  test("a chat's least certain word is counted in the content, a completion's in the text with its thought", async () => {
    type Choice = { message: { content: string }; text: string };
    const { ask } = open({ thinks: true, text: () => `${thinking}Oslo it is` }, calibrationOf("this one"));
    const said = (await ask("inference.chat", chat)) as never as Answer & { choices: Choice[] };
    assert.equal(said.choices[0]!.message.content, "Oslo it is");
    const { probability: _, ...place } = said.confidence.least_certain as { probability: number };
    assert.deepEqual(place, { text: "Oslo", start: 0, end: 4 });
    const text = `${thinking}Oslo it is`;
    const written = (await ask("inference.completions", { prompt: "hi", max_tokens: 40 })) as never as typeof said;
    assert.equal(written.choices[0]!.text, text);
    const { start, end } = written.confidence.least_certain as { start: number; end: number };
    assert.equal(text.slice(start, end), "<think>hm</think>");
  });

  test("of a thought that never ends there is no least certain word", async () => {
    const { ask } = open({ thinks: true, text: () => "<think>hm" }, calibrationOf("this one"));
    assert.equal(((await ask("inference.chat", chat)) as never as Answer).confidence.least_certain, null);
  });

  test("drift is measured once for all choices of a question, by what the user wrote last", async () => {
    const asked: string[] = [];
    const meter = {
      of: async (_: Calibration, question: string) => {
        asked.push(question);
        return { pValue: 0.01, reason: null, outOfDomain: 0.5 };
      },
    };
    const { ask } = open({}, calibrationOf("this one"), meter);
    const messages = [
      { role: "user", content: "first" },
      { role: "assistant", content: "said" },
      { role: "user", content: "last" },
    ];
    const answer = (await ask("inference.chat", { messages, n: 2, max_tokens: 2 })) as never as Answer;
    assert.deepEqual(asked, ["last"]);
    assert.equal(answer.confidence_score, 13);
    assert.deepEqual(answer.confidence.drift, { p_value: 0.01, reason: null });
  });
});

test("an answer is scored by what the documents say for its text as it was given out", async () => {
  const calibration = calibrationWith({
    identity: {
      base_sha256: "b",
      adapter_sha256: "a",
      template_sha256: sha256(tokenizer.chatTemplate!),
      feature_source: "A",
      engine: "this one",
    },
    model: modelOf("grounding_share", 4),
    grounding: groundingReference(["It is abc."]),
  });
  // Without the encoder too: the words are enough.
  const unread = { of: async () => ({ pValue: null, reason: "No encoder", outOfDomain: null }) };
  for (const drift of [nearby, unread]) {
    const { ask } = open({}, calibration, drift);
    const scoreOf = async (body: object): Promise<number> =>
      ((await ask("inference.chat", { ...chat, ...body })) as never as { confidence_score: number }).confidence_score;
    // 100·σ(4) where its grounding is 1, 100·σ(0) where it is 0.
    assert.equal(await scoreOf({ max_tokens: 3 }), 98);
    assert.equal(await scoreOf({ max_tokens: 4 }), 50);
  }
});

describe("sources", () => {
  const passages = ["hi abc", "hi abd"].map((text, at) => ({
    document: ["document_kept", "document_gone"][at]!,
    start: 10 * at,
    end: 10 * at + 6,
    text,
  }));
  const space = sourceSpace(sourceReference(passages));
  /** A calibration that is void does not speak for the documents, which answer all the same. */
  const calibration = calibrationWith({ calibrated: false, reason: "none" });
  const kept = { document_id: "document_kept", start: 0, end: 6, grounding: 1, deleted: false };
  const gone = { document_id: "document_gone", start: 10, end: 16, grounding: 1, deleted: true };
  type Answer = { confidence: { sources: object[] | null } };
  const sourcesOf = async (text: string, body: object = {}, read = async (): Promise<typeof space | null> => space) => {
    const { ask } = open({ text: () => text }, calibration, nearby, read);
    const answer = (await ask("inference.chat", { ...chat, ...body })) as never as Answer;
    assert(compile(contract["inference.chat"].reply)(structuredClone(answer)).ok);
    return answer.confidence.sources;
  };

  const rows: [string, string, object[] | null][] = [
    ["the passage that an answer stands in", "abc", [kept]],
    ["a document that is gone", "abd", [gone]],
    ["none of an answer that stands nowhere", "xyz", []],
    ["both of an answer that repeats the question", "hi", [kept, gone]],
  ];
  for (const [name, text, expected] of rows)
    test(name, async () => {
      assert.deepEqual(await sourcesOf(text), expected);
    });

  test("are not known of an empty answer, nor where they cannot be read", async () => {
    assert.equal(await sourcesOf("abc", { max_tokens: 0 }), null);
    assert.equal(await sourcesOf("abc", {}, async () => null), null);
  });

  test("a thought is no part of the answer", async () => {
    const thinking = {
      ...tokenizer,
      specials: new Map([
        ["<think>", 200],
        ["</think>", 201],
      ]),
    } as Tokenizer;
    const listener = listenerOf(
      { calibration, baseSha256: "b", adapterSha256: "a", sources: async () => space },
      thinking,
      caller.userId,
      { engine: "this one", drift: nearby, hasDocument: () => true },
    )("hi");
    for (const character of "<think>what of xyz and pqr?</think>abc") listener.add(token(character));
    assert.deepEqual((await listener.score("stop"))!.sources, [kept]);
  });

  test("a stream names them with its confidence", async () => {
    const { ask } = open({ text: () => "abc" }, calibration, nearby, async () => space);
    for (const name of ["inference.chat", "inference.completions"] as const) {
      const body = name === "inference.chat" ? chat : { prompt: "hi" };
      const chunks = await chunksOf(name, await ask(name, { ...body, stream: true }));
      const last = chunks.at(-1) as Chunk & Answer;
      assert.deepEqual(last.confidence.sources, [kept], name);
    }
  });
});

describe("streams", () => {
  test("chat: the role once, text, an empty delta at the end, usage on request", async () => {
    const { ask } = open();
    const body = { ...chat, stream: true, max_tokens: 3, stream_options: { include_usage: true } };
    const chunks = await chunksOf("inference.chat", await ask("inference.chat", body));
    assert.deepEqual(
      chunks.map((chunk) => chunk.choices[0]?.delta ?? chunk.choices),
      [{ role: "assistant", content: "" }, { content: "a" }, { content: "b" }, { content: "c" }, {}, []],
    );
    assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
    assert.deepEqual(
      chunks.map((chunk) => chunk.choices[0]?.finish_reason),
      [null, null, null, null, "length", undefined],
    );
    assert.deepEqual(
      chunks.map((chunk) => "confidence_score" in chunk),
      [false, false, false, false, true, true],
    );
    assert.deepEqual(
      chunks.map((chunk) => "usage" in chunk),
      [false, false, false, false, false, true],
    );
  });

  test("completions: usage and confidence in the final chunk only", async () => {
    const { ask } = open();
    const body = { prompt: ["x", "y"], stream: true, max_tokens: 2 };
    const chunks = await chunksOf("inference.completions", await ask("inference.completions", body));
    assert.equal(chunks.length, 6);
    assert.deepEqual(
      chunks.map((chunk) => "usage" in chunk && "confidence_score" in chunk),
      [...Array(5).fill(false), true],
    );
    const of = (index: number) =>
      chunks
        .flatMap((chunk) => chunk.choices)
        .filter((choice) => choice.index === index)
        .map((choice) => choice.text)
        .join("");
    assert.deepEqual([of(0), of(1)], ["ab", "ab"]);
  });

  test("what fails before the first token fails the first event; what fails later, the stream", async () => {
    const busy = open({ fails: { after: 0, failure: new Failure("engine_busy") } });
    const first = (await busy.ask("inference.chat", { ...chat, stream: true })) as EventStream;
    await assert.rejects(chunksOf("inference.chat", first), failsWith("engine_busy"));
    const later = open({ fails: { after: 2, failure: new Failure("internal") } });
    const seen: string[] = [];
    const stream = (await later.ask("inference.chat", { ...chat, stream: true, n: 2 })) as EventStream;
    await assert.rejects(async () => {
      for await (const event of stream.events) seen.push(event.data);
    }, failsWith("internal"));
    assert(seen.length > 0 && !seen.includes("[DONE]"));
    await until(() => later.leases.held === 0 && later.state.running === 0);
    assert.deepEqual(
      later.usage().map((row) => row.outcome),
      ["failed"],
    );
  });
});

describe("a client that leaves", () => {
  const ways: [string, boolean][] = [
    ["streaming", true],
    ["not streaming", false],
  ];
  for (const [name, isStream] of ways)
    test(`${name}: the work ends, and its row says so`, async () => {
      const { ask, usage, leases, state } = open({ hangsAfter: 2 });
      const client = new AbortController();
      const answer = ask("inference.chat", { ...chat, stream: isStream, n: 2 }, client.signal);
      answer.catch(() => {});
      await until(() => state.running === 2);
      await new Promise((resolve) => setTimeout(resolve, 20));
      client.abort();
      await until(() => state.running === 0 && leases.held === 0);
      assert.deepEqual(
        usage().map((row) => [row.outcome, row.completion_tokens]),
        [["aborted", 4]],
      );
    });

  test("a stream that is left early ends the work", async () => {
    const { ask, usage, leases } = open({ hangsAfter: 3 });
    const stream = (await ask("inference.chat", { ...chat, stream: true })) as EventStream;
    for await (const event of stream.events) if (event.data.includes("b")) break;
    await until(() => leases.held === 0);
    assert.deepEqual(
      usage().map((row) => row.outcome),
      ["aborted"],
    );
  });
});

test("what was open when the appliance ended is interrupted", () => {
  const { store, usage } = open();
  store
    .prepare<[string, string]>("INSERT INTO usage VALUES('r', ?, ?, 'm', 1, 0, 'open', '', NULL)")
    .run(caller.userId, caller.keyId);
  createInference({ store, log, traces: noTraces, clock: systemClock, generator: { slotContext: 64 } } as never);
  assert.deepEqual(
    usage().map((row) => row.outcome),
    ["interrupted"],
  );
});
