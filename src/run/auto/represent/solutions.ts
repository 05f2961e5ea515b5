// The numerical parts of representation edits: directions, the best constant reader, and the context edit. Shapes are
// in the model's terms: a key z [d_in] is the input of a writer W at one position, and a target t [d_out] is what the
// residual stream should gain there.
import {
  cholesky,
  combined,
  dot,
  gram,
  multiplied,
  type Row,
  solved,
  symmetricEigen,
  transposed,
  unitOf,
} from "./algebra.ts";

/** Agreement among differences [d] between a good and a bad answer to the same prompt. */
export interface Agreement {
  /** Mean cosine over all pairs of differences: the go/no-go statistic (arXiv 2505.22637). */
  cosine: number;
  /** Share of differences that the mean of the others orders correctly. */
  separation: number;
  /** Mean of the differences [d], not normalised. */
  mean: Float64Array;
}

/** Measures the agreement. Needs at least two differences, none of them 0. */
export function agreementOf(differences: readonly Row[]): Agreement {
  const n = differences.length;
  const units = differences.map(unitOf);
  const sum = combined(units, new Float64Array(n).fill(1));
  const all = combined(differences, new Float64Array(n).fill(1));
  const right = differences.filter((one) => dot(one, all) - dot(one, one) > 0).length;
  return {
    cosine: (dot(sum, sum) - n) / (n * (n - 1)),
    separation: right / n,
    mean: all.map((value) => value / n),
  };
}

/**
 * Returns a [d_in] = (E[zzᵀ] + λI)⁻¹ E[z], where λ is `ridge` times the mean square of z's components. aᵀz is as close
 * to 1 as one row can make it, so c aᵀ is the best approximation of adding a constant c. By the push-through identity,
 * the system is only as large as the number of keys.
 */
export function constantReader(keys: readonly Row[], ridge: number): Float64Array {
  const g = gram(keys);
  const floor = ridge * meanSquare(keys) * keys.length;
  for (const [at, row] of g.entries()) row[at]! += floor;
  return combined(keys, solved(cholesky(g), new Float64Array(keys.length).fill(1)));
}

/**
 * E (1 − aᵀz)²: the share of a constant that is missed. For the keys that `a` was fitted to, without a ridge, it is 1 /
 * (1 + μᵀΣ⁻¹μ).
 */
export const missedShare = (a: Row, keys: readonly Row[]): number =>
  keys.reduce((sum, key) => sum + (1 - dot(a, key)) ** 2, 0) / keys.length;

/** Mean square of a component of the keys. */
const meanSquare = (keys: readonly Row[]): number =>
  keys.reduce((sum, key) => sum + dot(key, key), 0) / keys.length / keys[0]!.length;

export interface RidgeOptions {
  /** Weight of the keys of other text. */
  lambda: number;
  /**
   * Floor of C₀, as a share of the mean square of a component of the other text's keys. It suppresses directions in
   * which no key lies.
   */
  floor: number;
  rank: number;
}

/**
 * Returns the edit Δ = T Zᵀ (ZZᵀ + λC₀)⁻¹ at its best rank r, as B [d_out, r] and A [r, d_in] with Δ_r = B A. The
 * columns of Z are the keys, those of T the targets, those of X the m keys x of other text, and C₀ = E[xxᵀ] + floor·I.
 * With M = ZZᵀ + λC₀ = LLᵀ, the optimum in the norm of M is the best rank-r approximation of ΔL: Δ_r = U_r U_rᵀ Δ,
 * where U_r are the first left singular vectors of ΔL (design: alignment notes, §8.2). All systems are only as large as
 * the number of keys, because M = KKᵀ + εI with K = [Z, √(λ/m) X], so that KᵀM⁻¹ = (KᵀK + εI)⁻¹Kᵀ and ZᵀM⁻¹Z = I −
 * ε·[(KᵀK + εI)⁻¹]_ZZ.
 */
export function contextEdit(
  keys: readonly Row[],
  targets: readonly Row[],
  others: readonly Row[],
  { lambda, floor, rank }: RidgeOptions,
): { a: Float64Array[]; b: Float64Array[] } {
  const n = keys.length;
  const share = Math.sqrt(lambda / others.length);
  const all: Row[] = [...keys, ...others.map((key) => Float64Array.from(key, (value) => share * value))];
  const epsilon = lambda * floor * meanSquare(others);
  const system = gram(all);
  for (const [at, row] of system.entries()) row[at]! += epsilon;
  const lower = cholesky(system);
  /** The first n rows of the system's inverse. */
  const inverse = keys.map((_, at) =>
    solved(
      lower,
      Float64Array.from(all, (_key, other) => Number(at === other)),
    ),
  );
  const q = inverse.map((row, at) => row.slice(0, n).map((value, other) => Number(at === other) - epsilon * value));
  // q = R Rᵀ, from the eigenvectors of q. Rounding may leave the smallest eigenvalues just below 0; these count as 0.
  const { values, vectors } = symmetricEigen(q);
  const rT = vectors.map((vector, at) => vector.map((value) => value * Math.sqrt(Math.max(0, values[at]!))));
  const g = gram(targets);
  const small = symmetricEigen(multiplied(multiplied(rT, g), transposed(rT)));
  const left: Float64Array[] = [];
  for (let k = 0; k < Math.min(rank, n) && small.values[k]! > 1e-12 * small.values[0]!; k++) {
    // u = T R w / σ
    const weights = combined(rT, small.vectors[k]!);
    left.push(combined(targets, weights).map((value) => value / Math.sqrt(small.values[k]!)));
  }
  const a = left.map((u) => {
    const along = Float64Array.from(targets, (target) => dot(u, target));
    return combined(all, combined(inverse, along));
  });
  return { a, b: left };
}
