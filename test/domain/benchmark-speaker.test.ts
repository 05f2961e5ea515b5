// What writers ask of a model reaches the generator as plain tokens, and comes back in the order it was asked in.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createSpeaker } from "../../src/domain/benchmarks/create/speaker.ts";
import type { EvaluateRequest, Generator, ModelRef } from "../../src/engine/generator.ts";

const ref: ModelRef = { baseId: "base", basePath: "/none", adapter: { id: "writer", path: "/none" } };
const encode = (text: string): number[] => [...text].map((character) => character.charCodeAt(0));
const decode = (tokens: readonly number[]): string => String.fromCharCode(...tokens);
const { signal } = new AbortController();

const generator = (more: object): Generator =>
  ({ tokenizer: () => ({ encode, decode, trainContext: 64 }), seatContext: 40, ...more }) as unknown as Generator;

test("a prompt that leaves no room for an answer is not asked, and has none; the others keep their places", async () => {
  const asked: string[] = [];
  const speaker = createSpeaker(
    generator({
      evaluate: async ({ model, prompts, onItem }: EvaluateRequest) => {
        assert.equal(model, ref);
        prompts.forEach((prompt, index) => {
          asked.push(decode(prompt));
          const text = decode(prompt).toUpperCase();
          onItem(index, { text, tokens: [], steps: [], finishReason: "stop", seconds: 0 });
        });
      },
    }),
    ref,
    signal,
  );
  const greedy = { maxTokens: 10, temperature: 0, seed: 1 };
  assert.deepEqual(await speaker.say(["one", "x".repeat(31), "two"], greedy), ["ONE", "", "TWO"]);
  assert.deepEqual(asked, ["one", "two"]);
  await assert.rejects(speaker.say(["one"], { ...greedy, temperature: 1 }), TypeError);
});

test("every token of a text has its place and its log-prob, the first of all the texts none", async () => {
  const speaker = createSpeaker(
    generator({
      score: async (_: unknown, rows: { tokens: number[]; promptLength: number }[]) =>
        rows.map(({ tokens, promptLength }) => Float64Array.from(tokens.slice(promptLength), (token) => -token)),
    }),
    ref,
    signal,
  );
  const [a, b] = [..."ab"].map((letter) => -letter.charCodeAt(0));
  assert.deepEqual(
    await speaker.score([
      { prompt: "?", text: "ab" },
      { prompt: "", text: "ab" },
    ]),
    [
      { ends: [1, 2], logprobs: [a, b] },
      { ends: [1, 2], logprobs: [0, b] },
    ],
  );
});
