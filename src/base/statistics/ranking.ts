// Measures how well scores rank right answers above wrong ones. A higher score means a more certain answer. Ties count as if they were
// broken at random.

/** The probability that a positive's value is above a negative's, with ties counted as half. Null if either list is empty. */
export function auroc(positives: readonly number[], negatives: readonly number[]): number | null {
  if (positives.length === 0 || negatives.length === 0) return null;
  const all = [
    ...positives.map((value) => ({ value, positive: true })),
    ...negatives.map((value) => ({ value, positive: false })),
  ].sort((a, b) => a.value - b.value);
  let rankSum = 0;
  for (let from = 0; from < all.length; ) {
    let [to, tied] = [from, 0];
    for (; to < all.length && all[to]!.value === all[from]!.value; to++) if (all[to]!.positive) tied++;
    // Equal values share the mean of their ranks, which count from 1.
    rankSum += ((from + 1 + to) / 2) * tied;
    from = to;
  }
  const least = (positives.length * (positives.length + 1)) / 2;
  return (rankSum - least) / (positives.length * negatives.length);
}

/** As `auroc`, given scores and whether each answer is right. */
export const aurocOf = (scores: readonly number[], labels: readonly boolean[]): number | null =>
  auroc(
    scores.filter((_, at) => labels[at]),
    scores.filter((_, at) => !labels[at]),
  );

/** The expected number of right answers among the k best-scored ones, for k = 1 … n, at index k − 1. */
function rightAmongBest(scores: readonly number[], labels: readonly boolean[]): number[] {
  const order = Array.from(scores.keys()).sort((a, b) => scores[b]! - scores[a]!);
  const found: number[] = [];
  let right = 0;
  for (let from = 0; from < order.length; ) {
    let [to, tied] = [from, 0];
    for (; to < order.length && scores[order[to]!] === scores[order[from]!]; to++) if (labels[order[to]!]) tied++;
    for (let at = from; at < to; at++) found.push(right + (tied * (at - from + 1)) / (to - from));
    right += tied;
    from = to;
  }
  return found;
}

/** Mean accuracy of the answers kept while the least certain are rejected one by one, up to `share` of all. */
function rejectionArea(found: readonly number[], share: number): number {
  const n = found.length;
  const rejected = Math.floor(share * n);
  let sum = 0;
  for (let kept = n - rejected + 1; kept <= n; kept++) sum += found[kept - 1]! / kept;
  return sum / rejected;
}

/**
 * The prediction-rejection ratio (LM-Polygraph, arXiv 2406.15627): the area under accuracy against rejection, up to half of the
 * answers. It is scaled so that random rejection gives 0, and rejecting wrong answers first gives 1. Null if all answers are right or
 * all are wrong. Also null for fewer than four answers, because the area is then the accuracy of all, which every order shares.
 */
export function predictionRejectionRatio(scores: readonly number[], labels: readonly boolean[]): number | null {
  const right = labels.filter(Boolean).length;
  if (right === 0 || right === labels.length || labels.length < 4) return null;
  const area = rejectionArea(rightAmongBest(scores, labels), 0.5);
  const oracle = rejectionArea(rightAmongBest(labels.map(Number), labels), 0.5);
  const random = right / labels.length;
  return (area - random) / (oracle - random);
}

/** Mean accuracy over all coverages 1/n … 1 (AUARC), which is 1 − the area under the risk-coverage curve. Null without answers. */
export function accuracyRejectionArea(scores: readonly number[], labels: readonly boolean[]): number | null {
  return scores.length === 0 ? null : rejectionArea(rightAmongBest(scores, labels), 1);
}
