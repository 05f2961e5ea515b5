// Grades short answers. An answer is right if the gold or one of its aliases occurs, as whole tokens, in the answer's first 20
// tokens, and no competing value (another item's gold of the same kind) does. An answer that lists every possible value is
// therefore wrong. Negation, arithmetic and long answers are not judged. A gold without tokens, such as "?", is never matched.
import { type FoundNumber, isWithin, numbersBeside, numbersIn, shownBy } from "../../base/numbers.ts";
import { remembered } from "../../base/remembered.ts";
import { declines } from "./declines.ts";
import { isArticle, isMonth, isNumber, isSignUnit, singular, type Token, tokensOf } from "./tokens.ts";

/** Number of tokens at the start of an answer that count. A longer gold widens this window to its own length. */
const answerWindow = 20;

export interface GradedItem {
  response: string;
  aliases: readonly string[];
  competitors: readonly string[];
  /** Absolute tolerance for a gold with one number. The answer matches if its first number is within the tolerance. */
  tolerance?: number | null;
  /** The question has no answer, so declining is right, in whatever words. */
  declines?: boolean;
}

export interface Grade {
  correct: boolean;
  reason: "match" | "within_tolerance" | "declined" | "no_match" | "competing_value";
}

export function grade(answer: string, item: GradedItem): Grade {
  if (item.declines && declines(answer)) return { correct: true, reason: "declined" };
  const { golds, competitors, near, keepArticles } = prepare(item);
  const size = Math.max(answerWindow, ...golds.map((gold) => gold.length));
  const window = tokensOf(answer, keepArticles).slice(0, size);
  const reason = golds.some((gold) => states(window, gold))
    ? "match"
    : near !== null && window.some(isNumber) && near(beginningOf(answer, size))
      ? "within_tolerance"
      : null;
  if (reason === null) return { correct: false, reason: "no_match" };
  const named = new Set(window);
  const competes = competitors.some((rival) => named.has(rival[0]!) && states(window, rival));
  return competes ? { correct: false, reason: "competing_value" } : { correct: true, reason };
}

/** Whether an answer is right if only `rivals` compete with the gold. */
export const isRight = (
  answer: string,
  { response, aliases, rivals }: { response: string; aliases: string[]; rivals: string[] },
): boolean => grade(answer, { response, aliases, competitors: rivals }).correct;

interface Prepared {
  golds: Token[][];
  /**
   * Competitors that contain a gold or are contained in one are left out, as the same answer in longer or shorter words. So are those
   * within the tolerance.
   */
  competitors: Token[][];
  /** Whether a text's first number is within the tolerance; null if there is no tolerance or the gold is not one number. */
  near: ((text: string) => boolean) | null;
  keepArticles: boolean;
}

/** Cached, because the same item is graded many times. */
const prepare = remembered((item: GradedItem): Prepared => {
  const texts = [item.response, ...item.aliases];
  const keepArticles = texts.some((text) => tokensOf(text).every(isArticle));
  const read = (text: string): Token[] => tokensOf(text, keepArticles);
  const golds = texts.map(read).filter((tokens) => tokens.length > 0);
  const near = nearness(item);
  const competitors = item.competitors
    .filter((rival) => !near?.(rival))
    .map(read)
    .filter((rival) => rival.length > 0 && !golds.some((gold) => holds(gold, rival) || holds(rival, gold)));
  return { golds, competitors, near, keepArticles };
});

/** The words that an answer begins with, as many as have no more than `size` tokens. */
function beginningOf(answer: string, size: number): string {
  const ends = [...answer.matchAll(/\s+|$/g)].map(({ index }) => index);
  let [fits, over] = [0, ends.length];
  while (over - fits > 1) {
    const middle = (fits + over) >> 1;
    if (tokensOf(answer.slice(0, ends[middle]!)).length <= size) fits = middle;
    else over = middle;
  }
  return answer.slice(0, ends[fits]!);
}

function startsOf(tokens: readonly Token[], wanted: readonly Token[]): number[] {
  const starts: number[] = [];
  for (let start = 0; start + wanted.length <= tokens.length; start++)
    if (wanted.every((_, offset) => isSame(tokens[start + offset]!, wanted, offset))) starts.push(start);
  return starts;
}

