// What `model import` takes in, and what GET models/base then shows.
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

const tiny = join(installation, "test/fixtures/tiny-cross-encoder");
const encoder = join(installation, ".cache/all-minilm-l6-v2");

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

  test("the sentence encoder is one for embedding, with the licence of its card", {
    skip: existsSync(encoder) ? false : `no encoder at ${encoder}`,
  }, async () => {
    await it.house.admin("model.import", { path: encoder });
    const [row] = await bases();
    assert.deepEqual(
      [row.model_name, row.kind, row.license, row.parameters, row.file_type],
      // Its pooler, which no sentence vector passes through, is left out of the 22.7 million of the card.
      ["all-MiniLM-L6-v2", "embedding", "apache-2.0", 22_565_376, "F32"],
    );
    assert.match(row.reason, /nothing to align/);
  });

  test("a hash that differs refuses the import", async () => {
    const weights = await sha256OfFile(join(tiny, "model.safetensors"));
    await it.house.admin("model.import", { path: tiny, sha256: weights.toUpperCase() });
    await refused({ path: tiny, sha256: "0".repeat(64) }, "model_invalid", /instead of 0000/);
  });

  test("a folder is not linked, and one without a model is refused", async () => {
    await refused({ path: tiny, mode: "link" }, "bad_request", /leave out --link/);
    await refused({ path: join(installation, "test/fixtures") }, "model_invalid", /config\.json is missing/);
    await refused({ path: join(tiny, "none") }, "not_found", /There is no file/);
  });
});
