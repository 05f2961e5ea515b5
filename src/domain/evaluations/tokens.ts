// Converts short answers to the normal form in which they are compared. Answers that a person would call the same give the same tokens.
//
//   case, Unicode form        NFKC, lower case; every dash is "-"
//   articles, punctuation     dropped: a, an, the before a word; 's at the end of a word. The A of "Hall A" is a label and stays
//   numbers                   1,200 = 1200 = 1'200; 3.50 = 3.5 = 3,5; 1.234,5 = 1234.5; a sign stays; leading zeros stay (codes); 5th = 5;
//                             10km = 10 km
//   money and shares          $1,200 = USD 1,200 = 1200 dollars; 5% = 5 percent = 5 per cent
//   dates                     2019-03-12 = 12.3.2019 = March 12th, 2019 = 12 Mar 2019, as the tokens 12 march 2019.
//                             12/03/2019 stays three numbers, because which of them is the month depends on the country
//   elisions                  two tokens, without an article: l'Espagne = Espagne. A contraction is one: don't = dont
//   scripts without spaces    a token per character

import { unspacedLetter } from "../../base/text.ts";

export type Token = string;

const months = [
  "january",
  "february",
  "march",
  "april",
  "may",
  "june",
  "july",
  "august",
  "september",
  "october",
  "november",
  "december",
] as const;

const monthNamed = new Map<string, string>([
  ...months.map((month) => [month, month] as const),
  ...months.map((month) => [month.slice(0, 3), month] as const),
  ["sept", "september"],
]);

const unitNamed = new Map<string, string>([
  ["$", "dollar"],
  ["usd", "dollar"],
  ["dollar", "dollar"],
  ["dollars", "dollar"],
  ["€", "euro"],
  ["eur", "euro"],
  ["euro", "euro"],
  ["euros", "euro"],
  ["£", "pound"],
  ["gbp", "pound"],
  ["¥", "yen"],
  ["jpy", "yen"],
  ["yen", "yen"],
  ["%", "%"],
  ["percent", "%"],
  ["pct", "%"],
]);

const signUnits = new Set(unitNamed.values());
/**
 * Matches articles. An article stands apart, and a word follows it. A capital A after a word is a label, as in "Hall A is open", but
 * not among capitals, as in "WITHIN A YEAR".
 */
