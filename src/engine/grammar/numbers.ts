// Ranges of numbers as GBNF expressions over their decimal digits, without an exponent. Numbers are compared digit by digit
// with the shortest decimal of a bound. Decimals of up to 15 digits that differ are different doubles, so rounding cannot
// carry a number across a bound.

const digits = 15;
/** Digits before the point of a number that has no bound on that side. */
const freeDigits = 9;

/** Expression for the whole numbers from low to high; a null bound allows up to 16 digits. Null if there are no such numbers. */
export function integersBetween(low: bigint | null, high: bigint | null): string | null {
  const most = 10n ** 16n - 1n;
  const [from, to] = [low ?? -most, high ?? most];
  if (from > to) return null;
  const parts: string[] = [];
  if (to >= 0n) parts.push(naturals(from > 0n ? from : 0n, to));
  if (from < 0n) parts.push(`"-" ${grouped(naturals(to < 0n ? -to : 1n, -from))}`);
  return parts.join(" | ");
}

/** An expression for from…to, 0 ≤ from ≤ to, without leading zeros. */
function naturals(from: bigint, to: bigint): string {
  const [first, last] = [String(from), String(to)];
  if (first.length === last.length) return sameLength(first, last);
  const parts = [sameLength(first, "9".repeat(first.length))];
  const [shortest, longest] = [first.length + 1, last.length - 1];
  if (shortest <= longest) parts.push(`[1-9] ${counted("[0-9]", shortest - 1, longest - 1)}`);
  parts.push(sameLength(`1${"0".repeat(last.length - 1)}`, last));
  return parts.join(" | ");
}

function sameLength(from: string, to: string): string {
  if (from === "") return '""';
  if (/^0*$/.test(from) && /^9*$/.test(to)) return counted("[0-9]", from.length, from.length);
  const [a, b] = [Number(from[0]), Number(to[0])];
  const rest = from.length - 1;
  const step = (digit: number, low: string, high: string): string =>
    rest === 0 ? `"${digit}"` : `"${digit}" ${grouped(sameLength(low, high))}`;
  if (a === b) return step(a, from.slice(1), to.slice(1));
  const parts: string[] = [];
  // An end whose remaining digits are free is merged into the middle range.
  const lowFree = /^0*$/.test(from.slice(1));
  const highFree = /^9*$/.test(to.slice(1));
  if (!lowFree) parts.push(step(a, from.slice(1), "9".repeat(rest)));
  const [first, last] = [lowFree ? a : a + 1, highFree ? b : b - 1];
  if (first <= last) parts.push(`[${first}-${last}]${rest === 0 ? "" : ` ${counted("[0-9]", rest, rest)}`}`);
  if (!highFree) parts.push(step(b, "0".repeat(rest), to.slice(1)));
  return parts.join(" | ");
}

export interface Bound {
  value: number;
  isExclusive: boolean;
}

/** Expression for the numbers between the bounds; null if there are none. Throws RangeError for a bound of 10^15 or more. */
export function numbersBetween(low: Bound | null, high: Bound | null): string | null {
  const parts: string[] = [];
  const zero: Bound = { value: 0, isExclusive: false };
  if (high === null || high.value >= 0)
    parts.push(nonNegatives(low === null || low.value < 0 ? zero : low, high) ?? "");
  if (low === null || low.value < 0) {
    // −0 is left out, because 0 is written without a sign.
    const least = high === null || high.value >= 0 ? { value: 0, isExclusive: true } : mirrored(high);
    const magnitudes = nonNegatives(least, low === null ? null : mirrored(low));
    if (magnitudes !== null) parts.push(`"-" ${grouped(magnitudes)}`);
  }
  const found = parts.filter((part) => part !== "");
  return found.length === 0 ? null : found.join(" | ");
}

const mirrored = ({ value, isExclusive }: Bound): Bound => ({ value: -value, isExclusive });

