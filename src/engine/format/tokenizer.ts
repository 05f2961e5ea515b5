// The tokenizer of a model. The bytes of each token are found here, because the library's own detokeniser adjusts spaces by
// context, so that its output for a stream of tokens differs from its output for the whole text.
import type { Tokenizer } from "../generator.ts";
import type { GgufHeader } from "../gguf/header.ts";

/** The native vocabulary; absent tokens are −1. */
export interface NativeVocabulary {
  tokenize(text: string, parseSpecial: boolean): Uint32Array;
  detokenize(tokens: Uint32Array, special?: boolean): string;
  getTokenString(token: number): string;
  getTokenAttributes(token: number): number;
  isEogToken(token: number): boolean;
  getVocabularyType(): number;
  shouldPrependBosToken(): boolean;
  tokenBos(): number;
  tokenEos(): number;
}

/** llama.cpp's token attributes. */
const attribute = { unknown: 1, unused: 2, normal: 4, control: 8, userDefined: 16, byte: 32 };
/** llama.cpp's kinds of vocabulary. */
const kind = { sentencePiece: 1, bpe: 2, unigram: 4 };

/** Inverse of GPT-2's mapping of bytes to printable characters: character → byte. */
const bytesOfCharacters: ReadonlyMap<string, number> = (() => {
  const map = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    map.set(String.fromCodePoint(printable ? byte : next++), byte);
  }
  return map;
})();

export function createTokenizer(native: NativeVocabulary, header: GgufHeader): Tokenizer {
  const list = header.values.get("tokenizer.ggml.tokens");
  const vocabulary = typeof list === "object" ? list.length : 0;
  const architecture = String(header.values.get("general.architecture") ?? "");
  const type = native.getVocabularyType();
  const specials = new Map<string, number>();
  const eog = new Set<number>();
  for (let token = 0; token < vocabulary; token++) {
    const attributes = native.getTokenAttributes(token);
    if (attributes & (attribute.control | attribute.userDefined | attribute.unknown))
      specials.set(native.getTokenString(token), token);
    if (native.isEogToken(token)) eog.add(token);
  }
  const cache = new Map<number, Uint8Array>();
  const bytesOf = (token: number): Uint8Array => {
    let bytes = cache.get(token);
    if (bytes === undefined) {
      bytes = tokenBytes(native, type, token);
      cache.set(token, bytes);
    }
    return bytes;
  };
  const template = header.values.get("tokenizer.chat_template");
  const trainContext = header.values.get(`${architecture}.context_length`);
  return {
    encode: (text, parseSpecial) => (text === "" ? [] : [...native.tokenize(text, parseSpecial)]),
    decode: (tokens) => Buffer.concat(tokens.map(bytesOf)).toString("utf8"),
    bytesOf,
    pieceOf: (token) => {
      const bytes = bytesOf(token);
      return bytes.length > 0 ? Buffer.from(bytes).toString("utf8") : native.getTokenString(token);
    },
    bos: present(native.tokenBos()),
    eos: present(native.tokenEos()),
    eog,
    specials,
    addBos: native.shouldPrependBosToken(),
    vocabulary,
    trainContext: typeof trainContext === "number" ? trainContext : 0,
    chatTemplate: typeof template === "string" ? template : null,
  };
}

/** A token of the native vocabulary; null if it is absent. */
export const present = (token: number): number | null => (token < 0 ? null : token);

/** The bytes that a token adds to a text. Control, unknown and unused tokens add none. */
function tokenBytes(native: NativeVocabulary, type: number, token: number): Uint8Array {
  const attributes = native.getTokenAttributes(token);
  if (attributes & (attribute.control | attribute.unknown | attribute.unused)) return new Uint8Array();
  const text = native.getTokenString(token);
  if (attributes & attribute.userDefined) return Buffer.from(text);
  if (attributes & attribute.byte && /^<0x[0-9A-F]{2}>$/.test(text)) return Uint8Array.of(Number(text.slice(1, -1)));
  if (type === kind.bpe) {
    const bytes = Array.from(text, (character) => bytesOfCharacters.get(character));
    if (bytes.every((byte) => byte !== undefined)) return Uint8Array.from(bytes);
    return Buffer.from(text);
  }
  if (type === kind.sentencePiece || type === kind.unigram) return Buffer.from(text.replaceAll("▁", " "));
  return Buffer.from(native.detokenize(Uint32Array.of(token), false));
}