/** A unit after a number may be singular or plural: "a 14-day period" states "14 days". */
const isSame = (token: Token, wanted: readonly Token[], offset: number): boolean =>
  token === wanted[offset] ||
  (offset > 0 && isNumber(wanted[offset - 1]!) && singular(token) === singular(wanted[offset]!));

const holds = (tokens: readonly Token[], wanted: readonly Token[]): boolean => startsOf(tokens, wanted).length > 0;

/** Whether the window contains the wanted tokens. An amount may lack its unit sign, but must not have a different one. */
function states(window: readonly Token[], wanted: readonly Token[]): boolean {
  if (holds(window, wanted)) return true;
  if (wanted.length !== 2 || !isNumber(wanted[0]!) || !isSignUnit(wanted[1]!)) return false;
  return startsOf(window, [wanted[0]!]).some((start) => !isSignUnit(window[start + 1] ?? ""));
}

/** Numbers within names, such as the 2 of CO2, have no value to compare. */
const valuesOf = (numbers: FoundNumber[]): FoundNumber[] => numbers.filter(({ isGlued }) => !isGlued);

function nearness({ response, tolerance }: GradedItem): Prepared["near"] {
  const numbers = valuesOf(numbersIn(response));
  if (tolerance === undefined || tolerance === null || numbers.length !== 1 || kindOf(response) === "date") return null;
  // The notation of a gold such as 1.200 is open: it may be written in a country that groups thousands so. Either number counts.
  const targets = numbers[0]!.readings;
  return (text) => {
    const said = valuesOf(numbersBeside(text, shownBy(numbers)))[0]?.readings ?? [];
    return said.some(({ value }) => targets.some((target) => isWithin(tolerance, value, target.value)));
  };
}

/** The kind of a gold by its form: a date, a number with its unit, or text. */
export function kindOf(gold: string): string {
  const tokens = tokensOf(gold);
  if (tokens.length > 0 && tokens.some(isMonth) && tokens.every((token) => isMonth(token) || isNumber(token)))
    return "date";
  if (tokens.length > 0 && tokens.length <= 4 && isNumber(tokens[0]!) && !tokens.slice(1).some(isNumber))
    return ["number", ...tokens.slice(1).map(singular)].join(" ");
  return "text";
}

/**
 * Maximum number of rivals of one item. If there are more, the next ones after the item are taken, because lists of all rivals would
 * grow with the square of the benchmark.
 */
const mostCompetitors = 1000;

export interface Question {
  instruction: string;
  response: string;
  aliases: readonly string[];
}

/**
 * Returns a function that lists, for the item at `index`, the golds of other items of the same kind, each once. The list leaves out
 * the item's own gold and aliases, and values that its question names, since any answer may repeat those.
 */
export function competition(items: readonly Question[]): (index: number) => string[] {
  const byKind = new Map<string, Map<string, { text: string; tokens: Token[] }>>();
  const placed = items.map(({ response }) => {
    const tokens = tokensOf(response);
    const kind = kindOf(response);
    const same = byKind.get(kind) ?? new Map<string, { text: string; tokens: Token[] }>();
    byKind.set(kind, same);
    const key = tokens.join(" ");
    if (tokens.length > 0 && !same.has(key)) same.set(key, { text: response, tokens });
    return { kind, position: same.size };
  });
  const rivals = new Map([...byKind].map(([kind, same]) => [kind, [...same]]));
  return (index) => {
    const { instruction, response, aliases } = items[index]!;
    const { kind, position } = placed[index]!;
    const own = new Set([response, ...aliases].map((text) => tokensOf(text).join(" ")));
    const question = tokensOf(instruction);
    const asked = new Set(question);
    const all = rivals.get(kind)!;
    const near = all.length <= mostCompetitors ? all : [...all.slice(position), ...all.slice(0, position)];
    return near
      .slice(0, mostCompetitors)
      .filter(([key, { tokens }]) => !own.has(key) && !(asked.has(tokens[0]!) && holds(question, tokens)))
      .map(([, { text }]) => text);
  };
}

export const competitorsOf = (items: readonly Question[]): string[][] =>
  items.map((_, index) => index).map(competition(items));
