// Published values, exhaustive small cases against other ways of computing, and simulations: intervals that hold the truth as often
// as they say, tests that err as seldom as they say, and effects that are found as often as is printed.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  binomialTail,
  incompleteBeta,
  normalCdf,
  studentCdf,
  studentQuantile,
} from "../../src/base/statistics/distributions.ts";
import { designEffect, scoreOf, wilson } from "../../src/base/statistics/intervals.ts";
import {
  compareScores,
  detectableLoss,
  holm,
  mcnemar,
  mcnemarPower,
  minimumDetectableEffect,
  signFlip,
} from "../../src/base/statistics/paired.ts";
import { seeded } from "../../src/base/statistics/random.ts";

const near = (actual: number, expected: number, within: number, what = ""): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${what} ${actual} is not ${expected} ± ${within}`);

test("distributions have the values of the tables", () => {
  for (const [p, degrees, t] of [
    [0.975, 1, 12.7062],
    [0.975, 2, 4.30265],
    [0.975, 10, 2.22814],
    [0.975, 30, 2.04227],
    [0.975, 120, 1.97993],
    [0.8, 5, 0.919544],
    [0.95, 60, 1.67065],
  ] as const) {
    near(studentQuantile(p, degrees), t, 1e-4);
    near(studentCdf(-t, degrees), 1 - p, 1e-5);
  }
  near(incompleteBeta(0.5, 2, 3), 0.6875, 1e-12);
  for (const [x, p] of [
    [0, 0.5],
    [1, 0.8413447460685429],
    [-1.959963984540054, 0.025],
    [-4, 3.167124183311992e-5],
    [9, 1],
  ] as const)
    near(normalCdf(x), p, 1e-14);
  near(incompleteBeta(0.1, 0.5, 0.5), (2 / Math.PI) * Math.asin(Math.sqrt(0.1)), 1e-12);
  // Against adding up the binomial distribution.
  for (const p of [0.03, 0.4, 0.9])
    for (let n = 1; n <= 40; n += 3) {
      let [tail, chance] = [0, 1];
      const chances = Array.from({ length: n + 1 }, (_, k) => {
        chance = k === 0 ? (1 - p) ** n : (chance * (n - k + 1) * p) / (k * (1 - p));
        return chance;
      });
      for (let k = n; k >= 0; k--) {
        tail += chances[k]!;
        near(binomialTail(k, n, p), tail, 1e-10);
      }
      assert.equal(binomialTail(n + 1, n, p), 0);
    }
});

test("Wilson's interval has its published values", () => {
  const published: [correct: number, n: number, low: number, high: number][] = [
    [10, 10, 72.25, 100],
    [50, 50, 92.87, 100],
    [0, 10, 0, 27.75],
    // Newcombe 1998, method 3
    [81, 263, 25.53, 36.62],
    [15, 148, 6.24, 16.05],
    [0, 20, 0, 16.11],
    [1, 29, 0.61, 17.18],
  ];
  for (const [correct, n, low, high] of published) {
    const found = wilson(correct, n);
    near(found.score, (100 * correct) / n, 1e-12);
    near(found.low, low, 0.006);
    near(found.high, high, 0.006);
    assert.equal(found.n, n);
  }
  assert.deepEqual(wilson(0, 0), { score: 0, low: 0, high: 100, n: 0 });
});

test("Wilson's interval holds the score, stays within 0 and 100, mirrors, and narrows with n", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5000 }), fc.double({ min: 0, max: 1, noNaN: true }), (n, share) => {
      const correct = Math.round(share * n);
      const { score, low, high } = wilson(correct, n);
      assert.ok(0 <= low && low <= score && score <= high && high <= 100);
      const mirrored = wilson(n - correct, n);
      near(mirrored.low, 100 - high, 1e-9);
      near(mirrored.high, 100 - low, 1e-9);
      const more = wilson(4 * correct, 4 * n);
      assert.ok(more.high - more.low < high - low);
    }),
  );
});

/** How often `trial` says yes, with the standard error that so many tries leave. */
function rate(trials: number, trial: (random: () => number) => boolean, seed: number): number {
  const random = seeded(seed);
  let yes = 0;
  for (let index = 0; index < trials; index++) if (trial(random)) yes++;
  return yes / trials;
}

/** Clusters whose items share part of their chance: beta-distributed with mean p and intraclass correlation icc. */
function clusteredChance(random: () => number, p: number, icc: number): number {
  if (icc === 0) return p;
  const size = (1 - icc) / icc;
  const [a, b] = [gamma(random, p * size), gamma(random, (1 - p) * size)];
  return a / (a + b);
}

/** Marsaglia and Tsang 2000. */
function gamma(random: () => number, shape: number): number {
  if (shape < 1) return gamma(random, shape + 1) * random() ** (1 / shape);
  const d = shape - 1 / 3;
  for (;;) {
    const z = normal(random);
    const v = (1 + z / Math.sqrt(9 * d)) ** 3;
    if (v > 0 && Math.log(random()) < (z * z) / 2 + d - d * v + d * Math.log(v)) return d * v;
  }
}

const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

test("Wilson's interval covers the truth about as often as it says", () => {
  const coverages: number[] = [];
  // Exact: every count that can be, with its chance.
  for (const n of [20, 50, 100, 200, 500])
    for (let p = 0.05; p < 0.96; p += 0.01) {
      let covered = 0;
      for (let correct = 0; correct <= n; correct++) {
        const { low, high } = wilson(correct, n);
        if (low <= 100 * p && 100 * p <= high) covered += binomialTail(correct, n, p) - binomialTail(correct + 1, n, p);
      }
      coverages.push(covered);
    }
  near(coverages.reduce((sum, value) => sum + value, 0) / coverages.length, 0.95, 0.005);
  // Counts are whole: single shares swing about that.
  assert.ok(Math.min(...coverages) > 0.91);
  const astray = coverages.filter((covered) => covered < 0.93 || covered > 0.97).length;
  assert.ok(astray / coverages.length < 0.08, `${astray} of ${coverages.length}`);
});

/** Items of k clusters of m: scores of `points` parts each, 1 for right or wrong. */
function draw(random: () => number, shape: { k: number; m: number; icc: number }, p: number, points: number) {
  const scores: number[] = [];
  const clusters: string[] = [];
  for (let cluster = 0; cluster < shape.k; cluster++) {
    const chance = clusteredChance(random, p, shape.icc);
    for (let item = 0; item < shape.m; item++) {
      let met = 0;
      for (let point = 0; point < points; point++) if (random() < chance) met++;
      scores.push(met / points);
      clusters.push(String(cluster));
    }
  }
  return { scores, clusters };
}

const shapes = [
  { k: 60, m: 1, icc: 0, design: 1 },
  { k: 40, m: 5, icc: 0.1, design: 1.4 },
  { k: 40, m: 5, icc: 0.3, design: 2.2 },
  { k: 20, m: 10, icc: 0.2, design: 2.8 },
];

test("intervals of items that belong together hold the truth in 93 to 97 % of all cases", () => {
  const graded: number[] = [];
  for (const shape of shapes)
    for (const p of [0.15, 0.5, 0.85]) {
      const covers = (points: number, trials: number, seed: number): number =>
        rate(
          trials,
          (random) => {
            const { scores, clusters } = draw(random, shape, p, points);
            const { low, high } = scoreOf(scores, clusters);
            return low <= 100 * p && 100 * p <= high;
          },
          seed,
        );
      const what = JSON.stringify({ ...shape, p });
      near(covers(1, 1500, 7), 0.95, 0.02, what);
      if (p !== 0.5) graded.push(covers(3, 150, 8));
    }
  // Each alone is a rate of few trials, for a bootstrap takes its time.
  assert.ok(Math.min(...graded) > 0.9, String(graded));
  near(graded.reduce((sum, value) => sum + value, 0) / graded.length, 0.95, 0.02);
});

test("without its design effect the interval of clustered items holds the truth far less often", () => {
  const shape = shapes[3]!;
  const covered = rate(
    1000,
    (random) => {
      const { scores } = draw(random, shape, 0.5, 1);
      const { low, high } = wilson(scores.filter((score) => score === 1).length, scores.length);
      return low <= 50 && 50 <= high;
    },
    9,
  );
  assert.ok(covered < 0.85, String(covered));
});

test("the design effect is that of the notes: 1 + (m − 1)·ICC", () => {
  for (const shape of shapes) {
    const random = seeded(10);
    let mean = 0;
    for (let trial = 0; trial < 300; trial++) {
      const { scores } = draw(random, shape, 0.5, 1);
      const groups = Array.from({ length: shape.k }, (_, at) => scores.slice(at * shape.m, (at + 1) * shape.m));
      mean += designEffect(groups) / 300;
    }
    near(mean, shape.design, 0.08);
  }
  // All or nothing: each cluster is worth one item.
  near(
    designEffect([
      [1, 1, 1],
      [0, 0, 0],
      [1, 1, 1],
      [0, 0, 0],
    ]),
    3,
    1e-12,
  );
});

/** Two models on the same items: the first gains `effect` points over the second, they disagree on `discordance` of the items. */
function drawPair(random: () => number, n: number, discordance: number, effect: number) {
  const [first, second]: [number[], number[]] = [[], []];
  for (let item = 0; item < n; item++) {
    const u = random();
    const both = random() < 0.6 ? 1 : 0;
    first.push(u < (discordance + effect) / 2 ? 1 : u < discordance ? 0 : both);
    second.push(u < (discordance + effect) / 2 ? 0 : u < discordance ? 1 : both);
  }
  return { first, second, alone: Array.from({ length: n }, (_, item) => String(item)) };
}

/** Graded, in clusters that share what the first gains. */
function drawGradedPair(random: () => number, k: number, m: number, effect: number) {
  const [first, second, clusters]: [number[], number[], string[]] = [[], [], []];
  for (let cluster = 0; cluster < k; cluster++) {
    const shift = effect + 0.1 * normal(random);
    for (let item = 0; item < m; item++) {
      const base = 0.5 + 0.1 * normal(random);
      second.push(base);
      first.push(base + shift + 0.2 * normal(random));
      clusters.push(String(cluster));
    }
  }
  return { first, second, clusters };
}

test("the printed minimum detectable effect is found in 80 % of all cases, and a difference where there is none seldom", () => {
  for (const [n, discordance] of [
    [60, 0.3],
    [150, 0.2],
    [400, 0.1],
  ] as const) {
    const effect = minimumDetectableEffect(n, discordance) / 100;
    const outcome = (random: () => number, truth: number) => {
      const { first, second } = drawPair(random, n, Math.max(discordance, truth), truth);
      const gained = first.filter((score, item) => score > second[item]!).length;
      return { gained, lost: first.filter((score, item) => score < second[item]!).length };
    };
    const finds = (truth: number, seed: number): number =>
      rate(
        4000,
        (random) => {
          const { gained, lost } = outcome(random, truth);
          return mcnemar(gained, lost) <= 0.05;
        },
        seed,
      );
    near(finds(effect, 11), 0.8, 0.02, `n ${n}, discordance ${discordance}: power`);
    assert.ok(finds(0, 12) < 0.05);
    // What is printed comes from the discordance that was seen.
    const random = seeded(13);
    let printed = 0;
    for (let trial = 0; trial < 40; trial++) {
      const { first, second, alone } = drawPair(random, n, discordance, 0);
      printed += compareScores(first, second, alone).minimum_detectable / 40;
    }
    near(printed, 100 * effect, 0.05 * 100 * effect, `n ${n}: printed`);
  }
});

test("of graded items in clusters too; and the interval of the difference holds it in 93 to 97 % of all cases", () => {
  const covered: number[] = [];
  for (const [k, m] of [
    [20, 5],
    [40, 2],
  ] as const) {
    const compare = (random: () => number, truth: number) => {
      const { first, second, clusters } = drawGradedPair(random, k, m, truth);
      return compareScores(first, second, clusters);
    };
    let printed = 0;
    const drawn = seeded(14);
    for (let trial = 0; trial < 40; trial++) printed += compare(drawn, 0).minimum_detectable / 40;
    const finds = (truth: number, seed: number): number => {
      let holds = 0;
      const found = rate(
        150,
        (random) => {
          const { p_value, low, high } = compare(random, truth);
          if (low <= 100 * truth && 100 * truth <= high) holds++;
          return p_value <= 0.05;
        },
        seed,
      );
      covered.push(holds / 150);
      return found;
    };
    near(finds(printed / 100, 15), 0.8, 0.09, `${k} clusters of ${m}: power`);
    assert.ok(finds(0, 16) < 0.09);
  }
  near(covered.reduce((sum, value) => sum + value, 0) / covered.length, 0.95, 0.02);
});

test("the interval of a difference of right-or-wrong items holds it in 93 to 98 % of all cases", () => {
  for (const [n, discordance, effect] of [
    [50, 0.3, 0],
    [100, 0.2, 0.1],
    [300, 0.1, -0.05],
  ] as const) {
    const covered = rate(
      300,
      (random) => {
        const { first, second, alone } = drawPair(random, n, discordance, effect);
        const { low, high } = compareScores(first, second, alone);
        return low <= 100 * effect && 100 * effect <= high;
      },
      17,
    );
    near(covered, 0.955, 0.03, `n ${n}`);
  }
});

test("the sign-flip test over items that stand alone is McNemar's", () => {
  for (const [gained, lost] of [
    [5, 0],
    [8, 2],
    [3, 3],
    [10, 4],
    [0, 1],
  ] as const) {
    const groups = [...Array(gained).fill([1]), ...Array(lost).fill([-1]), [0], [0]];
    near(signFlip(groups).p_value, mcnemar(gained, lost), 1e-12);
    near(signFlip(groups).p_worse, binomialTail(lost, gained + lost, 0.5), 1e-12);
  }
  // Drawn patterns, within what their number leaves open.
  const drawn = signFlip([...Array(20).fill([1]), ...Array(8).fill([-1])]);
  near(drawn.p_value, mcnemar(20, 8), 0.005);
  // A cluster counts once: ten items that went wrong together prove nothing.
  assert.equal(signFlip([Array(10).fill(-1)]).p_value, 1);
});

test("a comparison says what was won and lost, and one cluster tells nothing", () => {
  const alone = compareScores([1, 1, 0, 1], [0, 1, 1, 0], ["a", "b", "c", "d"]);
  assert.deepEqual([alone.method, alone.gained, alone.lost, alone.difference], ["mcnemar", 2, 1, 25]);
  assert.equal(alone.p_value, 1);
  const graded = compareScores([0.5, 1, 0.25], [0.25, 1, 0.5], ["a", "a", "b"]);
  assert.deepEqual([graded.method, graded.clusters, graded.gained, graded.lost], ["sign_flip", 2, 1, 1]);
  const one = compareScores([1, 1, 1], [0, 0, 0], ["a", "a", "a"]);
  assert.deepEqual([one.low, one.high, one.minimum_detectable, one.p_value], [-100, 100, 100, 1]);
  assert.deepEqual([compareScores([], [], []).n, compareScores([], [], []).minimum_detectable], [0, 100]);
});

test("McNemar's exact test is the two-sided binomial test of a half", () => {
  const known: [gained: number, lost: number, p: number][] = [
    [0, 0, 1],
    [5, 0, 0.0625],
    [6, 0, 0.03125],
    [8, 2, 0.109375],
    [10, 1, 0.01171875],
    [5, 5, 1],
  ];
  for (const [gained, lost, p] of known) {
    near(mcnemar(gained, lost), p, 1e-12);
    near(mcnemar(lost, gained), p, 1e-12);
  }
  // Against whole-number arithmetic.
  for (let n = 1; n <= 60; n++)
    for (let fewer = 0; fewer <= n / 2; fewer++) {
      let term = 1n;
      let sum = 1n;
      for (let k = 1; k <= fewer; k++) {
        term = (term * BigInt(n - k + 1)) / BigInt(k);
        sum += term;
      }
      near(mcnemar(fewer, n - fewer), Math.min(1, (2 * Number(sum)) / 2 ** n), 1e-9);
    }
  const far = mcnemar(4000, 6000);
  assert.ok(far > 0 && far < 1e-80, String(far));
});

test("the minimum detectable effect is that of the notes", () => {
  // Where models disagree on enough items: 280·√(discordance/n), of which the exact test asks a little more.
  for (const [n, discordance, points] of [
    [50, 0.2, 17.7],
    [100, 0.2, 12.5],
    [200, 0.1, 6.3],
    [400, 0.2, 6.3],
    [1000, 0.3, 4.9],
  ] as const)
    near(minimumDetectableEffect(n, discordance), points, 0.04 * points, `n ${n}`);
  // Five of 50 items cannot tell: with the 6 that the exact test needs at least, the effect is more than they are.
  assert.ok(minimumDetectableEffect(50, 0.1) > 15);
  assert.equal(minimumDetectableEffect(0, 0.2), 100);
  assert.equal(minimumDetectableEffect(5, 1), 100);
  assert.ok(minimumDetectableEffect(6, 1) > 90);
  near(mcnemarPower(100, 0.2, 0), 0.033, 0.01);
});

test("Holm's procedure has its published outcome, and holds several tests to 5 % together", () => {
  // Of Holm's step-down: .01 ≤ .05/4, .013 ≤ .05/3, .014 ≤ .05/2, .19 > .05.
  assert.deepEqual(holm([0.014, 0.19, 0.01, 0.013]), [true, false, true, true]);
  assert.deepEqual(holm([0.04, 0.03]), [false, false]);
  assert.deepEqual(holm([]), []);
  assert.ok(rate(4000, (random) => holm([random(), random(), random(), random()]).includes(true), 18) < 0.058);
});

/**
 * What a promotion stands on: a sealed split and three guards, all right-or-wrong. `loss` is the true loss on the sealed split.
 * Whether the candidate is refused, and whether it is called better on the sealed split.
 */
function promotion(random: () => number, loss: number) {
  const sizes = [200, 80, 60, 60];
  const compared = sizes.map((n, index) => {
    const { first, second } = drawPair(random, n, 0.2, index === 0 ? -loss : 0);
    const gained = first.filter((score, item) => score > second[item]!).length;
    const lost = first.filter((score, item) => score < second[item]!).length;
    return { gained, lost, worse: binomialTail(lost, gained + lost, 0.5) };
  });
  const [sealed] = compared;
  return {
    refused: holm(compared.map(({ worse }) => worse)).includes(true),
    calledBetter: sealed!.gained > sealed!.lost && mcnemar(sealed!.gained, sealed!.lost) <= 0.05,
  };
}

test("false promotions stay under 5 %: a loss of the printed size is refused, a model with no gain is not called better", () => {
  const random = seeded(19);
  const { first, second, alone } = drawPair(random, 200, 0.2, 0);
  // At the discordance that was drawn, not the one that was met.
  const compared = { ...compareScores(first, second, alone), gained: 20, lost: 20 };
  const loss = detectableLoss(compared, 4) / 100;
  assert.ok(loss > compared.minimum_detectable / 100 && loss < 0.2, String(loss));
  const promotedWorse = rate(3000, (draw) => !promotion(draw, loss).refused, 20);
  assert.ok(promotedWorse < 0.05, `promoted though worse: ${promotedWorse}`);
  const calledBetter = rate(3000, (draw) => promotion(draw, 0).calledBetter, 21);
  assert.ok(calledBetter < 0.05, `called better without gain: ${calledBetter}`);
  const refusedEqual = rate(3000, (draw) => promotion(draw, 0).refused, 22);
  assert.ok(refusedEqual < 0.05, `refused without loss: ${refusedEqual}`);
});
