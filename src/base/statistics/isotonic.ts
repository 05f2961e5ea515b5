// Fits non-decreasing curves to shares of successes, by isotonic regression and by its centred form.

/** A curve given by its knots: xs rise strictly, ys never fall. */
export interface Curve {
  xs: number[];
  ys: number[];
}

interface Block {
  /** Least and greatest x of the block's observations, their number, and the sums of their xs and ys. */
  first: number;
  last: number;
  n: number;
  sumX: number;
  sumY: number;
}

/**
 * Pools adjacent violators into blocks of rising mean, with equal xs in one block. Adjacent blocks of equal mean are merged,
 * which does not change the curve.
 */
function poolAdjacentViolators(xs: readonly number[], ys: readonly number[]): Block[] {
  const order = Array.from(xs.keys()).sort((a, b) => xs[a]! - xs[b]!);
  const blocks: Block[] = [];
  for (const at of order) {
    const [x, y] = [xs[at]!, ys[at]!];
    const top = blocks.at(-1);
    if (top?.last === x && top.first === x) {
      top.n++;
      top.sumX += x;
      top.sumY += y;
    } else blocks.push({ first: x, last: x, n: 1, sumX: x, sumY: y });
  }
  const pooled: Block[] = [];
  for (const block of blocks) {
    let top = block;
    for (let below = pooled.at(-1); below && below.sumY * top.n >= top.sumY * below.n; below = pooled.at(-1)) {
      pooled.pop();
      const { first, n, sumX, sumY } = below;
      top = { first, last: top.last, n: n + top.n, sumX: sumX + top.sumX, sumY: sumY + top.sumY };
    }
    pooled.push(top);
  }
  return pooled;
}

/** Fits the least-squares non-decreasing step function, with knots at both ends of each step (as scikit-learn's IsotonicRegression). */
export function fitIsotonic(xs: readonly number[], ys: readonly number[]): Curve {
  const curve: Curve = { xs: [], ys: [] };
  for (const { first, last, n, sumY } of poolAdjacentViolators(xs, ys))
    for (const x of first === last ? [first] : [first, last]) {
      curve.xs.push(x);
      curve.ys.push(sumY / n);
    }
  return curve;
}

/**
 * Centred isotonic regression (Oron and Flournoy 2017, Statistics in Biopharmaceutical Research 9, 258–267): each step shrinks
 * to one knot at the mean x of its observations, so that the curve rises between them. Steps at 0 and at 1, the limits
 * of a share, keep their width.
 */
export function fitCentredIsotonic(xs: readonly number[], ys: readonly number[]): Curve {
  const curve: Curve = { xs: [], ys: [] };
  for (const { first, last, n, sumX, sumY } of poolAdjacentViolators(xs, ys)) {
    const y = sumY / n;
    const isWide = (y === 0 || y === 1) && first < last;
    for (const x of isWide ? [first, last] : [sumX / n]) {
      curve.xs.push(x);
      curve.ys.push(y);
    }
  }
  return curve;
}

/** Returns the curve's y at `x`. The curve is linear between knots and constant beyond them. */
export function interpolate({ xs, ys }: Curve, x: number): number {
  if (x <= xs[0]!) return ys[0]!;
  if (x >= xs.at(-1)!) return ys.at(-1)!;
  let [low, high] = [0, xs.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle]! <= x) low = middle;
    else high = middle;
  }
  const share = (x - xs[low]!) / (xs[high]! - xs[low]!);
  return ys[low]! + share * (ys[high]! - ys[low]!);
}
