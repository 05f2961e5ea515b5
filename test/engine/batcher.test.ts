// The parts of the step loop that are pure: the draw, the text stream, slots, the queue, turns and the memory book.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { createTextStream } from "../../src/engine/format/text-stream.ts";
import type { Priority, Sampling, TopLogits } from "../../src/engine/generator.ts";
import { baseBytes, type ModelShape } from "../../src/engine/gguf/gpu.ts";
import { createDraw, logSumExp, uniform } from "../../src/engine/serve/sampling.ts";
import { commonPrefix, movesToAlign, slotBeside } from "../../src/engine/serve/slots.ts";
import { Turns } from "../../src/engine/serve/turns.ts";
import { Waiting } from "../../src/engine/serve/waiting.ts";
import { greedy } from "./engine-fixture.ts";

const top = (...logits: number[]): TopLogits => ({
  tokens: Int32Array.from(logits.keys(), (index) => 10 + index),
  logits: Float32Array.from(logits),
});
const none: ReadonlySet<number> = new Set();
const draw = (sampling: Partial<Sampling>, prompt: number[] = [], banned = none) =>
  createDraw({ ...greedy, temperature: 1, ...sampling }, prompt, banned);

/** How often each candidate is drawn in 20,000 steps. */
function shares(sampling: Partial<Sampling>, candidates: TopLogits): number[] {
  const counts = new Array(candidates.tokens.length).fill(0);
  const { pick } = draw({ seed: 3, ...sampling });
  for (let step = 0; step < 20_000; step++) counts[pick(candidates, step)] += 1 / 20_000;
  return counts;
}

const near = (actual: number[], expected: number[], tolerance = 0.015): void =>
  assert.ok(
    actual.every((share, index) => Math.abs(share - expected[index]!) < tolerance),
    `${actual} is not near ${expected}`,
  );

test("draws follow the probabilities, the temperature and the filters", () => {
  const odds = top(Math.log(6), Math.log(3), Math.log(1));
  near(shares({}, odds), [0.6, 0.3, 0.1]);
  near(shares({ temperature: 0.5 }, odds), [36 / 46, 9 / 46, 1 / 46]);
  near(shares({ topK: 2 }, odds), [2 / 3, 1 / 3, 0]);
  near(shares({ topP: 0.55 }, odds), [1, 0, 0]);
  near(shares({ topP: 0.7 }, odds), [2 / 3, 1 / 3, 0]);
  near(shares({ minP: 0.4 }, odds), [2 / 3, 1 / 3, 0]);
  near(shares({ temperature: 1e-6 }, odds), [1, 0, 0]);
  near(shares({ temperature: 0 }, odds), [1, 0, 0]);
  near(shares({}, top(1e4, 1e4 - 800, Number.NEGATIVE_INFINITY)), [1, 0, 0]);
});

test("random numbers are even, and of seed and step alone", () => {
  const values = Array.from({ length: 20_000 }, (_, step) => uniform(Number.MAX_SAFE_INTEGER, step));
  assert.ok(values.every((value) => value >= 0 && value < 1));
  assert.ok(Math.abs(values.reduce((sum, value) => sum + value, 0) / values.length - 0.5) < 0.01);
  assert.equal(uniform(5, 9), uniform(5, 9));
  assert.equal(new Set([uniform(0, 0), uniform(0, 1), uniform(1, 0), uniform(1, 1)]).size, 4);
});

