// What the command that trains the warm start gives to its alignment.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { documentOf, isHeldOut, readMaterial } from "../../src/cli/train-writer.ts";
import { keptOut, teacherOf } from "../../src/cli/warm-start-material.ts";
import { askTeacher, readReplies } from "../../src/run/folder/teacher.ts";
import { passagesOf } from "../../src/study/passages.ts";

test("96 of 100 wordings of the material reach the alignment, and none of those that are asked at its checks", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-warm-start-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const material = (await readMaterial()).filter(
    (one) => !isHeldOut(one) && one.asks.every(({ further = [] }) => further.length > 0),
  );
  const { kept, items } = keptOut(material, 100);
  assert.equal(items.length, 100);
  const passages = passagesOf(material.map(documentOf));
  await askTeacher(folder, passages, { say: teacherOf(passages, kept), together: 1 });
  const { replies, report } = await readReplies(folder, passages);
  assert.deepEqual([report.unasked, report.unfounded], [0, 0]);

  const trained = new Set([...replies.values()].flatMap(({ asks }) => asks.flatMap(({ questions }) => questions)));
  for (const { instruction } of items) assert.ok(!trained.has(instruction), instruction);
  const wordings = kept.flatMap((facts) => facts.flatMap(({ questions }) => questions));
  const lost = wordings.filter((question) => !trained.has(question));
  // A table in plain text gives no passage here.
  assert.ok(lost.length <= 0.04 * wordings.length, `${lost.length} of ${wordings.length} are lost, as ${lost[0]}`);
});
