// Distributions for intervals and tests. Probabilities are accurate to about 1e-10, and what `bisect` finds to 1e-7 of its range. Both
// are more accurate than any number of items requires.

/** ln Γ(x), x > 0: Lanczos' approximation with g = 7 and nine terms. */
export function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const terms = [
    676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
    -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7,
  ];
  const sum = terms.reduce((total, term, index) => total + term / (x + index), 0.9999999999998099);
  const t = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

/** The regularised incomplete beta function I_x(a, b), by Lentz's method on its continued fraction (DLMF 8.17.22). */
export function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  // The continued fraction converges fast for x up to about the mean. For a greater x, the one of I_{1−x}(b, a) converges fast.
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(
    logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x) - Math.log(a),
  );
  const tiny = 1e-300;
  const away = (value: number): number => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / away(1 - ((a + b) * x) / (a + 1));
  let fraction = d;
  for (let m = 1; m <= 10_000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    fraction *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    fraction *= d * c;
    if (Math.abs(d * c - 1) < 1e-14) return front * fraction;
  }
  throw new Error(`the incomplete beta function of ${x}, ${a}, ${b} does not converge`);
}

/** P(X ≥ k) for a binomial X of n trials with probability p. */
export const binomialTail = (k: number, n: number, p: number): number =>
  k <= 0 ? 1 : k > n ? 0 : incompleteBeta(p, k, n - k + 1);

/** P(X ≤ x) of the standard normal distribution, by a series that loses no digits to cancellation (Marsaglia 2004). */
export function normalCdf(x: number): number {
  if (Math.abs(x) > 8) return x > 0 ? 1 : 0;
  let [sum, term] = [x, x];
  for (let k = 3; Math.abs(term) > 1e-17 * Math.abs(sum); k += 2) {
    term *= (x * x) / k;
    sum += term;
  }
  return 0.5 + sum * Math.exp(-0.5 * x * x) * (1 / Math.sqrt(2 * Math.PI));
}

/** P(T ≤ t) of Student's t-distribution. */
export function studentCdf(t: number, degrees: number): number {
  const tail = incompleteBeta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2;
  return t > 0 ? 1 - tail : tail;
}

/** The t for which P(T ≤ t) = `p` in Student's t-distribution, for 0.5 ≤ p < 1. */
export function studentQuantile(p: number, degrees: number): number {
  let high = 1;
  while (studentCdf(high, degrees) < p) high *= 2;
  return bisect((t) => studentCdf(t, degrees) >= p, 0, high);
}

/** Finds the least x from `low` to `high` at which `holds` is true, to 1e-7 of their distance. `holds` must stay true above that x. */
export function bisect(holds: (x: number) => boolean, low: number, high: number): number {
  const within = 1e-7 * (high - low);
  let [no, yes] = [low, high];
  while (yes - no > within) {
    const middle = (no + yes) / 2;
    if (holds(middle)) yes = middle;
    else no = middle;
  }
  return yes;
}
