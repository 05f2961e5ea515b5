// What a count of right answers is worth: pure functions, each with the name it has in the textbooks.

export interface Score {
  /** Points out of 100, and the 95 % interval around them. */
  score: number;
  low: number;
  high: number;
  n: number;
}

/** 97.5 % of a normal distribution lies below it. */
const z = 1.959963984540054;

/** Wilson's interval of a share. Of no items at all nothing is known: 0 to 100. */
export function wilson(correct: number, n: number): Score {
  if (n === 0) return { score: 0, low: 0, high: 100, n };
  const share = correct / n;
  const scale = 1 + (z * z) / n;
  const middle = (share + (z * z) / (2 * n)) / scale;
  const half = (z * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n))) / scale;
  // The ends are exact at 0 and n, where the formula leaves a rounding error.
  const low = correct === 0 ? 0 : 100 * (middle - half);
  const high = correct === n ? 100 : 100 * (middle + half);
  return { score: 100 * share, low, high, n };
}

/**
 * McNemar's test, exact and two-sided: the chance that, were both models equally good, items that only one of them answers
 * right were shared out at least as unevenly as `gained` to `lost`.
 */
export function mcnemar(gained: number, lost: number): number {
  const n = gained + lost;
  const fewer = Math.min(gained, lost);
  // In logarithms, for 2^-n underflows from n = 1075 on.
  let logTerm = -n * Math.LN2;
  let sum = Math.exp(logTerm);
  for (let k = 1; k <= fewer; k++) {
    logTerm += Math.log((n - k + 1) / k);
    sum += Math.exp(logTerm);
  }
  return Math.min(1, 2 * sum);
}

/**
 * The smallest difference in points that a paired comparison over n items would have shown: two-sided 5 %, power 80 %.
 * `discordance` is the share of items that exactly one of the two answers right.
 */
export function minimumDetectableEffect(n: number, discordance: number): number {
  return n === 0 ? 100 : Math.min(100, 280 * Math.sqrt(discordance / n));
}
