// Dense linear algebra in double precision for the systems that representation edits solve. The size of a system is the
// number of positions watched (a few hundred), never the width of the model. Matrices are lists of rows.
import { Failure } from "../../../base/errors.ts";

export type Row = ArrayLike<number>;
export type Matrix = Float64Array[];

export function dot(a: Row, b: Row): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

export const zeros = (rows: number, columns: number): Matrix =>
  Array.from({ length: rows }, () => new Float64Array(columns));

/** a aᵀ. */
export function gram(a: readonly Row[]): Matrix {
  const g = zeros(a.length, a.length);
  for (let i = 0; i < a.length; i++) for (let j = 0; j <= i; j++) g[i]![j] = g[j]![i] = dot(a[i]!, a[j]!);
  return g;
}

/** Sum of the rows, each times its coefficient. */
export function combined(rows: readonly Row[], coefficients: Row): Float64Array {
  const sum = new Float64Array(rows[0]!.length);
  for (const [at, row] of rows.entries()) {
    const factor = coefficients[at]!;
    if (factor !== 0) for (let i = 0; i < sum.length; i++) sum[i]! += factor * row[i]!;
  }
  return sum;
}

/** The product a b, where both are lists of rows. */
export const multiplied = (a: readonly Row[], b: readonly Row[]): Matrix => a.map((row) => combined(b, row));

export const transposed = (a: readonly Row[]): Matrix =>
  Array.from({ length: a[0]!.length }, (_, at) => Float64Array.from(a, (row) => row[at]!));

/** The lower triangular L with m = L Lᵀ. Throws `run_failed` where m is not positive definite. */
export function cholesky(m: readonly Row[]): Matrix {
  const n = m.length;
  const lower = zeros(n, n);
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++) {
      let sum = m[i]![j]!;
      for (let k = 0; k < j; k++) sum -= lower[i]![k]! * lower[j]![k]!;
      if (i > j) lower[i]![j] = sum / lower[j]![j]!;
      else if (sum > 0) lower[i]![i] = Math.sqrt(sum);
      else throw new Failure("run_failed", "A matrix of activations is not positive definite");
    }
  return lower;
}

/** Solves L Lᵀ x = b for x. */
export function solved(lower: Matrix, b: Row): Float64Array {
  const n = lower.length;
  const x = Float64Array.from(b);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) x[i]! -= lower[i]![k]! * x[k]!;
    x[i]! /= lower[i]![i]!;
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) x[i]! -= lower[k]![i]! * x[k]!;
    x[i]! /= lower[i]![i]!;
  }
  return x;
}

/** Maximum number of sweeps. Rotations converge quadratically, so they are done long before this limit. */
const mostSweeps = 60;

/**
 * Eigenvalues of a symmetric matrix, largest first, each with its unit eigenvector. Uses Jacobi rotations, which are
 * exact enough for small n.
 */
export function symmetricEigen(m: readonly Row[]): { values: Float64Array; vectors: Matrix } {
  const n = m.length;
  const a = m.map((row) => Float64Array.from(row));
  // Rows are the eigenvectors.
  const v = zeros(n, n);
  for (let i = 0; i < n; i++) v[i]![i] = 1;
  const total = a.reduce((sum, row) => sum + dot(row, row), 0);
  for (let sweep = 0; sweep < mostSweeps; sweep++) {
    let off = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) off += a[i]![j]! ** 2;
    if (off <= 1e-28 * total) break;
    for (let p = 0; p < n - 1; p++) for (let q = p + 1; q < n; q++) rotate(a, v, p, q);
  }
  const order = Array.from({ length: n }, (_, at) => at).sort((one, other) => a[other]![other]! - a[one]![one]!);
  return { values: Float64Array.from(order, (at) => a[at]![at]!), vectors: order.map((at) => v[at]!) };
}

/** Makes a[p][q] zero by rotating a and v in place (Golub and Van Loan, Matrix Computations, §8.5). */
function rotate(a: Matrix, v: Matrix, p: number, q: number): void {
  const apq = a[p]![q]!;
  if (apq === 0) return;
  const theta = (a[q]![q]! - a[p]![p]!) / (2 * apq);
  const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1);
  const s = t * c;
  for (const row of a) {
    const [x, y] = [row[p]!, row[q]!];
    row[p] = c * x - s * y;
    row[q] = s * x + c * y;
  }
  for (const [one, other] of [
    [a[p]!, a[q]!],
    [v[p]!, v[q]!],
  ] as const)
    for (let k = 0; k < one.length; k++) {
      const [x, y] = [one[k]!, other[k]!];
      one[k] = c * x - s * y;
      other[k] = s * x + c * y;
    }
}

/** The vector scaled to length 1. */
export function unitOf(vector: Row): Float64Array {
  const length = Math.sqrt(dot(vector, vector));
  return Float64Array.from(vector, (value) => value / length);
}
