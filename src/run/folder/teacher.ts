// Keeps what a teacher wrote about each passage, in teacher.jsonl of the run's folder. The appliance asks the teacher before the run
// starts, because a run opens no connections. The run only reads the file. Each prompt is asked once, even if a process is killed in
// between.
import { Failure, type FailureCode } from "../../base/errors.ts";
import { sideBySide } from "../../base/side-by-side.ts";
import { headingOf } from "../../study/heading.ts";
import type { Passage } from "../../study/passages.ts";
import {
  furtherPrompt,
  joinedReplies,
  readReply,
  type TeacherReply,
  teacherPrompt,
} from "../../study/writers/teacher.ts";
import { openMemory, readMemory } from "./memory.ts";

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
  /** Passages that the file has no reply for, or not all further replies about the facts that the first one names. */
  unasked: number;
  /** Passages whose reply names no fact that can be used. */
  silent: number;
  facts: number;
  /** Facts that are not used, because the passage does not contain their answer. */
  unfounded: number;
}

const keyOf = (passage: Passage): string =>
  [headingOf(passage), passage.before, passage.text].filter((part) => part !== "").join("\n\n");
/** Key of a reply with further questions. It depends little on how the first reply is read, so that it is found after the way of reading changes. */
const furtherKeyOf = (passage: Passage, group: number, round: number): string =>
  `${keyOf(passage)}\n\nfurther ${group}${round === 0 ? "" : ` round ${round + 1}`}`;

/** Maximum facts of a message that asks for further questions. Message and reply then fit a small context, and a reply is seldom cut off. */
const mostTogether = 6;

const groupsOf = (asks: TeacherReply["asks"]): TeacherReply["asks"][] =>
  Array.from({ length: Math.ceil(asks.length / mostTogether) }, (_, at) =>
    asks.slice(at * mostTogether, (at + 1) * mostTogether),
  );

/** Reads the replies, by passage id, and reports what can be used of them. `rounds`: see AskOptions. */
export async function readReplies(
  folder: string,
  passages: readonly Passage[],
  { rounds = 1 }: Pick<AskOptions, "rounds"> = {},
): Promise<{ replies: Map<string, TeacherReply>; report: TeacherReport }> {
  const said = await openMemory(folder, { fileName });
  try {
    const replies = new Map<string, TeacherReply>();
    const report: TeacherReport = { passages: passages.length, unasked: 0, silent: 0, facts: 0, unfounded: 0 };
    for (const passage of passages) {
      const own = await said.get(keyOf(passage));
      const first = readReply(own ?? "", passage);
      let reply = first;
      let isWhole = own !== undefined;
      for (const group of groupsOf(first.asks).keys())
        for (let round = 0; round < rounds; round++) {
          const further = await said.get(furtherKeyOf(passage, group, round));
          isWhole &&= further !== undefined;
          reply = joinedReplies(reply, readReply(further ?? "", passage));
        }
      if (!isWhole) report.unasked++;
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

/** A teacher that can be asked. */
export interface AskedTeacher {
  /** Returns the answer to a message. Throws a failure if there is none. */
  say(content: string): Promise<string>;
  /** Maximum number of passages that it is asked about at the same time. */
  together: number;
}

export interface AskOptions {
  /** Folders of earlier runs with the same teacher, the latest first. What it said there about the same passage is copied. */
  earlier?: readonly string[];
  /** Number of times that further questions of each fact are asked for; 1 if absent. */
  rounds?: number | undefined;
  /** `asked`: how many of the `done` passages the teacher was really asked about. */
  onProgress?: (done: number, total: number, asked: number) => void;
}

/** If the teacher refuses this many passages, or writes no readable question about them, before any success, asking ends. */
const hopeless = 16;
/** Failures that are due to one message, such as a passage that a content filter refuses or that is too long. */
const ofOneMessage: ReadonlySet<FailureCode> = new Set(["bad_request", "prompt_too_long"]);

/**
 * Asks the teacher about every passage that is not in the file yet. For the facts that a reply names, also asks for further wordings of
 * their questions. A passage that the teacher refuses or says nothing about stays unasked. Throws what `say` throws; if the teacher is of
 * no use, its last refusal, or upstream_failed if it refused nothing.
 */
export async function askTeacher(
  folder: string,
  passages: readonly Passage[],
  { say, together }: AskedTeacher,
  { earlier = [], rounds = 1, onProgress = () => {} }: AskOptions = {},
): Promise<void> {
  const memory = await openMemory(folder, { fileName });
  const before = (await Promise.all(earlier.map((one) => readMemory(one, fileName)))).filter((one) => one !== null);
  let [done, asked, useless, isUseful] = [0, 0, 0, false];
  let refusal: Failure | null = null;

  const known = async (key: string): Promise<string | undefined> => {
    const own = await memory.get(key);
    if (own !== undefined) return own;
    for (const one of before) {
      const said = await one.get(key);
      if (said === undefined) continue;
      await memory.put(key, said);
      return said;
    }
    return undefined;
  };

  /** Returns the teacher's answer, which is kept; empty if the teacher refuses the message. */
  async function answer(key: string, prompt: string): Promise<string> {
    try {
      const said = await say(prompt);
      // An empty reply is not kept, so that a later attempt asks again.
      if (said.trim() !== "") await memory.put(key, said);
      return said;
    } catch (error) {
      if (!(error instanceof Failure) || !ofOneMessage.has(error.code)) throw error;
      refusal = error;
      return "";
    }
  }

  async function ask(passage: Passage): Promise<void> {
    let isAsked = false;
    const reply = async (key: string, prompt: string): Promise<string> => {
      const said = await known(key);
      if (said !== undefined) return said;
      isAsked = true;
      return answer(key, prompt);
    };
    const first = readReply(await reply(keyOf(passage), teacherPrompt(passage)), passage);
    isUseful ||= first.asks.length > 0;
    if (first.asks.length === 0 && ++useless >= hopeless && !isUseful) throw ofNoUse();
    for (const [at, facts] of groupsOf(first.asks).entries()) {
      const answers = new Set(facts.map((fact) => fact.answer));
      let asks = facts;
      for (let round = 0; round < rounds; round++) {
        const said = await reply(furtherKeyOf(passage, at, round), furtherPrompt(passage, { asks }));
        const known = joinedReplies({ asks, unfounded: 0 }, readReply(said, passage));
        asks = known.asks.filter((fact) => answers.has(fact.answer));
      }
    }
    if (isAsked) asked++;
    onProgress(++done, passages.length, asked);
  }

  const ofNoUse = (): Failure =>
    refusal ??
    new Failure(
      "upstream_failed",
      `The teacher wrote no question that can be used about ${useless} passages. Name another teacher_model`,
    );

  try {
    await sideBySide(passages, together, ask);
    if (passages.length > 0 && !isUseful) throw ofNoUse();
  } finally {
    for (const one of [memory, ...before]) await one.close();
  }
}
