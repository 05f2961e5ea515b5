// The algebra of edits against figures that NumPy 2 computed with full matrices: inverses, a Cholesky factor of M and an SVD.
import assert from "node:assert/strict";
import { test } from "node:test";
import { seeded } from "../../../src/base/statistics/random.ts";
import {
  cholesky,
  dot,
  type Row,
  solved,
  symmetricEigen,
  transposed,
} from "../../../src/run/auto/represent/algebra.ts";
import { agreementOf, constantReader, contextEdit, missedShare } from "../../../src/run/auto/represent/solutions.ts";

function assertNear(seen: Row, expected: Row, within = 1e-8): void {
  assert.equal(seen.length, expected.length);
  for (let i = 0; i < seen.length; i++)
    assert.ok(Math.abs(seen[i]! - expected[i]!) <= within, `${i}: ${seen[i]} and ${expected[i]}`);
}

const symmetric = [
  [1.5, -0.74, 0.33, 0.28],
  [-0.74, 1.16, 0.81, -1.85],
  [0.33, 0.81, -4.98, 0.75],
  [0.28, -1.85, 0.75, -1.92],
];
const eigenvalues = [2.5986568963, 0.9758549855, -2.3913747767, -5.423137105];

test("eigenvalues of a symmetric matrix, with unit vectors that it stretches by them", () => {
  const { values, vectors } = symmetricEigen(symmetric);
  assertNear(values, eigenvalues);
  for (const [at, vector] of vectors.entries()) {
    assert.ok(Math.abs(dot(vector, vector) - 1) < 1e-12);
    assertNear(
      symmetric.map((row) => dot(row, vector)),
      vector.map((value) => value * values[at]!),
    );
  }
});

test("a system is solved by its Cholesky factor, and one that has none is refused", () => {
  const m = [
    [4, 2, 1],
    [2, 5, 3],
    [1, 3, 6],
  ];
  const x = [1, -2, 0.5];
  assertNear(
    solved(
      cholesky(m),
      m.map((row) => dot(row, x)),
    ),
    x,
    1e-12,
  );
  assert.throws(
    () =>
      cholesky([
        [1, 2],
        [2, 1],
      ]),
    /not positive definite/,
  );
});

const keys = [
  [2.04, -2.56, 0.42, -0.57, -0.45],
  [-0.22, -2.02, -0.23, -0.87, 3.32],
  [0.23, -0.35, -0.28, -0.67, -1.06],
];
const targets = [
  [-0.39, 0.48, -0.24, 0.96],
  [-0.2, 0.02, 1.55, 0.55],
  [-0.51, -0.18, 0.54, 1.94],
];
const others = [
  [-0.27, -0.24, 1, -0.89, -0.29],
  [0.88, 0.58, 0.09, 0.67, -2.83],
  [1.02, -0.96, -1.67, 0.28, 0.7],
  [-0.44, -1.08, 0.03, -0.05, 1.41],
];
/** [d_out, d_in] at rank 1, 2 and 3, the last being the whole T Zᵀ (ZZᵀ + λC₀)⁻¹. */
const closedForms = [
  [
    [0.1560165931, 0.1593410778, 0.2004734433, 0.3095502848, 0.1384058627],
    [-0.0192367833, -0.019646691, -0.0247182951, -0.0381674259, -0.0170653874],
    [-0.2195653, -0.2242439143, -0.2821303225, -0.4356363627, -0.1947813637],
    [-0.5180749889, -0.5291144067, -0.665700198, -1.0279051552, -0.4595960876],
  ],
  [
    [0.1397395893, 0.1654226699, 0.1891856139, 0.2984792713, 0.1625229906],
    [0.0028189397, -0.0278873913, -0.0094230208, -0.0231659423, -0.0497446628],
    [-0.3495339909, -0.1756835912, -0.372261432, -0.5240362391, -0.0022108166],
    [-0.4687136969, -0.5475573122, -0.6314689691, -0.9943314377, -0.5327331711],
  ],
  [
    [0.0919854279, 0.1612043273, 0.1458943329, 0.2686219921, 0.1358741495],
    [0.2166415653, -0.0089994646, 0.1844167434, 0.1105221311, 0.0695774025],
    [-0.3204294671, -0.173112656, -0.3458768807, -0.5058392513, 0.0140307382],
    [-0.5033689978, -0.5506185728, -0.6628855478, -1.0159989314, -0.5520722941],
  ],
];

test("the context edit is the closed form at every rank", () => {
  for (const [at, expected] of closedForms.entries()) {
    const { a, b } = contextEdit(keys, targets, others, { lambda: 2.5, floor: 0.05, rank: at + 1 });
    assert.equal(a.length, at + 1);
    const rows = transposed(a);
    const columns = transposed(b);
    for (const [out, row] of expected.entries())
      assertNear(
        rows.map((into) => dot(columns[out]!, into)),
        row,
      );
  }
});

test("a rank above the number of keys is that of the keys, and targets of nothing give none", () => {
  const options = { lambda: 2.5, floor: 0.05, rank: 8 };
  assert.equal(contextEdit(keys, targets, others, options).a.length, 3);
  const nothing = targets.map((target) => target.map(() => 0));
  assert.equal(contextEdit(keys, nothing, others, options).a.length, 0);
});

const read = [
  [1.76, -1.53, -1.91],
  [1.71, 1.66, -3.16],
  [0.5, 0.83, -1.61],
  [2.59, -0.69, -0.65],
  [-0.05, 1.91, -1.02],
  [0.63, -1.22, 0.68],
  [1.75, 1.25, 0.14],
];
const reader = [0.4757738688, 0.1221528981, -0.0995377743];
const missed = 0.2495577225627133;

test("the reader of a constant is the ridge's solution, and what it misses without a ridge is 1 / (1 + μᵀΣ⁻¹μ)", () => {
  assertNear(constantReader(read, 1e-3), reader);
  assert.ok(Math.abs(missedShare(constantReader(read, 1e-13), read) - missed) < 1e-6);
});

const differences = [
  [0.35, -0.64, -0.8],
  [-0.8, 1.37, -1.46],
  [-0.6, -0.32, 0.22],
  [0.58, -1.25, -1.73],
];
const meanCosine = 0.07523409596954449;

test("agreement is the mean cosine of every two differences", () => {
  assert.ok(Math.abs(agreementOf(differences).cosine - meanCosine) < 1e-8);
});

test("a planted direction is found among noise, and noise alone agrees on none", () => {
  const random = seeded(5);
  const width = 200;
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const direction = Float64Array.from({ length: width }, normal);
  const length = Math.sqrt(dot(direction, direction));
  const noise = () => Float64Array.from({ length: width }, normal);
  const planted = Array.from({ length: 40 }, () => noise().map((value, at) => value + direction[at]!));
  const { cosine, separation, mean } = agreementOf(planted);
  // Signal and noise have the same length, so that of every two the cosine is 1/2.
  assert.ok(Math.abs(cosine - 0.5) < 0.05, `${cosine}`);
  assert.equal(separation, 1);
  assert.ok(dot(mean, direction) / length / Math.sqrt(dot(mean, mean)) > 0.98);
  const alone = agreementOf(Array.from({ length: 40 }, noise));
  assert.ok(Math.abs(alone.cosine) < 0.03);
  assert.ok(alone.separation > 0.2 && alone.separation < 0.8);
});
