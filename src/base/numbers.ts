// Finds numbers in a text, in the notation of any country. Thousands and decimal separators are told apart by a number's form. If the form
// allows both (1,234), the other numbers of the text decide. If they do not, both readings are kept.
//
//   thousands          1,234,567   1.234.567   1 234 567   1'234'567   12,34,567
//   decimals           3.5   3,5   0,125   1.234,5   .5
//   powers and parts   1.2e-4   1.2 × 10^-4   3/4
//   not numbers        dates, times, ranges, versions, telephone numbers: 2019-03-12   10:30   10-20   3.5.1
//   part of a name     CO2   m2   m^2   COVID-19: used only if the text has no other number

export type DecimalSign = "." | ",";

interface Reading {
  value: number;
  /** The decimal sign that this reading implies; null if it implies none. */
  decimal: DecimalSign | null;
}

export interface FoundNumber {
  readings: Reading[];
  /** Whether the number is part of a name or a unit. */
  isGlued: boolean;
}

const spaces = " \\u00a0\\u2009\\u202f";
// A space joins two groups of digits only if they look like thousands.
const body = new RegExp(`\\d+(?:(?:[.,:/'’\u2013-]|(?<=(?<![\\d.,])\\d{1,3})[${spaces}](?=\\d{3}(?!\\d)))\\d+)*`, "gu");
const exponent = /[eE]([-+]?\d{1,3})(?![\p{L}\d])/uy;
const powerOfTen =
  /\s{0,2}(?:[×x·⋅*]|\\times|\\cdot)\s{0,2}10(?:\s?(?:\^|\*\*)\s?\{?([-\u2212+]?\d{1,3})\}?|([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))/uy;
const superscripts = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const nameBefore = /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}_^]-?$/u;
const mostDigits = 400;

/** Finds the numbers in the order of the text. `decimal` is the decimal sign, if it is known. */
export function numbersIn(text: string, decimal: DecimalSign | null = null): FoundNumber[] {
  const digits = inAsciiDigits(text);
  const found: FoundNumber[] = [];
  body.lastIndex = 0;
  for (let match = body.exec(digits); match !== null; match = body.exec(digits)) {
    const power = powerAt(digits, body.lastIndex);
    body.lastIndex = power.end;
    const { prefix, isGlued } = beforeOf(digits, match.index, match[0]);
    const readings = readingsOf(match[0], prefix, power.exponent);
    if (readings.length > 0) found.push({ readings, isGlued });
  }
  const sign = decimal ?? shownBy(found);
  const chosen = found.map(({ readings, isGlued }) => {
    const fitting = readings.filter((reading) => sign === null || (reading.decimal ?? sign) === sign);
    return { readings: fitting.length > 0 ? fitting : readings, isGlued };
  });
  const free = chosen.filter(({ isGlued }) => !isGlued);
  return free.length > 0 ? free : chosen;
}

/** As `numbersIn`, but the decimal sign of another text is used if the text's own numbers do not show one. */
export function numbersBeside(text: string, other: DecimalSign | null): FoundNumber[] {
  const own = numbersIn(text);
  return shownBy(own) === null ? numbersIn(text, other) : own;
}

/** Allows for errors in the last bits, because 0.3 − 0.2 is not 0.1 in doubles. */
const slack = 1e-12;

export const isWithin = (tolerance: number, value: number, target: number): boolean =>
  Math.abs(value - target) <= tolerance + slack * Math.max(1, Math.abs(target));

/** Returns the decimal sign on which all numbers with a single reading agree; null if there is none. */
export function shownBy(found: readonly FoundNumber[]): DecimalSign | null {
  const shown = new Set(found.flatMap(({ readings }) => (readings.length === 1 ? [readings[0]!.decimal] : [])));
  shown.delete(null);
  return shown.size === 1 ? [...shown][0]! : null;
}

