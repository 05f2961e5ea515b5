// Vectors and ranks, held against what transformers computes from the same weights.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import type { Lease, ModelRef } from "../../src/engine/generator.ts";
import { readGgufHeader } from "../../src/engine/gguf/header.ts";
import { poolingOf } from "../../src/engine/gguf/pooling.ts";
import { type EmbeddingLane, embedTexts } from "../../src/engine/serve/embedding.ts";
import { ThreadChoice } from "../../src/engine/serve/thread-choice.ts";
import { Turns } from "../../src/engine/serve/turns.ts";
import { writeAdapter } from "../helpers/adapter.ts";
import { encoderFolder, withoutEncoder, writeEncoder } from "../helpers/encoder.ts";
import { withoutModel } from "../helpers/served.ts";
import { base, createEngine, type Engine, requestOf } from "./engine-fixture.ts";

interface Known {
  text: string;
  ids: number[];
  /** Little-endian float32 in base64. */
  vector: string;
}
const fixtures = join(installation, "test/fixtures");
const known = JSON.parse(readFileSync(join(fixtures, "embeddings.json"), "utf8")) as {
  encoder: Known[];
  text: Known[];
  crossEncoder: { query: string; documents: string[]; logits: number[] };
};
const tinyFolder = join(fixtures, "tiny-cross-encoder");
const folder = mkdtempSync(join(tmpdir(), "plumbline-embedding-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const vectorOf = ({ vector }: Known): Float32Array => {
  const bytes = Buffer.from(vector, "base64");
  return new Float32Array(Uint8Array.from(bytes).buffer);
};
const cosine = (a: Float32Array, b: Float32Array): number =>
  a.reduce((sum, value, index) => sum + value * b[index]!, 0);
const options = (truncate = false) => ({ truncate, signal: new AbortController().signal });

async function converted(source: string, name: string): Promise<ModelRef> {
  const basePath = join(folder, `${name}.gguf`);
  await writeEncoder(basePath, source);
  return { baseId: name, basePath };
}

describe("many texts at once", () => {
  /** A model that takes 40 ms to read a text as tokens, and none to make a vector of them. */
  const lane = {
    model: {
      ends: [],
      tokenizer: {
        addBos: false,
        bos: null,
        vocabulary: 10,
        encode: () => {
          const end = performance.now() + 40;
          while (performance.now() < end);
          return [5];
        },
      },
    },
    pooling: { by: "mean", kind: "text", isEncoder: false },
    turns: new Turns(),
    threadChoice: new ThreadChoice(),
    threads: () => 1,
    context: 64,
    within: (_tokens: number, _batch: number, work: (context: object) => Promise<unknown>) =>
      work({ setAdapter: () => {}, setThreads: () => {}, read: async () => Float64Array.of(1) }),
    isWanted: () => false,
  } as unknown as EmbeddingLane;

  test("leave others their turn between one and the next, and end when nobody waits for them", async () => {
    let served = 0;
    const others = setInterval(() => served++, 1);
    await embedTexts(lane, null, ["a", "b", "c", "d", "e"], options());
    clearInterval(others);
    assert.ok(served >= 3, `${served} times`);
    await assert.rejects(embedTexts(lane, null, ["a", "b"], { truncate: false, signal: AbortSignal.abort() }));
  });

  test("of token ids the number is looked at before the ids", async () => {
    const fails = (code: string) => (error: unknown) => error instanceof Failure && error.code === code;
    const wrong = new Array(65).fill(10);
    await assert.rejects(embedTexts(lane, null, [wrong], options()), fails("prompt_too_long"));
    await assert.rejects(embedTexts(lane, null, [wrong.slice(1)], options()), fails("validation"));
  });
});

describe("a sentence encoder", { skip: withoutEncoder }, () => {
  let it: Engine;
  let model: ModelRef;
  let lease: Lease;
  before(async () => {
    model = await converted(encoderFolder, "all-minilm-l6-v2");
    it = createEngine();
    lease = await it.generator.pool.lease(model, "work");
  });
  after(() => it.generator.dispose());

  test("gives the vectors that transformers gives, from its folder turned into GGUF", async () => {
    assert.equal(it.generator.kind(model.baseId), "embedding");
    const results = await it.generator.embed(
      model,
      known.encoder.map((one) => one.text),
      options(),
    );
    for (const [index, one] of known.encoder.entries()) {
      const { vector, tokens } = results[index]!;
      assert.equal(tokens, one.ids.length);
      assert(Math.abs(Math.hypot(...vector) - 1) < 1e-6);
      assert(cosine(vector, vectorOf(one)) > 0.9999, `${cosine(vector, vectorOf(one))} for ${one.text}`);
    }
  });

  test("gives a text the vector that it gives it alone, whatever texts came with it", async () => {
    const texts = ["A short text.", "valve ".repeat(63), "Another short one.", "pump ".repeat(200)];
    const together = await it.generator.embed(model, texts, options());
    for (const [index, text] of texts.entries()) {
      const [alone] = await it.generator.embed(model, [text], options());
      assert.deepEqual(together[index], alone);
    }
  });

  test("reads WordPiece as transformers does, and its ids as they are", async () => {
    const { tokenizer } = { tokenizer: it.generator.tokenizer(model.baseId) };
    for (const { text, ids } of known.encoder) assert.deepEqual(tokenizer.encode(text, false), ids.slice(1, -1), text);
    const [byText, byIds] = await it.generator.embed(model, [known.encoder[0]!.text, known.encoder[0]!.ids], options());
    assert.deepEqual(byIds!.vector, byText!.vector);
  });

  test("refuses a text too long, and cuts it when told to", async () => {
    const long = "valve ".repeat(600);
    const isTooLong = (error: Failure): boolean => error.code === "prompt_too_long" && /input\[1\]/.test(error.message);
    await assert.rejects(it.generator.embed(model, ["short", long], options()), isTooLong);
    const [cut] = await it.generator.embed(model, [long], options(true));
    assert.deepEqual([cut!.tokens, cut!.truncated], [512, 90]);
  });

  test("answers nothing", async () => {
    const asked = it.generator.generate(requestOf([5, 6], { model })).next();
    await assert.rejects(asked, (error: Failure) => error.code === "wrong_kind");
    const ranked = it.generator.rank(model, "a", ["b"], options());
    await assert.rejects(ranked, (error: Failure) => error.code === "wrong_kind");
  });

  test("gives its memory back", async () => {
    await lease.release();
    assert.deepEqual(it.gpu.snapshot().grants, []);
    await it.generator.pool.lease(model, "work");
  });
});

describe("a text model's vectors", { skip: withoutModel }, () => {
  let it: Engine;
  before(async () => {
    it = createEngine();
    await it.generator.pool.lease(base, "work");
  });
  after(() => it.generator.dispose());

  test("are the mean of its last states, however many pieces a text was read in", async () => {
    assert.equal(it.generator.kind(base.baseId), "text");
    assert(known.text.at(-1)!.ids.length > 256);
    const results = await it.generator.embed(
      base,
      known.text.map((one) => one.ids),
      options(),
    );
    // Its weights are of 4 bits, and llama.cpp rounds what goes into them to 8: near, not equal.
    for (const [index, one] of known.text.entries()) {
      const near = cosine(results[index]!.vector, vectorOf(one));
      assert(near > 0.99, `${near} for ${one.text.slice(0, 40)}`);
    }
  });

  test("change with its adapter, and not with one that adds nothing", async () => {
    const text = "Warranty claims must be filed within 30 days.";
    const vectors: Float32Array[] = [];
    for (const strength of [0, 0.05]) {
      const path = join(folder, `adapter-${strength}.gguf`);
      writeAdapter(path, strength);
      const model = { ...base, adapter: { id: `adapter-${strength}`, path } };
      await using _ = await it.generator.pool.lease(model, "work");
      vectors.push((await it.generator.embed(model, [text], options()))[0]!.vector);
    }
    const [plain] = await it.generator.embed(base, [text], options());
    assert(cosine(plain!.vector, vectors[0]!) > 0.99999);
    assert(cosine(plain!.vector, vectors[1]!) < 0.99999);
  });

  test("are read while it answers, and the answer is the same", async () => {
    const prompt = it.generator.tokenizer("base").encode("One two three four", false);
    const answer = async (): Promise<number[]> => {
      const tokens: number[] = [];
      for await (const { token } of it.generator.generate(requestOf(prompt))) tokens.push(token);
      return tokens;
    };
    const alone = await answer();
    const [beside] = await Promise.all([answer(), it.generator.embed(base, ["a", "b", "c"], options())]);
    assert.deepEqual(beside, alone);
  });

  test("of one text are made in between those of many, which stay the same", async () => {
    const texts = Array.from({ length: 16 }, (_, at) => `Valve ${at} closes. `.repeat(1 + (at % 3)));
    const alone = await it.generator.embed(base, texts, options());
    let hasEnded = false;
    const many = it.generator.embed(base, texts, options()).finally(() => {
      hasEnded = true;
    });
    await it.generator.embed(base, ["Which valve closes?"], options());
    assert.equal(hasEnded, false);
    assert.deepEqual(await many, alone);
  });

  test("stop being made when the client leaves", async () => {
    const client = new AbortController();
    const asked = it.generator.embed(base, new Array(200).fill("Some text"), {
      truncate: false,
      signal: client.signal,
    });
    setTimeout(() => client.abort(), 50);
    await assert.rejects(asked, { name: "AbortError" });
  });
});

describe("a cross-encoder", () => {
  let it: Engine;
  let model: ModelRef;
  before(async () => {
    model = await converted(tinyFolder, "tiny-cross-encoder");
    it = createEngine();
    await it.generator.pool.lease(model, "work");
  });
  after(() => it.generator.dispose());

  test("scores pairs as transformers scores them", async () => {
    assert.deepEqual(poolingOf(readGgufHeader(model.basePath)), { kind: "rerank", by: "rank", isEncoder: true });
    const { query, documents, logits } = known.crossEncoder;
    const ranked = await it.generator.rank(model, query, documents, options());
    for (const [index, { logit }] of ranked.entries())
      assert(Math.abs(logit - logits[index]!) < 0.02, `${logit} instead of ${logits[index]}`);
  });

  test("cuts the document, never the query", async () => {
    const { query } = known.crossEncoder;
    await assert.rejects(
      it.generator.rank(model, query, ["the dog ".repeat(60)], options()),
      (error: Failure) => error.code === "prompt_too_long" && /documents\[0\]/.test(error.message),
    );
    const [cut] = await it.generator.rank(model, query, ["the dog ".repeat(60)], options(true));
    assert.equal(cut!.tokens, 48);
    assert(cut!.truncated > 0);
    await assert.rejects(
      it.generator.rank(model, "the dog ".repeat(60), ["the cat"], options(true)),
      (error: Failure) => error.code === "prompt_too_long",
    );
  });
});

describe("weights of 16 bits", () => {
  const stored = readFileSync(join(tinyFolder, "model.safetensors"));
  const length = Number(stored.readBigUInt64LE());
  const header = JSON.parse(stored.toString("utf8", 8, 8 + length)) as Record<
    string,
    { dtype: string; data_offsets: [number, number] }
  >;
  /** Of a float32, as the format rounds it: toward zero for BF16, to nearest for F16. */
  const halves: Record<string, (value: number) => number> = {
    BF16: (value) => {
      const bytes = Buffer.alloc(4);
      bytes.writeFloatLE(value);
      return bytes.readUInt16LE(2);
    },
    F16: (value) => {
      const view = new DataView(new ArrayBuffer(2)) as DataView & { setFloat16(at: number, value: number): void };
      view.setFloat16(0, value);
      return view.getUint16(0);
    },
  };
  for (const [dtype, half] of Object.entries(halves))
    test(`${dtype} are read, and score as near as they can`, async () => {
      const parts: Buffer[] = [];
      const changed: typeof header = {};
      let at = 0;
      for (const [name, entry] of Object.entries(header)) {
        if (name === "__metadata__") continue;
        const [from, to] = entry.data_offsets;
        const bytes = stored.subarray(8 + length + from, 8 + length + to);
        const half16 = Buffer.alloc(bytes.length / 2);
        for (let index = 0; index < bytes.length / 4; index++)
          half16.writeUInt16LE(half(bytes.readFloatLE(4 * index)), 2 * index);
        parts.push(half16);
        changed[name] = { ...entry, dtype, data_offsets: [at, at + half16.length] };
        at += half16.length;
      }
      const text = Buffer.from(JSON.stringify(changed));
      const size = Buffer.alloc(8);
      size.writeBigUInt64LE(BigInt(text.length));
      const there = join(folder, `tiny-${dtype}`);
      await cp(tinyFolder, there, { recursive: true });
      writeFileSync(join(there, "model.safetensors"), Buffer.concat([size, text, ...parts]));
      const it = createEngine();
      const model = await converted(there, `tiny-${dtype}`);
      await it.generator.pool.lease(model, "work");
      const { query, documents, logits } = known.crossEncoder;
      const ranked = await it.generator.rank(model, query, documents, options());
      // BF16 keeps 8 bits of a number, F16 11.
      const near = dtype === "BF16" ? 0.15 : 0.03;
      for (const [index, { logit }] of ranked.entries())
        assert(Math.abs(logit - logits[index]!) < near, `${logit} instead of ${logits[index]}`);
      await it.generator.dispose();
    });
});

describe("a folder that cannot be imported says why", () => {
  const config = JSON.parse(readFileSync(join(tinyFolder, "config.json"), "utf8"));
  const cases: { name: string; change: (at: string) => void; words: RegExp }[] = [
    { name: "no config", change: (at) => rmSync(join(at, "config.json")), words: /config\.json is missing/ },
    {
      name: "no weights",
      change: (at) => rmSync(join(at, "model.safetensors")),
      words: /model\.safetensors is missing/,
    },
    { name: "no vocabulary", change: (at) => rmSync(join(at, "vocab.txt")), words: /vocab\.txt is missing/ },
    {
      name: "another architecture",
      change: (at) => writeFileSync(join(at, "config.json"), JSON.stringify({ ...config, model_type: "mpnet" })),
      words: /"mpnet"/,
    },
    {
      name: "several labels",
      change: (at) =>
        writeFileSync(join(at, "config.json"), JSON.stringify({ ...config, id2label: { 0: "no", 1: "yes" } })),
      words: /2 output labels/,
    },
    {
      name: "another size",
      change: (at) => writeFileSync(join(at, "config.json"), JSON.stringify({ ...config, intermediate_size: 65 })),
      words: /has the shape \[64,32\] instead of \[65,32\]/,
    },
    {
      name: "a vocabulary of another size",
      change: (at) => writeFileSync(join(at, "vocab.txt"), "[PAD]\n"),
      words: /1 tokens, but config\.json says 34/,
    },
    {
      name: "weights cut short",
      change: (at) => {
        const path = join(at, "model.safetensors");
        writeFileSync(path, readFileSync(path).subarray(0, 40_000));
      },
      words: /extends past the end/,
    },
    {
      name: "a header longer than the file",
      change: (at) => {
        const bytes = readFileSync(join(at, "model.safetensors"));
        bytes.writeBigUInt64LE(2n ** 40n);
        writeFileSync(join(at, "model.safetensors"), bytes);
      },
      words: /the limit is/,
    },
  ];
  for (const { name, change, words } of cases)
    test(name, async () => {
      const at = join(folder, name.replaceAll(" ", "-"));
      await cp(tinyFolder, at, { recursive: true });
      change(at);
      await assert.rejects(
        converted(at, `bad-${name}`),
        (error: unknown) => error instanceof Failure && error.code === "model_invalid" && words.test(error.message),
      );
    });
});