test("penalties: repetition looks at the prompt too, the others count the answer", () => {
  const cold = { temperature: 0 };
  const two = top(2, 1.5, -1);
  assert.equal(draw({ ...cold, repetitionPenalty: 2 }, [10]).pick(two, 0), 1);
  assert.equal(draw({ ...cold, repetitionPenalty: 2 }, [10, 11]).pick(two, 0), 0);
  assert.equal(draw({ ...cold, presencePenalty: 1 }, [10]).pick(two, 0), 0);
  const present = draw({ ...cold, presencePenalty: 1 });
  present.accept(10);
  assert.equal(present.pick(two, 1), 1);
  const frequent = draw({ ...cold, frequencyPenalty: 0.3 });
  frequent.accept(10);
  assert.equal(frequent.pick(two, 1), 0);
  frequent.accept(10);
  assert.equal(frequent.pick(two, 2), 1);
  assert.equal(draw(cold, [], new Set([10])).pick(two, 0), 1);
  assert.equal(draw({ ...cold, logitBias: new Map([[12, 10]]) }).pick(two, 0), 2);
});

test("the sum of exponentials neither overflows nor loses the small", () => {
  assert.ok(Math.abs(logSumExp(Float32Array.of(1000, 1000)) - (1000 + Math.LN2)) < 1e-9);
  assert.ok(Math.abs(logSumExp(Float32Array.of(-1000, Number.NEGATIVE_INFINITY)) + 1000) < 1e-9);
});

/** All that a stream gives for bytes cut at the given places. */
function streamed(text: string, stops: string[], cuts: number[]): { shown: string[]; stopped: boolean } {
  const bytes = Buffer.from(text);
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  const stream = createTextStream(stops);
  const shown: string[] = [];
  let from = 0;
  for (const to of [...places, bytes.length]) {
    shown.push(stream.push(bytes.subarray(from, to)));
    from = to;
  }
  shown.push(stream.finish());
  return { shown, stopped: stream.stopped };
}

test("wherever the bytes are cut, the text is whole, in whole code points, and ends before a stop string", () => {
  const alphabet = fc.constantFrom("a", "b", "ab", "é", "日", "🎉", "\ufeff");
  const words = fc.array(alphabet, { maxLength: 12 }).map((parts) => parts.join(""));
  const stops = fc.array(
    words.filter((word) => word !== ""),
    { maxLength: 3 },
  );
  fc.assert(
    fc.property(words, stops, fc.array(fc.nat(), { maxLength: 20 }), (text, stop, cuts) => {
      const { shown, stopped } = streamed(text, stop, cuts);
      const found = stop.map((each) => text.indexOf(each)).filter((at) => at >= 0);
      const joined = shown.join("");
      assert.equal(stopped, found.length > 0);
      assert.ok(shown.every((piece) => !piece.includes("\ufffd")));
      if (!stopped) assert.equal(joined, text);
      // Of two stop strings that end at different tokens, the one that is complete first counts.
      else assert.ok(text.startsWith(joined) && stop.some((each) => text.startsWith(each, joined.length)));
      assert.ok(!stopped || stop.every((each) => !joined.includes(each)));
    }),
  );
});

test("what cannot be a stop string any more is shown at once", () => {
  const stream = createTextStream(["STOP"]);
  const push = (text: string): string => stream.push(Buffer.from(text));
  assert.deepEqual([push("a S"), push("T"), push("A"), push("R ST"), push("OP it")], ["a ", "", "STA", "R ", ""]);
  assert.ok(stream.stopped);
  assert.equal(push("more"), "");
  assert.equal(stream.finish(), "");
  const cut = createTextStream([]);
  assert.equal(cut.push(Buffer.from("🎉").subarray(0, 2)) + cut.finish(), "\ufffd");
});