/** In Unicode, the ten digits of a script are consecutive, so a digit's value is its distance from the first of them. */
const inAsciiDigits = (text: string): string =>
  text
    .replaceAll(/[^\P{Nd}0-9]/gu, valueOfDigit)
    .replaceAll("\u066b", ".")
    .replaceAll("\u066c", "'");

function valueOfDigit(digit: string): string {
  const point = digit.codePointAt(0)!;
  let first = point;
  while (/\p{Nd}/u.test(String.fromCodePoint(first - 1))) first--;
  return String((point - first) % 10);
}

function powerAt(text: string, at: number): { exponent: number; end: number } {
  for (const pattern of [exponent, powerOfTen]) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match === null) continue;
    const raised = match[1] ?? [...match[2]!].map((sign) => superscriptValue(sign)).join("");
    return { exponent: Number(raised.replace("\u2212", "-")), end: pattern.lastIndex };
  }
  return { exponent: 0, end: at };
}

const superscriptValue = (sign: string): string =>
  sign === "⁻" ? "-" : sign === "⁺" ? "+" : String(superscripts.indexOf(sign));

/** Returns a number's prefix (its sign, and a 0 that was left out before a point), and whether the digits belong to a name. */
function beforeOf(text: string, start: number, digits: string): { prefix: string; isGlued: boolean } {
  const near = text.slice(Math.max(0, start - 4), start);
  const isFraction = /(?:^|[^\p{L}\p{N}.,])\.$/u.test(near) && /^\d+$/.test(digits);
  const rest = isFraction ? near.slice(0, -1) : near;
  const isNegative = /(?:^|[^\p{L}\p{N})\]])[-\u2212\u2013]\p{Sc}?$/u.test(rest);
  return { prefix: `${isNegative ? "-" : ""}${isFraction ? "0." : ""}`, isGlued: nameBefore.test(rest) };
}

function readingsOf(digits: string, prefix: string, power: number): Reading[] {
  if (digits.length > mostDigits) return [];
  const valued = (whole: string, decimals: string, decimal: DecimalSign | null): Reading[] => {
    const value = Number(`${prefix}${whole}${decimals === "" ? "" : `.${decimals}`}e${power}`);
    return Number.isFinite(value) ? [{ value, decimal }] : [];
  };
  const fraction = /^(\d+)\/(\d+)$/.exec(digits);
  if (fraction !== null) {
    const value = (Number(fraction[1]) / Number(fraction[2])) * (prefix.startsWith("-") ? -1 : 1);
    return Number.isFinite(value) ? [{ value, decimal: null }] : [];
  }
  if (/[:/\u2013-]/u.test(digits)) return [];
  const groups = digits.split(/\D/u);
  const separators = [...digits.replaceAll(/\d/g, "")].map((sign) =>
    /[.,]/.test(sign) ? sign : /['’]/.test(sign) ? "'" : " ",
  );
  const last = separators.at(-1);
  if (last === undefined) return valued(digits, "", null);
  const readings: Reading[] = [];
  if (separators.every((sign) => sign === last) && areThousands(groups))
    readings.push(...valued(groups.join(""), "", last === "," ? "." : last === "." ? "," : null));
  const others = separators.slice(0, -1);
  const isDecimal =
    isDecimalSign(last) &&
    others.every((sign) => sign === others[0] && sign !== last) &&
    (others.length === 0 || areThousands(groups.slice(0, -1)));
  if (isDecimal) readings.push(...valued(groups.slice(0, -1).join(""), groups.at(-1)!, last));
  return readings;
}

const isDecimalSign = (sign: string): sign is DecimalSign => sign === "." || sign === ",";

/** Whether the groups are thousands. Groups between the first and the last may have two digits, as in India. */
const areThousands = (groups: readonly string[]): boolean =>
  /^[1-9]\d{0,2}$/.test(groups[0]!) &&
  groups.at(-1)!.length === 3 &&
  groups.slice(1, -1).every(({ length }) => length === 2 || length === 3);
