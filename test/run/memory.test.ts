// What a run remembers of models' answers: whatever was written is found again, and a line that was torn costs itself alone.
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { sha256 } from "../../src/base/files.ts";
import { openMemory, readMemory, removeMemory } from "../../src/run/folder/memory.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-memory-"));
const file = join(folder, "answers.jsonl");
after(() => rmSync(folder, { recursive: true }));

const answers = new Map([
  ["short", "yes"],
  ["empty", ""],
  ["lines", 'one\ntwo "three" \\ — ü 🙂'],
  ["long", "0123456789 é".repeat(30_000)],
]);

test("answers are found while the file is open and after it was opened again", async () => {
  const first = await openMemory(folder);
  for (const [key, answer] of answers) {
    assert.equal(await first.get(key), undefined);
    await first.put(key, answer);
    assert.equal(await first.get(key), answer);
  }
  await first.close();
  const second = await openMemory(folder);
  for (const [key, answer] of answers) assert.equal(await second.get(key), answer);
  await second.put("later", "one more");
  assert.equal(await second.get("later"), "one more");
  await second.close();
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).answer),
    [...answers.values(), "one more"],
  );
});

test("an answer that is still being written when the file is closed is kept", async () => {
  const own = mkdtempSync(join(folder, "closing-"));
  const memory = await openMemory(own);
  const [writing] = [memory.put("last", "said"), memory.close()];
  await writing;
  const again = await openMemory(own);
  assert.equal(await again.get("last"), "said");
  await again.close();
});

test("answers that an older version left are found, and take no time", async () => {
  const old = mkdtempSync(join(folder, "old-"));
  const lines = [...answers].map(([key, answer]) => `${JSON.stringify({ key: sha256(key), answer })}\n`);
  writeFileSync(join(old, "answers.jsonl"), lines.join(""));
  const memory = await openMemory(old);
  await memory.put("later", "one more");
  for (const [key, answer] of [...answers, ["later", "one more"] as const]) assert.equal(await memory.get(key), answer);
  assert.equal(memory.secondsBefore, 0);
  await memory.close();
});

test("a line that was torn is no answer, and what is written after it is", async () => {
  const size = readFileSync(file).length;
  truncateSync(file, size - 5);
  const torn = await openMemory(folder);
  assert.equal(await torn.get("later"), undefined);
  await torn.put("later", "again");
  await torn.close();
  const after = await openMemory(folder);
  assert.equal(await after.get("later"), "again");
  assert.equal(await after.get("long"), answers.get("long"));
  await after.close();
  appendFileSync(file, '{"key":"');
  const headless = await openMemory(folder);
  assert.equal(await headless.get("later"), "again");
  await headless.close();
});

test("a damaged line is no answer, and the others are", async () => {
  const damaged = readFileSync(file, "utf8").replace('"yes"', '"y"s"');
  writeFileSync(file, damaged);
  const memory = await openMemory(folder);
  assert.equal(await memory.get("short"), undefined);
  assert.equal(await memory.get("lines"), answers.get("lines"));
  await memory.close();
});

test("what is removed is asked anew", async () => {
  await removeMemory(folder);
  const memory = await openMemory(folder);
  assert.equal(await memory.get("short"), undefined);
  await memory.close();
});

test("answers that come at the same time are all found", async () => {
  const shared = mkdtempSync(join(folder, "shared-"));
  const memory = await openMemory(shared);
  await Promise.all([...answers].map(([key, answer]) => memory.put(key, answer)));
  for (const [key, answer] of answers) assert.equal(await memory.get(key), answer);
  await memory.close();
});

test("another run's answers are read without a change to its file, of which the last line may be half written", async () => {
  const other = mkdtempSync(join(folder, "other-"));
  assert.equal(await readMemory(other, "answers.jsonl"), null);
  const memory = await openMemory(other);
  await memory.put("short", "yes");
  await memory.close();
  const path = join(other, "answers.jsonl");
  appendFileSync(path, `{"key":"${sha256("half")}","ms":           1,"answer":"ha`);
  const before = readFileSync(path, "utf8");
  const read = (await readMemory(other, "answers.jsonl"))!;
  assert.deepEqual([await read.get("short"), await read.get("half")], ["yes", undefined]);
  await read.close();
  assert.equal(readFileSync(path, "utf8"), before);
});
