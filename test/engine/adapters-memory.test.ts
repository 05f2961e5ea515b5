// What many adapters on one base cost. Another process writes them, so that nothing of this one's memory is free for them already.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startProcess } from "../../src/base/processes.ts";
import { base, collect, createEngine, requestOf } from "./engine-fixture.ts";

/** Of this process, without what is mapped from files: the weights of the base are. */
function memoryBytes(): number {
  const status = readFileSync("/proc/self/status", "utf8");
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)![1]) * 1024;
}

async function writeAdapters(folder: string, count: number): Promise<void> {
  const script = `
    import { writeAdapter } from ${JSON.stringify(new URL("../helpers/adapter.ts", import.meta.url))};
    for (let at = 0; at < ${count}; at++) writeAdapter("${folder}/" + at + ".gguf", at + 1, { rank: 128, layers: 30 });
    writeAdapter("${folder}/warm.gguf");`;
  const child = startProcess(process.execPath, ["--input-type=module", "-e", script]);
  child.stderr.pipe(process.stderr);
  assert.equal((await child.ended).code, 0);
}

test("eight adapters on one base take the size of their files, and switching between them loads nothing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "adapters-"));
  await writeAdapters(folder, 8);
  const modelOf = (id: string) => ({ ...base, adapter: { id, path: join(folder, `${id}.gguf`) } });
  const models = Array.from({ length: 8 }, (_, at) => modelOf(String(at)));
  const files = models.reduce((sum, model) => sum + statSync(model.adapter.path).size, 0);
  assert.ok(files > 200e6);
  const { generator, events } = createEngine({ slots: 2, slotContext: 256 });
  const ask = async (model: typeof base): Promise<string> => {
    const prompt = generator.tokenizer("base").encode("Once upon a time", false);
    return (await collect(generator, requestOf(prompt, { model, maxTokens: 4 }))).text;
  };
  // Whoever switches at all pays once for the engine's working memory, and for that of each slot: that is not the adapters'.
  const warm = modelOf("warm");
  await generator.pool.lease(base, "work");
  await generator.pool.lease(warm, "work");
  for (let round = 0; round < 8; round++) for (const model of [base, warm]) await Promise.all([ask(model), ask(model)]);
  const before = memoryBytes();

  const first: string[] = [];
  for (const model of models) {
    await generator.pool.lease(model, "work");
    first.push(await ask(model));
  }
  const grown = memoryBytes() - before;
  assert.ok(grown <= 1.05 * files, `${grown} bytes more, with files of ${files}`);
  assert.ok(grown >= 0.9 * files, `${grown} bytes more: files of ${files} cannot be in them`);

  const loads = events.filter((event) => event.endsWith("_loading")).length;
  assert.equal(loads, 10);
  for (let round = 0; round < 2; round++)
    for (const [at, model] of models.entries()) assert.equal(await ask(model), first[at]);
  assert.equal(events.filter((event) => event.endsWith("_loading")).length, loads);
  assert.ok(new Set(first).size > 1);
  await generator.dispose();
  rmSync(folder, { recursive: true });
});
