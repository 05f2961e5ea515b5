// Embeddings, ranks and token routes through a whole house.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import type { Contract } from "../../src/contract/index.ts";
import { encoderFolder, withoutEncoder } from "../helpers/encoder.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

const tinyFolder = join(installation, "test/fixtures/tiny-cross-encoder");
const known = JSON.parse(readFileSync(join(installation, "test/fixtures/embeddings.json"), "utf8"));
const vectorOf = (base64: string): Float32Array =>
  new Float32Array(Uint8Array.from(Buffer.from(base64, "base64")).buffer);
const cosine = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((sum, value, index) => sum + value * b[index]!, 0);

describe("vectors and ranks", { skip: withoutModel }, () => {
  let it: Served;
  let aligned = "";
  let ranker = "";
  before(async () => {
    it = await servedHouse();
    aligned = it.align().modelId;
    await deployed(it, aligned);
    ranker = ((await it.house.admin("model.import", { path: tinyFolder })) as { model_id: string }).model_id;
  });
  after(() => it.close());
  const embed = "inference.embeddings";
  const rerank = "inference.rerank";
  const usageRows = () =>
    it.store
      .prepare<[], { prompt_tokens: number; outcome: string }>(
        "SELECT prompt_tokens, outcome FROM usage ORDER BY created_at, request_id",
      )
      .all();

  interface Case {
    name: string;
    endpoint: keyof Contract;
    body: object;
    status: number;
    loc?: (string | number)[];
    code?: string;
    key?: "other" | "none";
    headers?: Record<string, string>;
    model?: () => string;
  }
  const cases: Case[] = [
    { name: "without a key", endpoint: embed, body: { input: "a" }, status: 422, key: "none" },
    { name: "ranks without a key", endpoint: rerank, body: { query: "a", documents: ["b"] }, status: 422, key: "none" },
    {
      name: "another user's model",
      endpoint: embed,
      body: { input: "a" },
      status: 404,
      key: "other",
      model: () => aligned,
    },
    { name: "an unknown model", endpoint: embed, body: { model: "model_none", input: "a" }, status: 404 },
    { name: "no input", endpoint: embed, body: {}, status: 422, loc: ["body", "input"] },
    { name: "an empty text", endpoint: embed, body: { input: "" }, status: 422, loc: ["body", "input"] },
    { name: "an empty list", endpoint: embed, body: { input: [] }, status: 422, loc: ["body", "input"] },
    { name: "texts and ids", endpoint: embed, body: { input: ["a", 1] }, status: 422 },
    {
      name: "an id past the last",
      endpoint: embed,
      body: { input: [[1], [2, 49_152]] },
      status: 422,
      loc: ["body", "input", 1, 1],
    },
    { name: "ids", endpoint: embed, body: { input: [504, 3575] }, status: 200 },
    { name: "lists of ids", endpoint: embed, body: { input: [[504, 3575], [1]] }, status: 200 },
    {
      name: "another format",
      endpoint: embed,
      body: { input: "a", encoding_format: "int8" },
      status: 422,
      loc: ["body", "encoding_format"],
    },
    { name: "576 dimensions", endpoint: embed, body: { input: "a", dimensions: 576 }, status: 200 },
    {
      name: "577 dimensions",
      endpoint: embed,
      body: { input: "a", dimensions: 577 },
      status: 422,
      loc: ["body", "dimensions"],
    },
    {
      name: "0 dimensions",
      endpoint: embed,
      body: { input: "a", dimensions: 0 },
      status: 422,
      loc: ["body", "dimensions"],
    },
    {
      name: "a text too long",
      endpoint: embed,
      body: { input: "word ".repeat(400) },
      status: 422,
      code: "prompt_too_long",
    },
    {
      name: "a text too long to be read",
      endpoint: embed,
      body: { input: "w".repeat(400_000) },
      status: 422,
      code: "prompt_too_long",
    },
    {
      name: "a text too long, cut",
      endpoint: embed,
      body: { input: "word ".repeat(400), truncate: true },
      status: 200,
    },
    {
      name: "a ranker's vector",
      endpoint: embed,
      body: { input: "a" },
      status: 422,
      code: "wrong_kind",
      model: () => ranker,
    },
    {
      name: "a ranker's chat",
      endpoint: "inference.chat",
      body: { messages: [{ role: "user", content: "a" }] },
      status: 422,
      code: "wrong_kind",
      model: () => ranker,
    },
    {
      name: "X-Provider",
      endpoint: embed,
      body: { input: "a" },
      status: 422,
      headers: { "x-provider": "http://169.254.169.254" },
      loc: ["header", "X-Provider"],
    },
    { name: "no documents", endpoint: rerank, body: { query: "a" }, status: 422, loc: ["body", "documents"] },
    {
      name: "empty documents",
      endpoint: rerank,
      body: { query: "a", documents: [] },
      status: 422,
      loc: ["body", "documents"],
    },
    {
      name: "documents and texts",
      endpoint: rerank,
      body: { query: "a", documents: ["b"], texts: ["c"] },
      status: 422,
      loc: ["body", "documents"],
    },
    {
      name: "an empty query",
      endpoint: rerank,
      body: { query: "", documents: ["b"] },
      status: 422,
      loc: ["body", "query"],
    },
    {
      name: "top_n 0",
      endpoint: rerank,
      body: { query: "a", documents: ["b"], top_n: 0 },
      status: 422,
      loc: ["body", "top_n"],
    },
    {
      name: "a document too long",
      endpoint: rerank,
      body: { query: "the cat", documents: ["the dog ".repeat(60)] },
      status: 422,
      code: "prompt_too_long",
      model: () => ranker,
    },
    {
      name: "1001 documents",
      endpoint: rerank,
      body: { query: "a", documents: new Array(1001).fill("b") },
      status: 422,
      loc: ["body", "documents"],
    },
    {
      name: "version 2 without documents",
      endpoint: "inference.rerank_cohere",
      body: { query: "a" },
      status: 422,
      loc: ["body", "documents"],
    },
  ];
  for (const one of cases)
    test(`${one.name}: ${one.status}`, async () => {
      const key = one.key === "other" ? { key: it.otherKey } : one.key === "none" ? { key: null } : {};
      const body = { model: one.model?.() ?? it.baseId, ...one.body };
      const reply = await it.call(one.endpoint, { body, ...key, ...(one.headers ? { headers: one.headers } : {}) });
      assert.equal(reply.status, one.status, JSON.stringify(reply.body).slice(0, 500));
      if (one.loc) assert.deepEqual(reply.body.detail[0].loc, one.loc);
      if (one.code) assert.equal(reply.body.error.code, one.code);
    });

  test("vectors have unit length, in order, however they travel, and dimensions keep the first values", async () => {
    const input = known.text.slice(0, 3).map((one: { text: string }) => one.text);
    const plain = (await it.call(embed, { body: { model: it.baseId, input } })).body;
    const packed = (await it.call(embed, { body: { model: it.baseId, input, encoding_format: "base64" } })).body;
    const short = (await it.call(embed, { body: { model: it.baseId, input, dimensions: 64 } })).body;
    for (const [index, one] of known.text.slice(0, 3).entries()) {
      const vector = plain.data[index].embedding as number[];
      assert.equal(plain.data[index].index, index);
      assert(Math.abs(Math.hypot(...vector) - 1) < 1e-6);
      assert(cosine(vector, vectorOf(one.vector)) > 0.99);
      assert.deepEqual([...vectorOf(packed.data[index].embedding)], vector);
      const head = short.data[index].embedding as number[];
      assert.equal(head.length, 64);
      assert(Math.abs(Math.hypot(...head) - 1) < 1e-6);
      assert(Math.abs(head[5]! / head[6]! - vector[5]! / vector[6]!) < 1e-4);
    }
    const tokens = known.text.slice(0, 3).reduce((sum: number, one: { ids: number[] }) => sum + one.ids.length, 0);
    assert.deepEqual(plain.usage, { prompt_tokens: tokens, total_tokens: tokens, truncated_tokens: 0 });
  });

  test("what is cut is said in the answer and in a header", async () => {
    const reply = await it.call(embed, { body: { model: it.baseId, input: "word ".repeat(400), truncate: true } });
    assert.equal(reply.body.usage.prompt_tokens, 256);
    assert(reply.body.usage.truncated_tokens > 0);
    assert.equal(reply.headers.get("x-plumbline-truncated-tokens"), String(reply.body.usage.truncated_tokens));
  });

  test("an aligned model's vectors are its own, and each request is one row of usage", async () => {
    const before = usageRows().length;
    const input = "Warranty claims must be filed within 30 days.";
    const [base, own] = await Promise.all(
      [it.baseId, aligned].map(async (model) => (await it.call(embed, { body: { model, input } })).body),
    );
    assert.equal(own.model, aligned);
    assert(cosine(base.data[0].embedding, own.data[0].embedding) < 0.99999);
    const rows = usageRows().slice(before);
    assert.deepEqual(
      rows.map((row) => [row.prompt_tokens, row.outcome]),
      [
        [base.usage.prompt_tokens, "done"],
        [own.usage.prompt_tokens, "done"],
      ],
    );
  });

  test("a cross-encoder ranks as transformers scores, in the three forms", async () => {
    const { query, documents, logits } = known.crossEncoder as { query: string; documents: string[]; logits: number[] };
    const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]!);
    const sigmoid = (value: number): number => 1 / (1 + Math.exp(-value));
    const near = (a: number, b: number): void => assert(Math.abs(a - b) < 0.01, `${a} instead of ${b}`);

    const jina = await it.call(rerank, { body: { model: ranker, query, documents, return_documents: true, top_n: 3 } });
    assert.equal(jina.body.method, "cross_encoder");
    assert.equal(jina.headers.get("x-plumbline-rerank-method"), "cross_encoder");
    assert.deepEqual(
      jina.body.results.map((one: { index: number; document: { text: string } }) => [one.index, one.document.text]),
      order.slice(0, 3).map((index) => [index, documents[index]]),
    );
    for (const one of jina.body.results) near(one.relevance_score, sigmoid(logits[one.index]!));
    assert(jina.body.usage.total_tokens > 0);

    const texts = { model: ranker, query, texts: documents };
    const tei = await it.call(rerank, { body: { ...texts, return_text: true } });
    const raw = await it.call(rerank, { body: { ...texts, raw_scores: true } });
    assert.deepEqual(
      tei.body.map((one: { index: number; text: string }) => [one.index, one.text]),
      order.map((index) => [index, documents[index]]),
    );
    for (const one of tei.body) near(one.score, sigmoid(logits[one.index]!));
    for (const one of raw.body) near(one.score, logits[one.index]!);
    assert(!("text" in raw.body[0]));

    const objects = documents.map((text) => ({ text }));
    const cohere = await it.call("inference.rerank_cohere", { body: { model: ranker, query, documents: objects } });
    assert.deepEqual(
      cohere.body.results.map((one: { index: number }) => one.index),
      order,
    );
    assert.equal(cohere.body.meta.method, "cross_encoder");
  });

  test("a text model says that it ranks by likelihood, and puts the passage that answers first", async () => {
    const documents = [
      "Bananas are rich in potassium.",
      "Paris is the capital of France.",
      "The sky looks blue at noon.",
    ];
    const reply = await it.call(rerank, {
      body: { model: it.baseId, query: "What is the capital of France?", documents },
    });
    assert.equal(reply.body.method, "likelihood");
    assert.equal(reply.body.results[0].index, 1);
    const scores = reply.body.results.map((one: { relevance_score: number }) => one.relevance_score) as number[];
    assert(scores.every((score) => score > 0 && score < 1));
    assert.deepEqual(
      scores,
      scores.toSorted((a, b) => b - a),
    );
  });

  test("a text model's documents are cut to the slot when told to", async () => {
    const documents = ["word ".repeat(400), "Paris is the capital of France."];
    const body = { model: it.baseId, query: "What is the capital of France?", documents };
    assert.equal((await it.call(rerank, { body })).body.error.code, "prompt_too_long");
    const cut = await it.call(rerank, { body: { ...body, truncate: true } });
    assert.equal(cut.body.results[0].index, 1);
    assert(cut.body.usage.truncated_tokens > 140);
  });

  describe("tokens", () => {
    const get = async (path: string) =>
      (await it.get(`/api/v3/inference/${path}`)).json() as Promise<Record<string, unknown>>;

    test("the tokenizer is told, and reads and writes text, the model left out while one text base is there", async () => {
      for (const prefix of ["", "v1/"]) {
        const info = await get(`${prefix}tokenizer_info`);
        assert.equal(info.eos_token, "<|im_end|>");
        assert.equal(info.vocab_size, 49_152);
        assert.match(String(info.chat_template), /im_start/);
      }
      const [one] = known.text;
      const body = { prompt: one.text, add_special_tokens: false };
      const { tokens, count } = (await it.call("inference.tokenize", { body })).body;
      assert.deepEqual(tokens, one.ids);
      assert.equal(count, one.ids.length);
      assert.deepEqual((await it.call("inference.detokenize", { body: { tokens } })).body, { prompt: one.text });
    });

    test("names of control tokens are read as such, unless told not to, and written again; ids are checked", async () => {
      const prompt = "<|im_start|>user\nRené 😀<|im_end|>";
      const { tokens } = (await it.call("inference.tokenize", { body: { prompt } })).body;
      assert.deepEqual([tokens[0], tokens.at(-1)], [1, 2]);
      assert.deepEqual((await it.call("inference.detokenize", { body: { tokens } })).body, { prompt });
      const plain = (await it.call("inference.tokenize", { body: { prompt, parse_special: false } })).body.tokens;
      assert(!plain.includes(1) && !plain.includes(2));
      assert.deepEqual((await it.call("inference.detokenize", { body: { tokens: plain } })).body, { prompt });
      const wrong = await it.call("inference.detokenize", { body: { tokens: [1, 49_152] } });
      assert.deepEqual(wrong.body.detail[0].loc, ["body", "tokens", 1]);
      const foreign = await it.call("inference.tokenize", { body: { model: aligned, prompt: "a" }, key: it.otherKey });
      assert.equal(foreign.status, 404);
    });

    test("the models of others are not listed", async () => {
      const others = (await it.call("inference.models", { key: it.otherKey })).body;
      assert.deepEqual(others.data.map((model: { id: string }) => model.id).toSorted(), [it.baseId, ranker].toSorted());
      const page = (await it.call("inference.models", { query: "limit=1" })).body;
      assert.equal(page.has_more, true);
      const next = (await it.call("inference.models", { query: `limit=9&after_id=${page.last_id}` })).body;
      assert.equal(next.data.length, 2);
    });
  });

  test("the sentence encoder is taken where no model is named, and ranks by its vectors", {
    skip: withoutEncoder,
  }, async () => {
    const { model_id: encoder } = (await it.house.admin("model.import", { path: encoderFolder })) as {
      model_id: string;
    };
    const [one] = known.encoder;
    const made = (await it.call(embed, { body: { input: one.text } })).body;
    assert.equal(made.model, encoder);
    assert(cosine(made.data[0].embedding, vectorOf(one.vector)) > 0.9999);
    const documents = ["Bananas are rich in potassium.", "Paris is the capital of France."];
    const query = "What is the capital of France?";
    const ranked = (await it.call(rerank, { body: { model: encoder, query, documents } })).body;
    assert.equal(ranked.method, "embedding");
    assert.deepEqual(
      ranked.results.map((result: { index: number }) => result.index),
      [1, 0],
    );
  });
});
