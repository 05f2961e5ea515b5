// Long texts as tokens, in parts: the same tokens as of the whole, and others served meanwhile.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { installation, readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { formatChat, formatLongChat } from "../../src/engine/format/chat-format.ts";
import { encodeInParts } from "../../src/engine/format/in-parts.ts";
import type { Tokenizer } from "../../src/engine/generator.ts";
import { openTokenizer } from "../../src/engine/serve/generator.ts";

/** Of GPT-2's kind, and of SentencePiece's, which puts a space before every text. */
const files = {
  bpe: readConfig({}).starterModel,
  sentencepiece: join(installation, "build/fixtures/tiny-q4_1.gguf"),
};

const words = [
  "the",
  "Inn",
  "of",
  "Straße",
  "an",
  "l'homme",
  "don't",
  "well-known",
  "x1",
  "12",
  "3.5",
  "你好世界",
  "naïve",
];
const marks = [
  " ",
  " ",
  " ",
  ", ",
  ". ",
  "\n",
  "\n\n",
  "  ",
  " (",
  ") ",
  "。",
  "，",
  "-",
  "'",
  "\t",
  " <|im_start|> ",
  "</s>",
  "🙂",
];
const longText = fc
  .array(fc.tuple(fc.constantFrom(...words), fc.oneof(fc.constantFrom(...marks), fc.string({ maxLength: 3 }))), {
    minLength: 50,
    maxLength: 100,
  })
  .map((parts) => {
    const passage = parts.map(([word, mark]) => word + mark).join("");
    return passage.repeat(Math.ceil(40_000 / passage.length));
  });

for (const [name, path] of Object.entries(files))
  describe(name, () => {
    let tokenizer: Tokenizer;
    let dispose: () => Promise<void>;
    /** How much was read at once. */
    let lengths: number[] = [];
    before(async () => {
      const opened = await openTokenizer(path, createLog("error"));
      dispose = opened.dispose;
      const encode = (text: string, parseSpecial: boolean): number[] => {
        lengths.push(text.length);
        return opened.tokenizer.encode(text, parseSpecial);
      };
      tokenizer = { ...opened.tokenizer, encode };
    });
    after(() => dispose());

    test("the same tokens as of the whole", async () => {
      await fc.assert(
        fc.asyncProperty(longText, fc.boolean(), async (text, parseSpecial) => {
          assert.deepEqual(await encodeInParts(tokenizer, text, parseSpecial), tokenizer.encode(text, parseSpecial));
        }),
        { numRuns: 8 },
      );
    });

    test("no more is read at once than a part, and others are served in between", async () => {
      const text = "The quick brown fox jumps over the lazy dog. ".repeat(6000).slice(0, 262_144);
      await encodeInParts(tokenizer, text, false);
      lengths = [];
      let served = 0;
      const timer = setInterval(() => served++, 0);
      const ids = await encodeInParts(tokenizer, text, false);
      clearInterval(timer);
      assert.ok(Math.max(...lengths) < 10_000, `${Math.max(...lengths)} characters at once`);
      assert.ok(served >= 3, `${served} others`);
      assert.deepEqual(ids, tokenizer.encode(text, false));
    });

    test("one word of it all is read at once, and short texts too", async () => {
      for (const text of ["", "a", "the end", "a".repeat(20_000), "7".repeat(20_000)])
        assert.deepEqual(await encodeInParts(tokenizer, text, false), tokenizer.encode(text, false));
    });
  });

test("a long conversation has the tokens that it has at once, and so has one of many messages; others are served", async () => {
  const { tokenizer, dispose } = await openTokenizer(files.bpe, createLog("error"));
  const long = [
    { role: "user", content: "Where is the Inn of <|im_start|> the three lamps? ".repeat(1000) },
    { role: "assistant", content: "In the well-known town.\n".repeat(1500) },
    { role: "user", content: "Thanks." },
  ];
  const many = Array.from({ length: 2000 }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: "The lamp of the Inn is red. ".repeat(4),
  }));
  for (const messages of [long, many]) {
    let served = 0;
    const timer = setInterval(() => served++, 0);
    const tokens = await formatLongChat(tokenizer, messages);
    clearInterval(timer);
    assert.deepEqual(tokens, formatChat(tokenizer, messages));
    assert.ok(served >= 3, `${served} others`);
  }
  await dispose();
});
