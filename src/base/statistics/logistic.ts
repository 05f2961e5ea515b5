// Logistic regression by Newton's method, and Platt's scaling, which is a logistic regression in a single variable.

/** σ(x), without overflow. */
export const sigmoid = (x: number): number => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));

/** A model on standardised features: margin = bias + Σ weight · (value − mean) / scale. */
export interface Logistic {
  means: number[];
  scales: number[];
  weights: number[];
  bias: number;
}

/** The log-odds that a row belongs to the positive class. */
export function marginOf({ means, scales, weights, bias }: Logistic, row: readonly number[]): number {
  let margin = bias;
  for (const [at, value] of row.entries()) margin += (weights[at]! * (value - means[at]!)) / scales[at]!;
  return margin;
}

/**
 * Minimises Σ cross-entropy + ½ · penalty · Σ weight² over rows [n][d], on features of mean 0 and deviation 1. The bias is not
 * penalised. (scikit-learn's LogisticRegression with C = 1 / penalty, after its StandardScaler.)
 */
export function fitLogistic(
  rows: readonly (readonly number[])[],
  labels: readonly boolean[],
  penalty: number,
): Logistic {
  const width = rows[0]!.length;
  const columns = Array.from({ length: width }, (_, at) => rows.map((row) => row[at]!));
  const means = columns.map(mean);
  // A feature that never varies carries no information; scale 1 leaves it at 0.
  const scales = columns.map((column, at) => Math.sqrt(mean(column.map((value) => (value - means[at]!) ** 2))) || 1);
  const standard = rows.map((row) => [...row.map((value, at) => (value - means[at]!) / scales[at]!), 1]);
  const weights = newton(standard, labels.map(Number), [...new Array<number>(width).fill(penalty), 0]);
  return { means, scales, weights: weights.slice(0, width), bias: weights[width]! };
}

/** p = σ(a · margin + b) */
export interface Platt {
  a: number;
  b: number;
}

/**
 * Fits Platt's scaling (Platt 1999). The targets (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2) keep the result finite if the margins separate the
 * classes perfectly. Platt's A and B are −a and −b.
 */
export function fitPlatt(margins: readonly number[], labels: readonly boolean[]): Platt {
  const right = labels.filter(Boolean).length;
  const high = (right + 1) / (right + 2);
  const low = 1 / (labels.length - right + 2);
  const [a, b] = newton(
    margins.map((margin) => [margin, 1]),
    labels.map((label) => (label ? high : low)),
    [1e-9, 1e-9],
  );
  return { a: a!, b: b! };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Minimises Σ cross-entropy(target, σ(w·x)) + ½ Σ penalty·w². rows [n][d], targets [n] in [0, 1]; returns w [d]. */
function newton(rows: readonly number[][], targets: readonly number[], penalties: readonly number[]): number[] {
  const width = penalties.length;
  let weights = new Array<number>(width).fill(0);
  let loss = lossOf(rows, targets, penalties, weights);
  for (let round = 0; round < 100; round++) {
    const gradient = penalties.map((value, at) => value * weights[at]!);
    const hessian = penalties.map((value, at) => penalties.map((_, other) => (at === other ? value + 1e-12 : 0)));
    for (const [index, row] of rows.entries()) {
      const p = sigmoid(dot(row, weights));
      for (let i = 0; i < width; i++) {
        gradient[i]! += (p - targets[index]!) * row[i]!;
        const weight = p * (1 - p) * row[i]!;
        const line = hessian[i]!;
        for (let j = 0; j <= i; j++) line[j]! += weight * row[j]!;
      }
    }
    for (let i = 0; i < width; i++) for (let j = 0; j < i; j++) hessian[j]![i] = hessian[i]![j]!;
    const direction = solve(hessian, gradient);
    // Newton's full step can overshoot where the curve is flat, so the step is halved until the loss does not rise.
    let length = 1;
    let next = weights;
    let nextLoss = loss;
    do {
      next = weights.map((value, at) => value - length * direction[at]!);
      nextLoss = lossOf(rows, targets, penalties, next);
      length /= 2;
    } while (!(nextLoss <= loss) && length > 1e-6);
    if (!(nextLoss <= loss)) return weights;
    const gained = loss - nextLoss;
    weights = next;
    loss = nextLoss;
    if (gained < 1e-12 * (1 + Math.abs(loss))) break;
  }
  return weights;
}

function lossOf(
  rows: readonly number[][],
  targets: readonly number[],
  penalties: readonly number[],
  weights: readonly number[],
): number {
  let loss = 0;
  for (const [at, weight] of weights.entries()) loss += (penalties[at]! * weight * weight) / 2;
  for (const [index, row] of rows.entries()) {
    const margin = dot(row, weights);
    // ln(1 + e^m) − target·m, without overflow
    loss += Math.max(margin, 0) + Math.log1p(Math.exp(-Math.abs(margin))) - targets[index]! * margin;
  }
  return loss;
}

/** Solves a symmetric positive definite system by Gaussian elimination with pivots. Overwrites a [d][d] and b [d], and returns b. */
function solve(a: number[][], b: number[]): number[] {
  const width = b.length;
  for (let column = 0; column < width; column++) {
    let pivot = column;
    for (let row = column + 1; row < width; row++)
      if (Math.abs(a[row]![column]!) > Math.abs(a[pivot]![column]!)) pivot = row;
    [a[column], a[pivot]] = [a[pivot]!, a[column]!];
    [b[column], b[pivot]] = [b[pivot]!, b[column]!];
    for (let row = column + 1; row < width; row++) {
      const factor = a[row]![column]! / a[column]![column]!;
      for (let k = column; k < width; k++) a[row]![k]! -= factor * a[column]![k]!;
      b[row]! -= factor * b[column]!;
    }
  }
  for (let row = width - 1; row >= 0; row--) {
    for (let k = row + 1; k < width; k++) b[row]! -= a[row]![k]! * b[k]!;
    b[row]! /= a[row]![row]!;
  }
  return b;
}

function dot(a: readonly number[], b: readonly number[]): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!;
  return sum;
}
