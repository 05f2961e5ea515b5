// Keeps what a teacher wrote about each passage, in teacher.jsonl of the run's folder. The appliance asks the teacher before the run
// starts, because a run opens no connections. The run only reads the file. Each prompt is asked once, even if a process is killed in
// between.
import { headingOf } from "../../study/heading.ts";
import type { Passage } from "../../study/passages.ts";
import {
  furtherPrompt,
  joinedReplies,
  readReply,
  type TeacherReply,
  teacherPrompt,
} from "../../study/writers/teacher.ts";
import { answerTo, openMemory } from "./memory.ts";

/**
 * A base or deployed model of the appliance, or a model of the upstream `provider`; `key_id` is the API key on whose behalf it is asked.
 */
export interface Teacher {
  model: string;
  provider: string | null;
  key_id: string;
}

const fileName = "teacher.jsonl";

/** What can be used of a teacher's replies. */
export interface TeacherReport {
  /** Passages that the teacher was asked about, and how many of them have no usable fact in their reply. */
  passages: number;
  silent: number;
  facts: number;
  /** Facts that are not used, because the passage does not contain their answer. */
  unfounded: number;
}

export function teacherReport(replies: Iterable<TeacherReply>): TeacherReport {
  const report: TeacherReport = { passages: 0, silent: 0, facts: 0, unfounded: 0 };
  for (const { asks, unfounded } of replies) {
    report.passages++;
    if (asks.length === 0) report.silent++;
    report.facts += asks.length;
    report.unfounded += unfounded;
  }
  return report;
}

const keyOf = (passage: Passage): string => `${headingOf(passage)}\n\n${passage.text}`;

/** Reads the replies, by passage id. A passage that the teacher was not asked about has no entry. */
export async function readReplies(folder: string, passages: readonly Passage[]): Promise<Map<string, TeacherReply>> {
  const said = await openMemory(folder, { fileName });
  try {
    const replies = new Map<string, TeacherReply>();
    for (const passage of passages) {
      const own = await said.get(keyOf(passage));
      if (own === undefined) continue;
      const first = readReply(own, passage);
      const further = readReply((await said.get(furtherPrompt(passage, first))) ?? "", passage);
      replies.set(passage.id, joinedReplies(first, further));
    }
    return replies;
  } finally {
    await said.close();
  }
}

/**
 * Asks the teacher about every passage that is not in the file yet. If the reply has questions, also asks for further wordings of
 * questions about the facts that the reply names. `say` throws if the teacher cannot answer.
 */
export async function askTeacher(
  folder: string,
  passages: readonly Passage[],
  say: (content: string) => Promise<string>,
  onProgress: (done: number, total: number) => void,
): Promise<void> {
  const memory = await openMemory(folder, { fileName });
  const reply = (key: string, prompt: string): Promise<string> => answerTo(memory, key, () => say(prompt));
  try {
    for (const [index, passage] of passages.entries()) {
      const first = readReply(await reply(keyOf(passage), teacherPrompt(passage)), passage);
      const further = furtherPrompt(passage, first);
      if (first.asks.length > 0) await reply(further, further);
      onProgress(index + 1, passages.length);
    }
  } finally {
    await memory.close();
  }
}
