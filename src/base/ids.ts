// Makes ids, which are opaque and random, and checks their form.
import { randomBytes } from "node:crypto";

export type IdKind =
  | "document"
  | "benchmark"
  | "capture"
  | "model"
  | "alignment"
  | "evaluation"
  | "deployment"
  | "job"
  | "auto_align"
  | "proposal"
  | "agent"
  | "key"
  | "user"
  | "webhook";

/** Crockford's base 32. An id ends with 24 of these characters (120 random bits), and needs no quotes on a command line. */
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

export function randomWord(length = 24): string {
  return Array.from(randomBytes(length), (byte) => alphabet[byte & 31]).join("");
}

export function newId(kind: IdKind): string {
  return `${kind}_${randomWord()}`;
}

export function isId(kind: IdKind, value: string): boolean {
  return value.startsWith(`${kind}_`) && /^[0-9a-hjkmnp-tv-z]{24}$/.test(value.slice(kind.length + 1));
}
