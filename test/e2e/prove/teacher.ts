// The recorded teacher: what authors who saw one passage at a time wrote of each (test/foreign/teacher), as a teacher's answers stand in
// a run's folder. An author's passage need not be ours: what was written of the same lines belongs to them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "../../../src/base/files.ts";
import type { SnapshotDocument } from "../../../src/contract/run-folder.ts";
import { headingOf, type Passage, passagesOf } from "../../../src/study/passages.ts";

interface Recorded {
  title: string;
  text: string;
  asks: { answer: string; questions: string[] }[];
}

const folder = join(import.meta.dirname, "../../foreign/teacher");

export function recordedTeacher(corpus: string, documents: readonly SnapshotDocument[]): string {
  const recorded = readFileSync(join(folder, `${corpus}.jsonl`), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Recorded);
  return passagesOf(documents)
    .map((passage) => `${JSON.stringify({ key: sha256(keyOf(passage)), answer: answerOf(recorded, passage) })}\n`)
    .join("");
}

const keyOf = (passage: Passage): string => `${headingOf(passage)}\n\n${passage.text}`;

/** JSON lines, as a teacher is asked for them. */
export const answerOf = (recorded: readonly Recorded[], passage: Pick<Passage, "text">): string =>
  recorded
    .flatMap(({ text, asks }) => {
      const lines = text.split("\n").filter((line) => passage.text.includes(line));
      return asks.filter(({ answer }) => lines.some((line) => line.includes(answer)));
    })
    .map(({ answer, questions }) => JSON.stringify({ answer, questions }))
    .join("\n");
