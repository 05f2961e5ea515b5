// Exact bounds of a share (Clopper and Pearson 1934). `chance` is the one-sided probability that the bound misses.
import { binomialTail, bisect } from "./distributions.ts";

/** The greatest share of successes that `k` of `n` do not refute. */
export const upperBound = (k: number, n: number, chance: number): number =>
  k === n ? 1 : bisect((share) => binomialTail(k + 1, n, share) >= 1 - chance, k / n, 1);

/** The least share of successes that `k` of `n` do not refute. */
export const lowerBound = (k: number, n: number, chance: number): number =>
  k === 0 ? 0 : bisect((share) => binomialTail(k, n, share) >= chance, 0, k / n);