function nonNegatives(low: Bound, high: Bound | null): string | null {
  if (high !== null && (high.value < low.value || (high.value === low.value && (low.isExclusive || high.isExclusive))))
    return null;
  const from = decimalOf(low.value);
  const free = 10n ** BigInt(Math.max(freeDigits, String(from.whole).length + 1)) - 1n;
  // Ignore an upper bound that is above all numbers that are written anyway.
  const to = high === null || decimalOf(high.value).whole > free ? null : decimalOf(high.value);
  const last = to?.whole ?? free + 1n;
  const room = (whole: bigint): number => Math.max(0, digits - String(whole).length);
  const parts: string[] = [];
  const edge = (whole: bigint, least: string | null, most: string | null): void => {
    const bounds = { lowExclusive: low.isExclusive, highExclusive: high?.isExclusive ?? false };
    const part = fraction(least, most, bounds, room(whole));
    if (part !== null) parts.push(`"${whole}" ${grouped(part)}`);
  };
  if (from.whole === last) edge(from.whole, from.part, to!.part);
  else {
    edge(from.whole, from.part, null);
    if (from.whole + 1n <= last - 1n)
      parts.push(
        `${grouped(naturals(from.whole + 1n, last - 1n))} ${grouped(fraction(null, null, open, room(last))!)}`,
      );
    if (to !== null) edge(to.whole, null, to.part);
  }
  return parts.length === 0 ? null : parts.join(" | ");
}

interface Exclusive {
  lowExclusive: boolean;
  highExclusive: boolean;
}
const open: Exclusive = { lowExclusive: false, highExclusive: false };

/**
 * Expression for a fraction: nothing, or a point and up to `room` digits; null if there is none. `low` and `high` are the
 * digits of the bounds' fractions without trailing zeros, or null if there is no bound.
 */
function fraction(low: string | null, high: string | null, bounds: Exclusive, room: number): string | null {
  const parts = isAllowed(low, high, bounds) ? ['""'] : [];
  const after = digitsAfter(low, high, bounds, room, false);
  if (after !== null) parts.push(`"." ${grouped(after)}`);
  return parts.length === 0 ? null : parts.join(" | ");
}

/** Whether the digits may end here. */
function isAllowed(low: string | null, high: string | null, { lowExclusive, highExclusive }: Exclusive): boolean {
  return (low === null || (low === "" && !lowExclusive)) && (high === null || high !== "" || !highExclusive);
}

function digitsAfter(
  low: string | null,
  high: string | null,
  bounds: Exclusive,
  room: number,
  mayEnd: boolean,
): string | null {
  // A lower bound of zero that includes zero is no bound.
  if (low === "" && !bounds.lowExclusive) return digitsAfter(null, high, bounds, room, mayEnd);
  if (low === null && high === null) return room === 0 && !mayEnd ? null : counted("[0-9]", mayEnd ? 0 : 1, room);
  const parts = mayEnd && isAllowed(low, high, bounds) ? ['""'] : [];
  const ways = new Map<string, { low: string | null; high: string | null; digits: number[] }>();
  for (let digit = 0; room > 0 && digit <= 9; digit++) {
    const [least, most] = [Number(low?.[0] ?? 0), Number(high?.[0] ?? 0)];
    if ((low !== null && digit < least) || (high !== null && digit > most)) continue;
    const next = {
      low: low === null || digit > least ? null : low.slice(1),
      high: high === null || digit < most ? null : high.slice(1),
    };
    const key = JSON.stringify(next);
    const way = ways.get(key) ?? { ...next, digits: [] };
    way.digits.push(digit);
    ways.set(key, way);
  }
  for (const way of ways.values()) {
    const rest = digitsAfter(way.low, way.high, bounds, room - 1, true);
    if (rest !== null) parts.push(`[${way.digits[0]}-${way.digits.at(-1)}] ${grouped(rest)}`);
  }
  return parts.length === 0 ? null : parts.join(" | ");
}

/** The shortest decimal that is read as this double, split at the point. Throws RangeError for 10^15 or more. */
function decimalOf(value: number): { whole: bigint; part: string } {
  if (value >= 1e15) throw new RangeError("bounds of numbers must be smaller than 10^15");
  const [mantissa, exponent] = String(value).split("e") as [string, string | undefined];
  const [whole, part = ""] = mantissa.split(".") as [string, string | undefined];
  if (exponent === undefined) return { whole: BigInt(whole), part };
  // Only small numbers are still written with an exponent here, because large ones have been refused above.
  return { whole: 0n, part: `${"0".repeat(-Number(exponent) - 1)}${whole}${part}` };
}

const grouped = (expression: string): string => (/ \| /.test(expression) ? `(${expression})` : expression);

function counted(what: string, least: number, most: number): string {
  if (most === 0) return '""';
  return least === most ? (least === 1 ? what : `${what}{${least}}`) : `${what}{${least},${most}}`;
}
