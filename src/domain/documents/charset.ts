// Decodes bytes of any charset. The first of these that applies determines the charset: a byte order mark, valid UTF-8, zeros that
// show UTF-16, the charset that the file declares, or a guess of the library chardet, which knows how often letters follow each
// other in the languages for which the old charsets were made.
import { analyse } from "chardet";
import { Failure } from "../../base/errors.ts";

/**
 * Decodes a file's bytes. `declared` is a charset that the file itself names; it is used only if the bytes are valid in it. Throws
 * document_type, document_invalid.
 */
export function decode(bytes: Uint8Array, name: string, declared: string | null = null): string {
  const marked = byteOrderMark(bytes);
  if (marked !== null) return decodeAs(marked, bytes) ?? refuse(name, marked);
  const utf8 = bytes.includes(0) ? null : decodeAs("utf-8", bytes);
  if (utf8 !== null) return utf8;
  const wide = wideZeros(bytes);
  if (wide !== null) return readable(decodeAs(wide, bytes)) ?? refuse(name, wide);
  if (bytes.includes(0)) throw new Failure("document_type", `${name} is not text`);
  refuseDamagedUtf8(bytes, name);
  const guesses = [declared, ...analyse(bytes.subarray(0, sampleBytes)).map((guess) => guess.name)];
  for (const charset of guesses) {
    const text = charset === null ? null : readable(decodeAs(charset, bytes));
    if (text !== null) return text;
  }
  return refuse(name, "any charset");
}

/**
 * Throws document_invalid for UTF-8 with a few invalid bytes. Such a text would otherwise be decoded in an old charset, with every
 * letter beyond ASCII wrong.
 */
function refuseDamagedUtf8(bytes: Uint8Array, name: string): void {
  const lossy = new TextDecoder("utf-8").decode(bytes);
  let [wrong, right] = [0, 0];
  for (const { 0: letter } of lossy.matchAll(/[\u0080-\u{10ffff}]/gu))
    if (letter === "\ufffd") wrong++;
    else right++;
  if (right >= 10 * wrong)
    throw new Failure("document_invalid", `${name} is damaged: it is UTF-8 except for ${wrong} characters`);
}

/** Decodes UTF-8 without guessing, for files that programs read as well. Throws document_invalid. */
export function decodeUtf8(bytes: Uint8Array, name: string): string {
  const text = bytes.includes(0) ? null : decodeAs("utf-8", bytes);
  if (text === null) throw new Failure("document_invalid", `${name} is not UTF-8 text`);
  return text;
}

const sampleBytes = 1 << 20;

function refuse(name: string, charset: string): never {
  throw new Failure("document_type", `${name} is not ${charset} text`);
}

function byteOrderMark(bytes: Uint8Array): string | null {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return null;
}

/** Detects UTF-16 without a byte order mark, in which nearly all zeros are on one side of the byte pairs. Null if it is not UTF-16. */
function wideZeros(bytes: Uint8Array): string | null {
  const zeros = [0, 0];
  const seen = Math.min(bytes.length & ~1, 4096);
  for (let i = 0; i < seen; i++) if (bytes[i] === 0) zeros[i & 1]!++;
  const most = Math.max(...zeros);
  if (most < seen / 8 || Math.min(...zeros) > most / 20) return null;
  return zeros[1] === most ? "utf-16le" : "utf-16be";
}

/** Null if a byte is invalid or the charset is unknown. */
function decodeAs(charset: string, bytes: Uint8Array): string | null {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/**
 * Null if more than 1 % of the characters do not occur in text, as in a binary file that happens to be valid in a charset.
 */
function readable(text: string | null): string | null {
  if (text === null) return null;
  const sample = text.slice(0, sampleBytes);
  let strange = 0;
  for (const _ of sample.matchAll(/[\p{Cn}\p{Co}\ufffd]|(?![\t\n\f\r\u0085])\p{Cc}/gu)) strange++;
  return strange * 100 > sample.length ? null : text;
}
