// A slot that cannot be made ready: the library is scripted here, since it does not fail on command.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import type { GenerateEnd, Tokenizer } from "../../src/engine/generator.ts";
import { Batcher } from "../../src/engine/serve/batcher.ts";
import type { NativeContext } from "../../src/engine/serve/binding.ts";
import type { OffloadedPrompts } from "../../src/engine/serve/offloaded.ts";
import { Turns } from "../../src/engine/serve/turns.ts";
import { requestOf } from "./engine-fixture.ts";

const refused = 7;

/** Says token 1 for ever. What `failing` names fails. */
function scripted(failing: { bias?: true; copy?: true }, offloaded: Partial<OffloadedPrompts> | null = null) {
  const context = {
    decode: async (parts: { logitsAt: readonly number[] }[]) => parts.map(({ logitsAt }) => logitsAt.map(() => 0)),
    openSampler: () => ({
      setBias: (bias: ReadonlyMap<number, number>) => {
        if (failing.bias && bias.has(refused)) throw new Error("no such sampler");
      },
      top: async () => ({ tokens: Int32Array.of(1, 2), logits: Float32Array.of(1, 0) }),
      dispose: () => {},
    }),
    clear: () => {},
    cut: () => true,
    copy: async () => {
      if (failing.copy) throw new Error("no room");
    },
    setAdapter: () => {},
    setThreads: () => {},
  };
  const tokenizer = { eog: new Set<number>(), bytesOf: () => new Uint8Array([97]) };
  const events: string[] = [];
  const batcher = new Batcher({
    context: context as unknown as NativeContext,
    tokenizer: tokenizer as unknown as Tokenizer,
    openGrammar: () => assert.fail("nobody asks for a grammar"),
    offloaded: offloaded as OffloadedPrompts | null,
    turns: new Turns(),
    ...{ slots: 4, slotContext: 128, batch: 64, prefill: 16, queueLimit: 8 },
    threads: () => 1,
    log: createLog("info", (line) => events.push(JSON.parse(line).event)),
  });
  const ask = async (prompt: number[], bias = new Map<number, number>()): Promise<GenerateEnd> => {
    const request = requestOf(prompt, { maxTokens: 4 });
    const stream = batcher.generate({ ...request, sampling: { ...request.sampling, logitBias: bias } }, "", null);
    for (;;) {
      const next = await stream.next();
      if (next.done) return next.value;
    }
  };
  return { ask, events, batcher };
}

const prompt = (first: number): number[] => Array.from({ length: 40 }, (_, at) => first + at);

test("a request whose slot cannot be set up fails alone: those beside it and after it are answered", async () => {
  const { ask, events, batcher } = scripted({ bias: true });
  const [one, other] = await Promise.allSettled([ask(prompt(1)), ask(prompt(100), new Map([[refused, 1]]))]);
  assert.equal(one.status, "fulfilled");
  assert.equal(other.status === "rejected" && other.reason.code, "inference_failed");
  assert.equal((await ask(prompt(200))).finishReason, "length");
  assert.deepEqual(events, ["admission_failed"]);
  assert.equal(batcher.snapshot().active, 0);
});

test("a beginning that cannot be copied fails who waits for it, not who computed it", async () => {
  const { ask, events, batcher } = scripted({ copy: true });
  const [first, second] = await Promise.allSettled([ask(prompt(1)), ask(prompt(1))]);
  assert.equal(first.status, "fulfilled");
  assert.equal(second.status === "rejected" && second.reason.code, "inference_failed");
  assert.deepEqual(events, ["admission_failed"]);
  assert.equal(batcher.snapshot().active, 0);
});

test("where a longer beginning cannot be restored, a shorter one in an idle slot is not read again", async () => {
  const own = [...prompt(1).slice(0, 20), ...prompt(200)];
  const lost = { key: "", owner: "ada", cells: own, descriptor: 0, bytes: 0, release: () => {} };
  let tries = 0;
  const { ask } = scripted(
    {},
    {
      find: ({ cells }) => (cells[30] === own[30] ? { offloaded: lost, length: own.length } : null),
      restore: async () => ++tries === 0,
      keep: async () => {},
    },
  );
  await ask(prompt(1));
  const { cachedTokens } = await ask(own);
  assert.deepEqual([tries, cachedTokens], [1, 20]);
});