test("a group's slots become one run, by the fewest moves, and never through another's", () => {
  const ids = fc.uniqueArray(fc.nat(7), { maxLength: 8 }).map((list) => list.sort((a, b) => a - b));
  fc.assert(
    fc.property(ids, ids, (members, others) => {
      const strangers = others.filter((id) => !members.includes(id));
      const taken = (id: number): boolean => members.includes(id) || strangers.includes(id);
      const moves = movesToAlign(8, members, taken);
      const after = new Set(members);
      for (const [from, to] of moves) {
        assert.ok(after.delete(from));
        assert.ok(!strangers.includes(to) && !after.has(to));
        after.add(to);
      }
      const run = after.size === 0 || Math.max(...after) - Math.min(...after) + 1 === after.size;
      // Whatever run they become, those that stand outside it must move: no way takes fewer than the best run asks for.
      const outside = (start: number): number =>
        members.filter((id) => id < start || id >= start + members.length).length;
      const fewest = Math.min(...Array.from({ length: 9 - members.length }, (_, start) => outside(start)));
      if (strangers.length === 0) assert.ok(run && moves.length === fewest, `${moves.length} moves, ${fewest} needed`);
      assert.ok(run || moves.length === 0);
    }),
    { examples: [[[0, 3, 6], []]] },
  );
  assert.deepEqual(
    movesToAlign(4, [0, 2, 3], (id) => id !== 1),
    [[3, 1]],
  );
  const taken = (id: number): boolean => [0, 1, 4].includes(id);
  assert.deepEqual([slotBeside(8, [0, 1], taken), slotBeside(8, [4], taken), slotBeside(8, [], taken)], [2, 5, 5]);
  // A gap is filled before the run grows.
  assert.equal(slotBeside(8, [0, 1, 4], taken), 2);
  assert.equal(
    slotBeside(2, [], () => true),
    -1,
  );
  assert.deepEqual([commonPrefix([1, 2, 3], [1, 2]), commonPrefix([1], [2]), commonPrefix([], [1])], [2, 0, 0]);
});

test("people before evaluations before data, owners in turn, each in order", () => {
  const waiting = new Waiting<{ priority: Priority; owner: string; name: string }>();
  const add = (priority: Priority, owner: string, name: string) => {
    const item = { priority, owner, name };
    waiting.add(item);
    return item;
  };
  add("generation", "ada", "g");
  add("evaluation", "ada", "e");
  for (const name of ["a1", "a2", "a3"]) add("interactive", "ada", name);
  const left = add("interactive", "bob", "b1");
  add("interactive", "bob", "b2");
  assert.ok(waiting.remove(left));
  assert.ok(!waiting.remove(left));
  const order = Array.from({ length: 4 }, () => waiting.take(true)?.name);
  assert.deepEqual(order, ["a1", "b2", "a2", "a3"]);
  assert.equal(waiting.take(true), null);
  assert.deepEqual([waiting.take(false)?.name, waiting.take(false)?.name, waiting.take(false)], ["e", "g", null]);
  assert.equal(waiting.size, 0);
});

test("turns are taken one at a time, in order, and given back when the work throws", async () => {
  const turns = new Turns();
  const order: string[] = [];
  const work = (name: string) =>
    turns.run(async () => {
      order.push(`${name}+`);
      await new Promise((resolve) => setTimeout(resolve, 2));
      order.push(`${name}-`);
      if (name === "b") throw new Error("b");
    });
  const all = ["a", "b", "c"].map(work);
  assert.ok(turns.wanted);
  await Promise.allSettled(all);
  assert.deepEqual(order, ["a+", "a-", "b+", "b-", "c+", "c-"]);
  assert.ok(!turns.wanted);
});

test("estimates grow with what costs memory", () => {
  const shape: ModelShape = {
    weightBytes: 1e6,
    layers: 2,
    embedding: 8,
    feedForward: 16,
    heads: 2,
    cachedHeads: 2,
    headSize: 4,
    vocabulary: 100,
  };
  const keysAndValues = (slots: number, slotContext: number): number => 2 * 1 * 4 * 2 * 2 * slots * slotContext;
  const of = (slots: number, slotContext: number): number => baseBytes(shape, { slots, slotContext, batch: 4 });
  assert.equal(of(8, 64) - of(1, 64), keysAndValues(8, 64) - keysAndValues(1, 64));
  assert.ok(of(1, 64) > 1e6 + keysAndValues(1, 64));
});
