// What authors wrote of each passage reaches the passages, however documents are divided into them now.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { passagesOf } from "../../src/study/passages.ts";
import { furtherPrompt, readReply, teacherPrompt } from "../../src/study/writers/teacher.ts";
import { companyMaterial, foreignMaterial, rewordedMaterial } from "../e2e/prove/material.ts";
import { answerOf, type Recorded } from "../e2e/prove/teacher.ts";
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
    // Whether an author wrote further questions of it too.
    const asked = new Map(
      recorded.flatMap(({ asks }) => asks.map(({ answer, further = [] }) => [answer, further.length > 0])),
    );
    const placed = new Set<string>();
    for (const passage of passagesOf(await read())) {
      const first = readReply(answerOf(recorded, teacherPrompt(passage)), passage);
      assert.ok(first.asks.length > 0 || passage.text.split(/\s+/).length < 15, passage.text);
      const further = readReply(answerOf(recorded, furtherPrompt(passage, first)), passage);
      const again = new Set(further.asks.map(({ answer }) => answer));
      for (const { answer } of first.asks) if (again.has(answer) || !asked.get(answer)) placed.add(answer);
    }
    const answers = [...asked.keys()];
    const lost = answers.filter((answer) => !placed.has(answer));
    assert.ok(
      lost.length <= 0.02 * answers.length,
      `${lost.length} of ${answers.length} are lost: ${lost.join(" | ")}`,
    );
  });
