// What `model import` takes in, and what GET models/base then shows.
import assert from "node:assert/strict";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { readGgufHeader } from "../../src/engine/gguf/header.ts";
import { openStore } from "../../src/store/open.ts";
import { encoderFolder, withoutEncoder } from "../helpers/encoder.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

const tiny = join(installation, "test/fixtures/tiny-cross-encoder");

/** Gives a folder's model so many segments, all like its first. */
function withSegments(folder: string, count: number): void {
  const config = join(folder, "config.json");
  writeFileSync(config, JSON.stringify({ ...JSON.parse(readFileSync(config, "utf8")), type_vocab_size: count }));
  const weights = join(folder, "model.safetensors");
  const bytes = readFileSync(weights);
  const dataAt = 8 + Number(bytes.readBigUInt64LE());
  type Entry = { shape: number[]; data_offsets: [number, number] };
  const header = JSON.parse(bytes.subarray(8, dataAt).toString()) as Record<string, Entry>;
  const data: Buffer[] = [];
  let at = 0;
  for (const [name, entry] of Object.entries(header).filter(([key]) => key !== "__metadata__")) {
    const [from, to] = entry.data_offsets;
    const piece = bytes.subarray(dataAt + from, dataAt + to);
    const isTable = name.endsWith("token_type_embeddings.weight");
    if (isTable) entry.shape[0] = count;
    const kept = isTable ? Buffer.concat(Array<Buffer>(count).fill(piece)) : piece;
    entry.data_offsets = [at, at + kept.length];
    at += kept.length;
    data.push(kept);
  }
  const head = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(head.length));
  writeFileSync(weights, Buffer.concat([size, head, ...data]));
}

