// How many threads evaluations and scorings are computed with: as many as are fastest now, and never to another result.
import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { type NativeContext, openNative } from "../../src/engine/serve/binding.ts";
import { FixedLane } from "../../src/engine/serve/fixed-lane.ts";
import { ThreadChoice } from "../../src/engine/serve/thread-choice.ts";
import { Turns } from "../../src/engine/serve/turns.ts";
import { starterModel } from "./engine-fixture.ts";

/** Always so many, whatever they take. */
class FixedChoice extends ThreadChoice {
  private readonly threads: number;

  constructor(threads: number) {
    super();
    this.threads = threads;
  }

  override next(): number {
    return this.threads;
  }

  override took(): void {}
}

test("texts and log-probs are the same to the last bit with one thread and with several", async () => {
  const native = await openNative(createLog("error"));
  const model = await native.openModel(starterModel);
  const context = await model.openContext({ sequences: 4, slotContext: 640, batch: 256, threads: 3 });
  const encode = (text: string): number[] => model.tokenizer.encode(text, false);
  // One is longer than a read, and so long that a single token's attention is cut; its last read is of one token.
  const long = encode("The warehouse keeps lamps, heaters and sprinklers of every size. ".repeat(50)).slice(0, 513);
  const prompts = [long, ...["Once upon a time", "The capital of France", "Two and two"].map(encode)];
  const with_ = async (threads: number) => {
    const lane = new FixedLane({
      ...{ context, tokenizer: model.tokenizer, turns: new Turns(), width: 4, slotContext: 640, batch: 256 },
      ...{ threads: 3, threadChoice: new FixedChoice(threads), threadsFree: () => threads },
    });
    const said: unknown[] = [];
    const onItem = (_: number, { text, steps }: { text: string; steps: { top: { logits: Float32Array } }[] }) =>
      void said.push([text, steps.map(({ top }) => [...top.logits])]);
    const signal = new AbortController().signal;
    await lane.evaluate(null, { prompts, maxTokens: 4, startAt: 0, signal, onItem });
    const scored = await lane.score(null, [{ tokens: [...long, 5], promptLength: long.length }], signal);
    lane.dispose();
    return JSON.stringify([said, scored.map((row) => [...row])]);
  };
  try {
    const one = await with_(1);
    assert.ok(one.length > 1000);
    // More threads than cores wait for one another: it takes long, and shows nothing more.
    for (const threads of availableParallelism() > 2 ? [2, 3] : [2]) assert.equal(await with_(threads), one);
  } finally {
    await context.dispose();
    await model.dispose();
  }
});

test("an answer's seconds include the step that ends it", async () => {
  const context = {
    openSampler: () => ({
      top: async () => ({ tokens: Int32Array.of(7), logits: Float32Array.of(1) }),
      dispose: () => {},
    }),
    ...{ clear: () => {}, setAdapter: () => {}, setThreads: () => {} },
    decode: async (parts: unknown[]) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return parts.map(() => [0]);
    },
  } as unknown as NativeContext;
  const tokenizer = { eog: new Set(), bytesOf: () => new Uint8Array() };
  const lane = new FixedLane({
    ...{ context, tokenizer: tokenizer as never, turns: new Turns(), width: 1, slotContext: 512, batch: 64 },
    ...{ threads: 1, threadChoice: new ThreadChoice(), threadsFree: () => 1 },
  });
  const secondsFor = async (maxTokens: number): Promise<number> => {
    let seconds = 0;
    const onItem = (_: number, answer: { seconds: number }): void => {
      seconds = answer.seconds;
    };
    const { signal } = new AbortController();
    await lane.evaluate(null, { prompts: [[1, 2]], maxTokens, startAt: 0, signal, onItem });
    return seconds;
  };
  // The first token comes with the prompt, each other one with a step of its own.
  for (const tokens of [1, 3]) {
    const seconds = await secondsFor(tokens);
    assert.ok(seconds > 0.018 * tokens, `${tokens} tokens in ${seconds} s`);
  }
});

test("an evaluation goes on with fewer threads where a step takes many times as long with all", async () => {
  let threads = 2;
  const used: number[] = [];
  const context = {
    openSampler: () => ({
      top: async () => ({ tokens: Int32Array.of(7), logits: Float32Array.of(1) }),
      dispose: () => {},
    }),
    clear: () => {},
    setAdapter: () => {},
    setThreads: (count: number) => {
      threads = count;
    },
    decode: async (parts: unknown[]) => {
      used.push(threads);
      await new Promise((resolve) => setTimeout(resolve, threads === 1 ? 2 : 30));
      return parts.map(() => [0]);
    },
  } as unknown as NativeContext;
  const tokenizer = { eog: new Set(), bytesOf: () => new Uint8Array() };
  const lane = new FixedLane({
    ...{ context, tokenizer: tokenizer as never, turns: new Turns(), width: 2, slotContext: 512, batch: 64 },
    ...{ threads: 2, threadChoice: new ThreadChoice(), threadsFree: () => 2 },
  });
  const signal = new AbortController().signal;
  await lane.evaluate(null, {
    prompts: [
      [1, 2],
      [1, 2],
    ],
    maxTokens: 60,
    startAt: 0,
    signal,
    onItem: () => {},
  });
  assert.ok(used.includes(2));
  assert.ok(
    used.slice(-20).every((count) => count === 1),
    used.join(" "),
  );
});
