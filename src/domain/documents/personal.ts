// Finds personal data and secrets that have a fixed form, such as addresses, numbers with check digits, and keys. Names have no
// fixed form and are not found.
import { createHmac } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";
import type { PlainBlock } from "./chunk.ts";
import { CleanText, placeOf, type SourceMap, stretchesOf } from "./source-map.ts";

export type PersonalDataMode = "off" | "flag" | "mask";

export interface Found {
  kind: string;
  start: number;
  end: number;
}

interface Kind {
  kind: string;
  pattern: RegExp;
  /** Whether a match of the pattern really is of this kind. */
  isOne?: (text: string) => boolean;
}

const digitsOf = (text: string): string => text.replace(/\D/g, "");

/** In order of precedence: text that one kind has matched is not matched by later kinds. */
const kinds: Kind[] = [
  {
    kind: "private_key",
    pattern: /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{1,20000}?-----END [A-Z ]*PRIVATE KEY-----/g,
  },
  {
    kind: "secret",
    pattern:
      /\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,255}|xox[abprs]-[A-Za-z0-9-]{10,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})/g,
  },
  {
    kind: "secret",
    pattern:
      /(?<=\b(?:password|passwd|secret|api[_-]?key|access[_-]?token)["']?\s{0,3}[:=]\s{0,3}["']?)[^\s"'<>,;]{8,200}/gi,
    isOne: (text) => entropy(text) >= 3,
  },
  { kind: "email", pattern: /(?<![\w.+-])[\w.+-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,24}(?![\p{L}\p{N}])/gu },
  { kind: "iban", pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g, isOne: isIban },
  { kind: "payment_card", pattern: /(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d.-]?\d)/g, isOne: isCard },
  { kind: "us_ssn", pattern: /(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])/g },
  {
    kind: "phone",
    pattern: /(?<![\w+.]|\d )(?:\+|00)[1-9][\d ()./-]{6,20}\d(?!\d)/g,
    isOne: (text) => isLong(digitsOf(text), 8, 17),
  },
  { kind: "phone", pattern: /(?<![\w.-])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])/g },
  {
    kind: "phone",
    pattern: /(?<![\w.-]|\d )\(?0[1-9]\d{0,4}\)?[ /-]\d[\d /-]{3,12}\d(?![\d-])/g,
    isOne: (text) => isLong(digitsOf(text), 7, 13),
  },
  { kind: "ip_address", pattern: /(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)/g, isOne: isIPv4 },
  { kind: "ip_address", pattern: /(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{1,4}(?![\w:])/gi, isOne: isIPv6 },
];

const isLong = (digits: string, least: number, most: number): boolean =>
  digits.length >= least && digits.length <= most;

/**
 * Whether a text is an IBAN (ISO 13616). With the first four characters moved to the end and letters written as numbers, its remainder
 * modulo 97 is 1.
 */
function isIban(text: string): boolean {
  const plain = text.replaceAll(" ", "");
  if (plain.length < 15 || plain.length > 34) return false;
  let rest = 0;
  for (const letter of plain.slice(4) + plain.slice(0, 4))
    for (const digit of Number.parseInt(letter, 36).toString()) rest = (rest * 10 + Number(digit)) % 97;
  return rest === 1;
}

/** Whether a number can be that of a payment card: it starts with 2 to 6 and passes the Luhn check (ISO/IEC 7812-1, annex B). */
function isCard(text: string): boolean {
  const digits = digitsOf(text);
  if (/^(\d)\1+$/.test(digits) || !/^[2-6]/.test(digits)) return false;
  let sum = 0;
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i]);
    sum += i % 2 === 0 ? digit : digit * 2 > 9 ? digit * 2 - 9 : digit * 2;
  }
  return sum % 10 === 0;
}

/** Entropy in bits per character. */
function entropy(text: string): number {
  const counts = new Map<string, number>();
  for (const letter of text) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  return [...counts.values()].reduce((sum, n) => sum - (n / text.length) * Math.log2(n / text.length), 0);
}

/** Finds personal data and secrets, in the order of the text and without overlaps. */
export function findPersonalData(text: string): Found[] {
  const found: Found[] = [];
  const taken = new Uint8Array(text.length);
  for (const { kind, pattern, isOne } of kinds)
    for (const { 0: match, index } of text.matchAll(pattern)) {
      const end = index + match.length;
      if (isOne && !isOne(match)) continue;
      if (taken.subarray(index, end).includes(1)) continue;
      taken.fill(1, index, end);
      found.push({ kind, start: index, end });
    }
  return found.sort((a, b) => a.start - b.start);
}

export function countKinds(found: readonly Found[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of found) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** The stand-in for a value, the same in every document. Without the key, nobody can find the value by trying candidates. */
const standIn = (kind: string, value: string, key: string): string => {
  const same = kind === "email" ? value.toLowerCase() : value.replace(/[\s()./-]/g, "");
  return `[${kind} ${createHmac("sha256", key).update(`${kind}\n${same}`).digest("hex").slice(0, 8)}]`;
};

/** Replaces what was found with stand-ins, and adjusts the blocks and the map. */
export function mask(
  clean: { text: string; blocks: PlainBlock[]; map: SourceMap },
  found: readonly Found[],
  key: string,
): { text: string; blocks: PlainBlock[]; map: SourceMap } {
  const out = new CleanText();
  /** For each stand-in: its place in the old text (start, end) and in the new one (from, to). */
  const moved: { start: number; end: number; from: number; to: number }[] = [];
  let at = 0;
  for (const { kind, start, end } of found) {
    copy(out, clean, at, start);
    const place = placeOf(clean.map, start, end, true);
    const from = out.length;
    out.add(
      standIn(kind, clean.text.slice(start, end), key),
      place.page! - 1,
      place.start,
      Math.max(0, place.end - place.start),
    );
    moved.push({ start, end, from, to: out.length });
    at = end;
  }
  copy(out, clean, at, clean.text.length);
  const shifted = (offset: number, isEnd: boolean): number => {
    const last = moved[before(moved, offset)];
    if (!last) return offset;
    return offset < last.end ? (isEnd ? last.to : last.from) : last.to + offset - last.end;
  };
  return {
    text: out.toString(),
    map: out.map,
    blocks: clean.blocks.map((block) => ({
      ...block,
      start: shifted(block.start, false),
      end: shifted(block.end, true),
    })),
  };
}

/** Index of the last entry that starts before `offset`; -1 if there is none. */
function before(moved: readonly { start: number }[], offset: number): number {
  let low = 0;
  let high = moved.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moved[middle]!.start < offset) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function copy(out: CleanText, { text, map }: { text: string; map: SourceMap }, from: number, to: number): void {
  let at = from;
  for (const { clean, length, page, start, span } of stretchesOf(map, from, to)) {
    const [begin, end] = [Math.max(from, clean), Math.min(to, clean + length)];
    if (begin > at) out.mark(text.slice(at, begin));
    if (span === length) out.add(text.slice(begin, end), page, start + begin - clean);
    else out.add(text.slice(begin, end), page, start, span);
    at = end;
  }
  if (at < to) out.mark(text.slice(at, to));
}
