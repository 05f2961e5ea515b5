import type { Tokenizer } from "../../src/engine/generator.ts";

/** A token is a UTF-16 unit, and 2 ends a turn. */
export const letters = (own: Partial<Tokenizer> = {}): Tokenizer => ({
  encode: (text) => [...text].map((character) => character.charCodeAt(0)),
  decode: (tokens) => String.fromCharCode(...tokens),
  bos: null,
  eos: 2,
  eog: new Set([2]),
  addBos: false,
  vocabulary: 65_536,
  trainContext: 4096,
  chatTemplate:
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
  specials: new Map<string, number>(),
  bytesOf: (token) => new Uint8Array(Buffer.from(String.fromCharCode(token))),
  pieceOf: (token) => String.fromCharCode(token),
  ...own,
});
