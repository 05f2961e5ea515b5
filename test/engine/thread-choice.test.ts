// The number of threads of a step, found by trying: on machines made up here.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ThreadChoice } from "../../src/engine/thread-choice.ts";

/** What is used after some steps on a machine where a token of a kind takes `costOf`. */
function chosenAfter(steps: number, costOf: (kind: string, threads: number) => number, most = 16) {
  const choice = new ThreadChoice();
  const used: number[] = [];
  for (let step = 0; step < steps; step++) {
    const threads = choice.next("answers", most, 1);
    assert.ok(threads >= 1 && threads <= most);
    used.push(threads);
    choice.took("answers", threads, costOf("answers", threads), 1);
  }
  return { choice, used };
}

test("it ends at the number that is fastest, wherever that stands", () => {
  for (const best of [1, 2, 4, 8, 16]) {
    const { used } = chosenAfter(100, (_, threads) => 10 + 3 * Math.abs(Math.log2(threads / best)));
    assert.equal(used.at(-1), best);
  }
});

test("fewer than what is hopeless are not tried", () => {
  const { used } = chosenAfter(600, (_, threads) => 100 / threads);
  assert.ok(!used.includes(4), used.join(" "));
  // The one below the best is looked at now and then, and costs little.
  assert.ok(used.filter((threads) => threads === 8).length < 0.04 * used.length);
});

test("a few lucky steps decide nothing where steps scatter", () => {
  let step = 0;
  // Two threads take 10 ms three times of five, and 30 else; one takes 12.
  const { used } = chosenAfter(300, (_, threads) => (threads === 1 ? 12 : step++ % 5 < 3 ? 10 : 30), 2);
  assert.ok(used.slice(40).every((threads) => threads === 1));
});

test("a machine that gets busy is noticed, and so is one that gets quiet", () => {
  let busy = false;
  const cost = (_: string, threads: number): number => (threads > 1 && busy ? 300 : 20 / threads);
  const choice = new ThreadChoice();
  const after = (steps: number): number => {
    for (let step = 0; step < steps; step++) {
      const threads = choice.next("answers", 2, 1);
      choice.took("answers", threads, cost("", threads), 1);
    }
    return choice.next("answers", 2, 1);
  };
  assert.equal(after(40), 2);
  busy = true;
  assert.equal(after(40), 1);
  busy = false;
  assert.equal(after(2000), 2);
});

test("fewer threads are tried on short steps, and on long ones only when they take longer than they did", () => {
  const choice = new ThreadChoice();
  let slowdown = 1;
  const after = (steps: number, tokens: number): number[] =>
    Array.from({ length: steps }, () => {
      const threads = choice.next("prompts", 2, tokens);
      choice.took("prompts", threads, (tokens * slowdown * 4) / threads, tokens);
      return threads;
    });
  assert.ok(after(20, 400).every((threads) => threads === 2));
  assert.ok(after(8, 40).includes(1));
  assert.equal(after(1, 400)[0], 2);
  slowdown = 4;
  assert.ok(after(300, 400).includes(1));
});

test("kinds of steps are told apart, and no more threads are used than there are now", () => {
  const choice = new ThreadChoice();
  for (let step = 0; step < 100; step++)
    for (const [kind, best] of Object.entries({ small: 1, large: 8 })) {
      const threads = choice.next(kind, 8, 1);
      choice.took(kind, threads, 1 + Math.abs(Math.log2(threads / best)), 1);
    }
  assert.deepEqual([choice.next("small", 8, 1), choice.next("large", 8, 1)], [1, 8]);
  assert.equal(choice.next("large", 4, 1), 4);
  // Of fewer than four nothing is known: they were not worth a trial.
  assert.equal(choice.next("large", 3, 1), 3);
});
