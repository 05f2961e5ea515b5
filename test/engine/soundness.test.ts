// What a header must say before the library may see the file: each of these ended the process, or would have.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { installation, readConfig } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { readGgufHeader } from "../../src/engine/gguf/header.ts";
import { checkModel } from "../../src/engine/gguf/soundness.ts";
import { renamed, withLength, withNumber } from "../helpers/mutants.ts";

const fixtures = join(installation, "build/fixtures");
const folder = mkdtempSync(join(tmpdir(), "soundness-"));
after(() => rmSync(folder, { recursive: true }));

const check = (content: Buffer): void => {
  const path = join(folder, "model.gguf");
  writeFileSync(path, content);
  checkModel(readGgufHeader(path));
};

const tiny = readFileSync(join(fixtures, "tiny-f32.gguf"));
const gemma = readFileSync(join(fixtures, "tiny-gemma3-q4_1.gguf"));
const number = (name: string, value: number) => withNumber(tiny, `llama.${name}`, value);

const unsound: [what: string, content: Buffer, words: RegExp][] = [
  ["no layer", number("block_count", 0), /block_count is 0/],
  ["layers without tensors", number("block_count", 3), /layer 2/],
  ["tensors without layers", number("block_count", 1), /blk\.1\..*not declare/],
  ["more layers than the library's tables", number("block_count", 513), /block_count is 513/],
  ["2^32 − 1 layers", number("block_count", 2 ** 32 - 1), /block_count/],
  ["no width", number("embedding_length", 0), /embedding_length is 0/],
  ["another width than its tensors", number("embedding_length", 128), /token_embd\.weight has the shape \[64, 320\]/],
  ["no context", number("context_length", 0), /context_length is 0/],
  ["no heads", number("attention.head_count", 0), /gives its layers no heads/],
  ["heads that do not divide", number("attention.head_count", 5), /5 heads/],
  ["no heads of keys", number("attention.head_count_kv", 0), /gives its layers no heads/],
  ["heads of keys that do not divide", number("attention.head_count_kv", 3), /not a multiple of its 3/],
  ["more heads of keys", number("attention.head_count_kv", 8), /not a multiple of its 8/],
  ["other heads than its tensors", number("attention.head_count_kv", 1), /attn_k\.weight/],
  ["positions of an odd size", number("rope.dimension_count", 15), /odd/],
  ["positions larger than a head", number("rope.dimension_count", 18), /from 0 to 16/],
  ["another feed-forward size", number("feed_forward_length", 97), /ffn_gate\.weight/],
  ["an epsilon below 0", number("attention.layer_norm_rms_epsilon", -1), /epsilon is -1/],
  ["an epsilon that is no number", number("attention.layer_norm_rms_epsilon", Number.NaN), /epsilon" is NaN/],
  ["an endless base of positions", number("rope.freq_base", Number.POSITIVE_INFINITY), /freq_base" is Infinity/],
  ["a negative base of positions", number("rope.freq_base", -1e4), /freq_base is -10000/],
  ["keys without a length", withNumber(gemma, "gemma3.attention.key_length", 0), /key_length is 0/],
  ["no architecture", renamed(tiny, "general.architecture", "general.somethingelse"), /name an architecture/],
  ["no tokens", renamed(tiny, "tokenizer.ggml.tokens", "tokenizer.ggml.tokenz"), /no vocabulary/],
  ["no kind of tokenizer", renamed(tiny, "tokenizer.ggml.model", "tokenizer.ggml.modem"), /no vocabulary/],
  ["a layer's norm missing", renamed(tiny, "blk.1.attn_norm.weight", "blk.1.attn_morn.weight"), /blk\.1\.attn_norm/],
  ["embeddings missing", renamed(tiny, "token_embd.weight", "token_embt.weight"), /token_embd\.weight is missing/],
  ["a list cut short", withLength(tiny, "tokenizer.ggml.scores", 319), /Not a valid/],
];

for (const [what, content, words] of unsound)
  test(`${what}: refused, and says so`, () => {
    assert.throws(
      () => check(content),
      (error) => error instanceof Failure && error.code === "model_invalid" && words.test(error.message),
      what,
    );
  });

/** Fixtures that the library itself does not load, or ends the process at. */
const unservable: Record<string, RegExp> = {
  "refused-experts.gguf": /has 8 experts and uses 0/,
  "refused-value-length.gguf": /attn_v\.weight has the shape/,
};

test("every fixture that can be loaded passes, and the starter model", () => {
  for (const name of readdirSync(fixtures).filter((file) => file.endsWith(".gguf"))) {
    const examine = () => checkModel(readGgufHeader(join(fixtures, name)));
    if (unservable[name] === undefined) assert.doesNotThrow(examine, name);
    else assert.throws(examine, unservable[name]);
  }
  checkModel(readGgufHeader(readConfig({}).starterModel));
});
