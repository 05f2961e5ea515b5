// The number of threads of a step, found by trying: on machines made up here.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ThreadChoice } from "../../src/engine/serve/thread-choice.ts";

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

test("fewer threads are tried once on long steps, and again only when they take longer than they did", () => {
  const choice = new ThreadChoice();
  let slowdown = 1;
  const after = (steps: number, tokens: number): number[] =>
    Array.from({ length: steps }, () => {
      const threads = choice.next("prompts", 2, tokens);
      choice.took("prompts", threads, (tokens * slowdown * 4) / threads, tokens);
      return threads;
    });
  assert.equal(after(200, 400).filter((threads) => threads === 1).length, 1);
  assert.ok(after(2000, 40).includes(1));
  assert.ok(after(200, 400).every((threads) => threads === 2));
  slowdown = 4;
  assert.ok(after(300, 400).includes(1));
});

test("on a machine that is busy from the start fewer threads are found as well", () => {
  const { used } = chosenAfter(20, (_, threads) => stolenCost(threads, true, 60), 2);
  assert.ok(
    used.slice(4).every((threads) => threads === 1),
    used.join(" "),
  );
});

test("no more than one long step is spent on fewer threads where all of them are free", () => {
  const { used } = chosenAfter(40, (_, threads) => 16_000 / threads);
  assert.deepEqual(
    used.filter((threads) => threads < 16),
    [8],
  );
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

/** Two cores, of which somebody takes one now and then: the threads that turn keep the one they wait for from its core. */
const stolenCost = (threads: number, isStolen: boolean, alone: number): number =>
  threads === 1 ? 1.8 * alone : isStolen ? 9 * alone : alone;

/** Steps until that many ms of them are over; what was used, and how long they took in all. */
function stepsFor(choice: ThreadChoice, ms: number, costOf: (threads: number) => number) {
  const used: number[] = [];
  let total = 0;
  while (total < ms) {
    const threads = choice.next("answers", 2, 1);
    choice.took("answers", threads, costOf(threads), 1);
    used.push(threads);
    total += costOf(threads);
  }
  return { used, total, mean: total / used.length };
}

test("a core that is taken costs three times as much at most, and what it brought is found again, on short steps and long ones", () => {
  for (const alone of [5, 60, 1000]) {
    const choice = new ThreadChoice();
    const spend = (minutes: number, isStolen: boolean) =>
      stepsFor(choice, Math.max(minutes * 60_000, 20 * alone), (threads) => stolenCost(threads, isStolen, alone));
    assert.equal(spend(0.2, false).used.at(-1), 2);
    const taken = spend(5, true);
    assert.ok(taken.mean <= 3 * alone, `${taken.mean} ms a step, ${alone} alone`);
    assert.equal(taken.used.at(-1), 1);
    const back = spend(10, false);
    assert.equal(back.used.at(-1), 2);
    assert.ok(back.mean <= 1.5 * alone, `${back.mean} ms a step, ${alone} alone`);
  }
});

test("a core that comes and goes does not cost more than one that is gone", () => {
  const choice = new ThreadChoice();
  let total = 0;
  let steps = 0;
  for (let turn = 0; turn < 20; turn++) {
    const spent = stepsFor(choice, 15_000, (threads) => stolenCost(threads, turn % 2 === 1, 60));
    total += spent.total;
    steps += spent.used.length;
  }
  assert.ok(total / steps < 2.5 * 60, `${total / steps} ms a step`);
});

test("trying what brings nothing costs less and less, and no more than a tenth of the time on long steps", () => {
  const choice = new ThreadChoice();
  stepsFor(choice, 60_000, (threads) => stolenCost(threads, true, 2000));
  const { used, total } = stepsFor(choice, 3_600_000, (threads) => stolenCost(threads, true, 2000));
  const tried = used.filter((threads) => threads === 2).length * stolenCost(2, true, 2000);
  assert.ok(tried > 0 && tried < total / 9, `${tried} of ${total} ms`);
});

test("more threads are tried again also while fewer would not be worth it", () => {
  const choice = new ThreadChoice();
  let isBusy = true;
  const cost = (threads: number): number => (threads > 8 && isBusy ? 9000 : 8000 / threads);
  const after = (steps: number): number => {
    for (let step = 0; step < steps; step++) {
      const threads = choice.next("answers", 16, 1);
      choice.took("answers", threads, cost(threads), 1);
    }
    return choice.next("answers", 16, 1);
  };
  assert.equal(after(100), 8);
  isBusy = false;
  assert.equal(after(300), 16);
});