const article =
  /(?<![\p{L}\p{M}\p{N}/\u2010-][’']?)(?:a|[Aa][Nn]|[Tt][Hh][Ee]|(?<![\p{Ll}\p{Lo}\p{N}]\s)A)(?=\s+[^\p{L}\p{N}\s]*[\p{L}\p{N}])/gu;
/** Stands where an article stood, so that the words beside it are not taken for neighbours. */
const gap = "\0";

/** Whether a token is a currency or the percent sign, which may be left out beside a number without changing the answer. */
export const isSignUnit = (token: Token): boolean => signUnits.has(token);
export const isNumber = (token: Token): boolean => /^-?\d+(\.\d+)?$/.test(token);
export const isArticle = (token: Token): boolean => /^(?:an?|the)$/.test(token);
/** A unit of measurement without its plural s. "ms" is no plural. */
export const singular = (unit: Token): Token => (/^\p{L}+[^s\P{L}]s$/u.test(unit) ? unit.slice(0, -1) : unit);
export const isMonth = (token: Token): boolean => (months as readonly string[]).includes(token);

/** French and Italian words that lose their vowel before another word. Other apostrophes belong to a name, as in "O'Brien". */
const elided = "(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|un|all|dall|dell|nell|sull|quell|quest)";
/** What follows the apostrophe of an English contraction. */
const contracted = String.raw`(?:[dmst]|ll|re|ve)(?!\p{L})`;

const part = new RegExp(
  [
    /(?<iso>(?<![\d-])\d{4}-\d{2}-\d{2}(?![\d-]))/,
    /(?<dotted>(?<![\d.])\d{1,2}\.\d{1,2}\.\d{4}(?![\d]))/,
    /(?<sign>(?<=^|[\s(])-(?=[$€£¥]?\d))/,
    /(?<comma>(?<!\d,)(?:(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+),\d{1,2}|0,\d+)(?!,?\d|\.\d))/,
    /(?<number>\d{1,3}(?:,\d{3})+(?!,?\d)(?:\.\d+)?|\d+(?:\.\d+)*)(?:(?:st|nd|rd|th)(?![\p{L}\p{N}]))?/u,
    /(?<symbol>[$€£¥%])/,
    /(?<gap>\0)/,
    `(?<alone>${unspacedLetter})`,
    String.raw`(?<elided>${elided})'(?!${contracted})(?=\p{L})`,
    String.raw`(?<word>[\p{L}\p{M}](?:(?!${unspacedLetter})[\p{L}\p{M}\p{N}]|'(?=\p{L}))*)`,
  ]
    .map((piece) => (typeof piece === "string" ? piece : piece.source))
    .join("|"),
  "gu",
);

/** Tokens of the text. Articles are dropped unless `keepArticles` is true, as it is for an answer such as the letter A. */
export function tokensOf(text: string, keepArticles = false): Token[] {
  const plain = text
    // This comes before NFKC, which would turn the narrow spaces within numbers into plain ones.
    .replaceAll(/(?<=\d)[\u00a0\u2009\u202f'’](?=\d{3}(?!\d))/gu, "")
    .normalize("NFKC")
    .replaceAll(article, keepArticles ? "$&" : gap)
    .toLowerCase()
    .replaceAll(/[\u2010-\u2015\u2212]/gu, "-")
    .replaceAll(/[’‘ʼ`]/gu, "'")
    .replaceAll(/\bper cent\b/gu, "percent");
  const found = [...plain.matchAll(part)].flatMap((match) => read(match.groups!));
  return unitsAfterNumbers(datesInOrder(joinSigns(found))).filter((token) => token !== gap);
}

function read(groups: Record<string, string | undefined>): Token[] {
  if (groups.iso !== undefined) {
    const [year, month, day] = groups.iso.split("-").map(Number) as [number, number, number];
    return dateTokens(day, month, year) ?? [String(year), groups.iso.slice(5, 7), groups.iso.slice(8)];
  }
  if (groups.dotted !== undefined) {
    const [day, month, year] = groups.dotted.split(".").map(Number) as [number, number, number];
    return dateTokens(day, month, year) ?? [groups.dotted];
  }
  if (groups.sign !== undefined) return ["-"];
  if (groups.comma !== undefined) return [canonicalNumber(groups.comma.replaceAll(".", "").replace(",", "."))];
  if (groups.number !== undefined) return [canonicalNumber(groups.number.replaceAll(",", ""))];
  if (groups.word !== undefined) {
    const word = groups.word.replace(/'s$/, "").replaceAll("'", "");
    return word === "" ? [] : [word];
  }
  if (groups.elided !== undefined) return [groups.elided === "l" ? gap : groups.elided];
  return [groups.symbol ?? groups.alone ?? gap];
}

function dateTokens(day: number, month: number, year: number): Token[] | null {
  const name = months[month - 1];
  return name === undefined || day < 1 || day > 31 ? null : [String(day), name, String(year)];
}

/** Drops zeros at the end of a decimal. A number with two dots or more is a version or an address, and stays as it is. */
function canonicalNumber(digits: string): Token {
  if (digits.split(".").length !== 2) return digits;
  return digits.replace(/0+$/, "").replace(/\.$/, "");
}

/** Joins a minus before a number, or before its currency, to the number. */
function joinSigns(tokens: Token[]): Token[] {
  const joined: Token[] = [];
  let negative = false;
  for (const token of tokens) {
    if (token === "-") negative = true;
    else if (negative && isNumber(token)) {
      joined.push(`-${token}`);
      negative = false;
    } else joined.push(token);
  }
  return joined;
}

const isDay = (token: Token | undefined): token is Token =>
  token !== undefined && /^(0?[1-9]|[12]\d|3[01])$/.test(token);

/** Writes out month names beside numbers, and puts the day before the month. */
function datesInOrder(tokens: Token[]): Token[] {
  const ordered: Token[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const month = monthNamed.get(tokens[at]!);
    const next = tokens[at + 1];
    if (month === undefined) {
      ordered.push(tokens[at]!);
      continue;
    }
    const before = ordered.at(-1) === "of" ? ordered.at(-2) : ordered.at(-1);
    if (isDay(before)) {
      if (ordered.at(-1) === "of") ordered.pop();
      ordered.pop();
      ordered.push(String(Number(before)), month);
    } else if (isDay(next)) {
      ordered.push(String(Number(next)), month);
      at++;
    } else ordered.push(next !== undefined && /^\d{4}$/.test(next) ? month : tokens[at]!);
  }
  return ordered;
}

/** Puts currencies after their number, and gives each currency and the percent sign one name. */
function unitsAfterNumbers(tokens: Token[]): Token[] {
  const ordered: Token[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!;
    const next = tokens[at + 1];
    const unit = unitNamed.get(token);
    const afterNumber = at > 0 && isNumber(tokens[at - 1]!);
    if (unit !== undefined && unit !== "%" && !afterNumber && next !== undefined && isNumber(next)) {
      ordered.push(next, unit);
      at++;
    } else if (unit !== undefined) ordered.push(unit);
    else if (afterNumber && token === "pounds") ordered.push("pound");
    else ordered.push(token);
  }
  return ordered;
}
