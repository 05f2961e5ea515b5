// The full record of an aligned model, and its adapter to take away.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

let it: Scripted;
let modelId: string;
let peft: string;
const adapter = randomBytes(100_000);
// Sizes around those of a tar block.
const files = { "adapter_config.json": randomBytes(511), "adapter_model.safetensors": randomBytes(1_000_512) };

before(async () => {
  it = await scriptedHouse();
  const aligned = await it.align();
  modelId = aligned.modelId;
  writeFileSync(join(it.data, "adapter.gguf"), adapter);
  it.store
    .prepare<string[]>("UPDATE aligned_model SET adapter_path = ? WHERE id = ?")
    .run(join(it.data, "adapter.gguf"), modelId);
  peft = join(it.data, "runs", aligned.alignmentId, "artefact/peft");
});
after(() => it.close());

const download = (format: string, headers = {}) =>
  it.get(`/api/v3/models/${modelId}/download?format=${format}`, {
    headers: { authorization: `Bearer ${it.key}`, ...headers },
  });
const record = async () => (await it.call("models.get", { params: { model_id: modelId } })).body;

describe("the adapter", () => {
  test("as GGUF is the very file that serves", async () => {
    const response = await download("gguf");
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "application/octet-stream");
    assert.equal(response.headers.get("content-length"), String(adapter.length));
    assert.equal(response.headers.get("content-disposition"), `attachment; filename="${modelId}.gguf"`);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    assert.ok(Buffer.from(await response.arrayBuffer()).equals(adapter));
  });

  test("as PEFT is an archive that tar unpacks; before there is one it is not found, and the record says so", async () => {
    const none = await download("peft");
    assert.equal(none.status, 404);
    assert.match(JSON.stringify(await none.json()), /no longer has a PEFT file/);
    assert.deepEqual((await record()).downloadable, { gguf: true, peft: false });

    mkdirSync(peft, { recursive: true });
    for (const [name, content] of Object.entries(files)) writeFileSync(join(peft, name), content);
    assert.deepEqual((await record()).downloadable, { gguf: true, peft: true });
    const response = await download("peft");
    assert.equal(response.headers.get("content-type"), "application/x-tar");
    const archive = Buffer.from(await response.arrayBuffer());
    assert.equal(response.headers.get("content-length"), String(archive.length));
    const folder = mkdtempSync(join(it.data, "unpacked-"));
    execFileSync("tar", ["-xf", "-", "-C", folder], { input: archive });
    for (const [name, content] of Object.entries(files))
      assert.ok(readFileSync(join(folder, modelId, name)).equals(content), name);
    rmSync(folder, { recursive: true });
  });

  test("is refused in any other form, of a base, of a stranger", async () => {
    for (const format of ["", "zip", "GGUF", "../gguf"]) assert.equal((await download(format)).status, 422, format);
    assert.equal((await it.call("models.download", { params: { model_id: modelId } })).status, 422);
    const asked = { query: "format=gguf" };
    assert.equal((await it.call("models.download", { ...asked, params: { model_id: it.baseId } })).status, 404);
    assert.equal(
      (await it.call("models.download", { ...asked, params: { model_id: modelId }, key: it.otherKey })).status,
      404,
    );
    assert.equal((await download("gguf", { authorization: "Bearer wrong" })).status, 401);
  });

  test("of a client that leaves in the middle frees the file", async () => {
    const controller = new AbortController();
    const response = await it.get(`/api/v3/models/${modelId}/download?format=gguf`, { signal: controller.signal });
    await response.body!.getReader().read();
    controller.abort();
    assert.equal((await download("gguf")).status, 200);
  });
});

test("the record has lineage, use and what a chat has by default", async () => {
  const chat = { model: modelId, messages: [{ role: "user", content: "Hello" }] };
  const { usage } = (await it.call("inference.chat", { body: chat })).body;
  const found = await record();
  assert.deepEqual(found.usage, {
    requests: 1,
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
  });
  assert.equal(found.lineage.workflow_id, "quick");
  assert.deepEqual(found.lineage.document_ids, []);
  assert.deepEqual(found.conversation, {
    context_tokens: 2048,
    max_tokens: 2000,
    prompt_truncate_len: 1500,
    temperature: 1,
    conversation_saving_enabled: false,
  });
});
