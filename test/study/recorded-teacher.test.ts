// What authors wrote of each passage reaches the passages, however documents are divided into them now.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { readReplies } from "../../src/run/folder/teacher.ts";
import { passagesOf } from "../../src/study/passages.ts";
import { companyMaterial, foreignMaterial, rewordedMaterial } from "../e2e/prove/material.ts";
import { consultTeacher, type Recorded } from "../e2e/prove/teacher.ts";
import { readJsonLines } from "../helpers/json-lines.ts";

const documentsOf = async (corpus: string): Promise<SnapshotDocument[]> => (await foreignMaterial(corpus)).documents;

const recordings: [string, () => Promise<SnapshotDocument[]>][] = [
  ["foreign/teacher/vets", () => documentsOf("vets")],
  ["foreign/teacher/water", () => documentsOf("water")],
  ["foreign/teacher/baeckerei", () => documentsOf("baeckerei")],
  ["company/teacher/original", async () => (await companyMaterial(300, 7)).documents],
  ["company/teacher/reworded", async () => (await rewordedMaterial()).documents],
];

for (const [file, read] of recordings)
  test(`${file}: 98 of 100 recorded answers belong to a passage, and a passage of fifteen words has one`, async () => {
    const recorded = readJsonLines<Recorded>(join(import.meta.dirname, "..", `${file}.jsonl`));
    // What an author wrote of it further.
    const asked = new Map(recorded.flatMap(({ asks }) => asks.map(({ answer, further = [] }) => [answer, further])));
    const folder = mkdtempSync(join(tmpdir(), "plumbline-recorded-"));
    after(() => rmSync(folder, { recursive: true }));
    const documents = await read();
    const passages = passagesOf(documents);
    await consultTeacher(folder, file, documents, {});
    const { replies, report } = await readReplies(folder, passages);
    assert.equal(report.unasked, 0);
    const placed = new Set<string>();
    for (const { id, text } of passages) {
      const { asks } = replies.get(id)!;
      assert.ok(asks.length > 0 || text.split(/\s+/).length < 15, text);
      for (const { answer, questions } of asks) {
        const further = asked.get(answer) ?? [];
        if (further.length === 0 || further.some((one) => questions.includes(one))) placed.add(answer);
      }
    }
    const answers = [...asked.keys()];
    const lost = answers.filter((answer) => !placed.has(answer));
    assert.ok(
      lost.length <= 0.02 * answers.length,
      `${lost.length} of ${answers.length} are lost: ${lost.join(" | ")}`,
    );
  });
