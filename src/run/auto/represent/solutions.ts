// What representation edits are made of, as numbers alone: directions, the best constant reader, and the context edit. Shapes are said in
// the model's terms: a key z [d_in] is what a writer W reads at one place, a target t [d_out] what the residual stream should gain there.
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

/** Of differences [d] between a good and a bad answer to the same prompt. */
export interface Agreement {
  /** Mean cosine of every two of them: the go/no-go statistic (arXiv 2505.22637). */
  cosine: number;
  /** Share that the mean of the others orders rightly. */
  separation: number;
  /** Their mean [d], not at length 1. */
  mean: Float64Array;
}

/** At least two differences, none of them 0. */
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
 * a [d_in] = (E[zzᵀ] + λI)⁻¹ E[z], λ the share `ridge` of the mean of z's squares: aᵀz is 1 as nearly as one row can make it, so that
 * c aᵀ is the best approximation of adding a constant c. By the push-through identity only as large a system as there are keys.
 */
export function constantReader(keys: readonly Row[], ridge: number): Float64Array {
  const g = gram(keys);
  const floor = ridge * meanSquare(keys) * keys.length;
  for (const [at, row] of g.entries()) row[at]! += floor;
  return combined(keys, solved(cholesky(g), new Float64Array(keys.length).fill(1)));
}

/** E (1 − aᵀz)²: what of a constant is missed. Of keys that `a` was fitted to, without a ridge, it is 1 / (1 + μᵀΣ⁻¹μ). */
export const missedShare = (a: Row, keys: readonly Row[]): number =>
  keys.reduce((sum, key) => sum + (1 - dot(a, key)) ** 2, 0) / keys.length;

/** Of one component. */
const meanSquare = (keys: readonly Row[]): number =>
  keys.reduce((sum, key) => sum + dot(key, key), 0) / keys.length / keys[0]!.length;

export interface RidgeOptions {
  /** How much the keys of other text weigh. */
  lambda: number;
  /** Of C₀, as a share of the mean square of a component of those keys: what keeps directions quiet that no key has. */
  floor: number;
  rank: number;
}

/**
 * The edit Δ = T Zᵀ (ZZᵀ + λC₀)⁻¹ at its best rank r, as B [d_out, r] and A [r, d_in] with Δ_r = B A. C₀ = E[xxᵀ] + floor·I over the keys
 * x of other text. With M = ZZᵀ + λC₀ = LLᵀ, the optimum in the norm of M is the one whose ΔL is nearest: Δ_r = U_r U_rᵀ Δ, U_r the
 * first left singular vectors of ΔL (design: alignment notes, §8.2). All systems are as large as there are keys: M = KKᵀ + εI with
 * K = [Z, √(λ/m) X], so that KᵀM⁻¹ = (KᵀK + εI)⁻¹Kᵀ and ZᵀM⁻¹Z = I − ε·[(KᵀK + εI)⁻¹]_ZZ.
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
  // q = R Rᵀ by its eigenvectors, since rounding may leave the smallest just below 0.
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
