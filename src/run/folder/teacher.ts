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
  passages: number;
  /** Passages that the file has no reply for, or no second reply although the first one names facts. */
  unasked: number;
  /** Passages whose reply names no fact that can be used. */
  silent: number;
  facts: number;
  /** Facts that are not used, because the passage does not contain their answer. */
  unfounded: number;
}

const keyOf = (passage: Passage): string => `${headingOf(passage)}\n\n${passage.text}`;
/** Key of the second reply. It does not depend on how the first reply is read, so that it is found after the way of reading changes. */
const furtherKeyOf = (passage: Passage): string => `${keyOf(passage)}\n\nfurther`;

/** Reads the replies, by passage id, and reports what can be used of them. */
export async function readReplies(
  folder: string,
  passages: readonly Passage[],
): Promise<{ replies: Map<string, TeacherReply>; report: TeacherReport }> {
  const said = await openMemory(folder, { fileName });
  try {
    const replies = new Map<string, TeacherReply>();
    const report: TeacherReport = { passages: passages.length, unasked: 0, silent: 0, facts: 0, unfounded: 0 };
    for (const passage of passages) {
      const [own, more] = [await said.get(keyOf(passage)), await said.get(furtherKeyOf(passage))];
      const first = readReply(own ?? "", passage);
      const reply = joinedReplies(first, readReply(more ?? "", passage));
      if (own === undefined || (more === undefined && first.asks.length > 0)) report.unasked++;
      else if (reply.asks.length === 0) report.silent++;
      report.facts += reply.asks.length;
      report.unfounded += reply.unfounded;
      replies.set(passage.id, reply);
    }
    return { replies, report };
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
      if (first.asks.length > 0) await reply(furtherKeyOf(passage), furtherPrompt(passage, first));
      onProgress(index + 1, passages.length);
    }
  } finally {
    await memory.close();
  }
}