describe("importing models", () => {
  let it: TestHouse;
  before(async () => {
    it = await testHouse();
  });
  after(() => it.close());
  const bases = async () => (await it.call("models.base")).body.base_models;
  const refused = (args: object, code: string, words: RegExp) =>
    assert.rejects(
      it.house.admin("model.import", args),
      (error: unknown) => error instanceof Failure && error.code === code && words.test(error.message),
    );

  test("a folder becomes a file that is kept by its hash, once", async () => {
    const first = (await it.house.admin("model.import", { path: tiny })) as { model_id: string };
    const again = (await it.house.admin("model.import", { path: tiny })) as { model_id: string };
    assert.equal(again.model_id, first.model_id);
    const [row, ...others] = await bases();
    assert.deepEqual(others, []);
    assert.deepEqual(
      [row.model_name, row.kind, row.architecture, row.context_length, row.can_be_aligned],
      ["tiny-cross-encoder", "rerank", "bert", 48, false],
    );
    const path = join(it.data, "models", `${row.sha256}.gguf`);
    assert.equal(await sha256OfFile(path), row.sha256);
    assert.deepEqual(
      readdirSync(join(it.data, "models")).filter((name) => name.startsWith(".tmp-")),
      [],
    );
  });

  test("a file that was deleted is uploaded again over the API, under the name that is asked for", async () => {
    const { key } = (await it.house.admin("key.create", { user: "ada", scopes: ["models", "admin"] })) as {
      key: string;
    };
    const [row] = await bases();
    const path = join(it.data, "models", `${row.sha256}.gguf`);
    const files = [{ name: "ranker.gguf", content: readFileSync(path) }];
    assert.equal((await it.call("models.delete", { params: { model_id: row.model_id }, key })).status, 200);
    assert.deepEqual([await bases(), existsSync(path)], [[], false]);
    const upload = (query: string) => it.call("models.upload", { files, query, key });
    const refused = await upload(`sha256=${"0".repeat(64)}`);
    assert.deepEqual([refused.status, refused.body.error.code], [422, "model_invalid"]);
    const { status, body } = await upload(`name=Ranker&sha256=${row.sha256}`);
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body.model_name, body.kind, body.sha256], ["Ranker", "rerank", row.sha256]);
    assert.equal(await sha256OfFile(path), row.sha256);
    assert.deepEqual(readdirSync(join(it.data, "uploads")), []);
    // The same file again is the same model.
    assert.equal((await upload("")).body.model_id, body.model_id);
    const acts = (await it.call("audit.list", { key, query: "limit=2" })).body.acts;
    assert.deepEqual(
      acts.map(({ act, actor }: { act: string; actor: string }) => [act, actor]),
      [
        ["model.import", "ada"],
        ["model.remove", "ada"],
      ],
    );
  });

  test("what the trainer refuses cannot be aligned, and another import of the file asks it again", async () => {
    const ask = async (name: string) => {
      const path = join(installation, `build/fixtures/${name}.gguf`);
      return (await it.house.admin("model.import", { path })) as { model_id: string; can_be_aligned: boolean };
    };
    const refused = await ask("refused-logit-softcap");
    const { can_be_aligned, reason } = (await bases())[0];
    assert.deepEqual([refused.can_be_aligned, can_be_aligned], [false, false]);
    assert.match(reason, /final_logit_softcapping.*: llama, qwen2, qwen3, gemma3$/);
    const { model_id } = await ask("tiny-f32");
    const store = openStore(join(it.data, "plumbline.db"));
    store.prepare<[string]>("UPDATE base_model SET can_be_aligned = 0, reason = 'x' WHERE id = ?").run(model_id);
    store.close();
    assert.deepEqual(await ask("tiny-f32"), (await bases())[0]);
    // The trainer takes it; what remains is that it cannot chat.
    assert.equal((await bases())[0].reason, "The file has no chat template");
    for (const id of [refused.model_id, model_id]) await it.house.admin("model.remove", { id });
  });

  test("the sentence encoder is one for embedding, with the licence of its card", {
    skip: withoutEncoder,
  }, async () => {
    await it.house.admin("model.import", { path: encoderFolder });
    const [row] = await bases();
    assert.deepEqual(
      [row.model_name, row.kind, row.license, row.parameters, row.file_type],
      // Its pooler, which no sentence vector passes through, is left out of the 22.7 million of the card.
      ["all-MiniLM-L6-v2", "embedding", "apache-2.0", 22_565_376, "F32"],
    );
    assert.match(row.reason, /cannot be aligned/);
  });

  test("a cross-encoder's file is refused where its segments differ, and imported where they do not", async () => {
    const folder = join(it.data, "three-segments");
    cpSync(tiny, folder, { recursive: true });
    withSegments(folder, 3);
    const { model_id } = (await it.house.admin("model.import", { path: folder })) as { model_id: string };
    const { sha256 } = (await bases()).find((row: { model_id: string }) => row.model_id === model_id);
    const path = join(it.data, "models", `${sha256}.gguf`);
    const { offset, shape } = readGgufHeader(path).tensors.find(({ name }) => name === "token_types.weight")!;
    assert.equal(shape[1], 3);
    const bytes = readFileSync(path);
    const changed = join(it.data, "segments.gguf");
    writeFileSync(changed, bytes);
    await it.house.admin("model.import", { path: changed });
    for (const segment of [1, 2]) {
      const differing = Buffer.from(bytes);
      // The first value of the segment's row of 32-bit floats.
      differing.writeFloatLE(bytes.readFloatLE(offset) + 0.5, offset + 4 * shape[0]! * segment);
      writeFileSync(changed, differing);
      await refused({ path: changed }, "model_invalid", /segment embeddings/);
    }
  });

  test("a name that would steer a terminal is refused, and one that the file has is shown without that", async () => {
    for (const name of ["a\u001b[2J", "a\nb", "\u202eb", ""])
      await refused({ path: tiny, name }, "bad_request", /^The name /);
    const folder = join(it.data, "a\u001b[2J\u202e.gguf");
    cpSync(tiny, folder, { recursive: true });
    rmSync(join(folder, "README.md"), { force: true });
    const { model_name } = (await it.house.admin("model.import", { path: folder })) as { model_name: string };
    assert.doesNotMatch(model_name, /\p{Cc}|\u202e/u);
  });

  test("a hash that differs refuses the import", async () => {
    const weights = await sha256OfFile(join(tiny, "model.safetensors"));
    await it.house.admin("model.import", { path: tiny, sha256: weights.toUpperCase() });
    await refused({ path: tiny, sha256: "0".repeat(64) }, "model_invalid", /, not 0000/);
  });

  test("a folder is not linked, and one without a model is refused", async () => {
    await refused({ path: tiny, mode: "link" }, "bad_request", /leave out --link/);
    await refused({ path: join(installation, "test/fixtures") }, "model_file_type", /config\.json is missing/);
    await refused({ path: join(tiny, "none") }, "file_missing", /The file .* does not exist/);
  });
});
