// Exact bounds of a true share (Clopper and Pearson 1934). `chance` is the greatest one-sided probability that a bound misses the share.
import { binomialTail, bisect } from "./distributions.ts";

/** The greatest true share that is compatible with `k` successes in `n` trials. */
export const upperBound = (k: number, n: number, chance: number): number =>
  k === n ? 1 : bisect((share) => binomialTail(k + 1, n, share) >= 1 - chance, k / n, 1);

/** The least true share that is compatible with `k` successes in `n` trials. */
export const lowerBound = (k: number, n: number, chance: number): number =>
  k === 0 ? 0 : bisect((share) => binomialTail(k, n, share) >= chance, 0, k / n);
