// A teacher is asked about every passage once, several at a time; what it refuses or leaves empty is asked again later.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { type AskOptions, askTeacher, readReplies } from "../../src/run/folder/teacher.ts";
import type { Passage } from "../../src/study/passages.ts";
import { passagesOf } from "../../src/study/passages.ts";
import { documentOf } from "../helpers/study.ts";

const root = mkdtempSync(join(tmpdir(), "plumbline-teacher-"));
after(() => rmSync(root, { recursive: true }));
const newFolder = (): string => mkdtempSync(join(root, "run-"));

const passagesFor = (n: number): Passage[] =>
  passagesOf(
    Array.from({ length: n }, (_, at) => documentOf(`# Lamp ${at}\n\nThe lamp number ${at} weighs ${at + 100} kg.\n`)),
  );
const [weight] = [/weighs (?<kg>\d+ kg)/];
const replyTo = (prompt: string): string =>
  JSON.stringify({ answer: weight!.exec(prompt)!.groups!.kg, questions: ["How heavy is it?"] });
const isFurther = (prompt: string): boolean => prompt.includes("How heavy is it?");

/** Asks, and returns the prompts. */
async function asked(
  folder: string,
  passages: readonly Passage[],
  say: (prompt: string) => string | Promise<string> = replyTo,
  { together = 3, ...options }: AskOptions & { together?: number } = {},
): Promise<string[]> {
  const prompts: string[] = [];
  const teacher = {
    together,
    say: async (prompt: string) => {
      prompts.push(prompt);
      return say(prompt);
    },
  };
  await askTeacher(folder, passages, teacher, options);
  return prompts;
}

test("several passages are asked about at a time, and progress counts whole passages", async () => {
  const [folder, passages] = [newFolder(), passagesFor(7)];
  let [now, most] = [0, 0];
  const told: [number, number, number][] = [];
  const prompts = await asked(
    folder,
    passages,
    async (prompt) => {
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
      now--;
      return replyTo(prompt);
    },
    { onProgress: (...progress) => told.push(progress) },
  );
  assert.equal(prompts.length, 14);
  assert.equal(most, 3);
  assert.deepEqual(
    told,
    Array.from({ length: 7 }, (_, at) => [at + 1, 7, at + 1]),
  );
  const { replies, report } = await readReplies(folder, passages);
  assert.deepEqual(report, { passages: 7, unasked: 0, silent: 0, facts: 7, unfounded: 0 });
  assert.equal(replies.get(passages[3]!.id)!.asks[0]!.answer, "103 kg");
});

test("what is known is not asked again, and does not count as asked", async () => {
  const [folder, passages] = [newFolder(), passagesFor(3)];
  await asked(folder, passages.slice(0, 2));
  const told: number[] = [];
  const prompts = await asked(folder, passages, replyTo, { onProgress: (_done, _total, asked) => told.push(asked) });
  assert.equal(prompts.length, 2);
  assert.ok(prompts.every((prompt) => prompt.includes("number 2")));
  assert.equal(told.at(-1), 1);
});

test("what the same teacher said in an earlier run is copied", async () => {
  const [earlier, folder, passages] = [newFolder(), newFolder(), passagesFor(3)];
  await asked(earlier, passages.slice(0, 2));
  const told: number[] = [];
  const onProgress = (_done: number, _total: number, asked: number): void => void told.push(asked);
  const prompts = await asked(folder, passages, replyTo, { earlier: [newFolder(), earlier], onProgress });
  assert.equal(prompts.length, 2);
  assert.equal(told.at(-1), 1, "what is copied was not asked");
  rmSync(earlier, { recursive: true });
  assert.equal((await readReplies(folder, passages)).report.unasked, 0);
});

test("a teacher sees what stands before a passage, and is asked again when that changes", async () => {
  const folder = newFolder();
  const words = Array.from({ length: 40 }, (_, at) => `word${at}`).join(" ");
  const written = (name: string): Passage[] =>
    passagesOf([documentOf(`# A face\n\n${name} is here, ${words}.\n\nThe lamp of hers weighs 5 kg, ${words}.\n`)]);
  const say = (): string => JSON.stringify({ answer: "word7", questions: ["How heavy is it?"] });
  const [first, , second, further] = await asked(folder, written("Ada"), say, { together: 1 });
  assert.ok(!first!.includes(" before the passage "));
  assert.ok(second!.includes(" before the passage in its document.") && second!.includes(`Ada is here, ${words}.\n\n`));
  assert.ok(second!.endsWith(`A face\n---\nThe lamp of hers weighs 5 kg, ${words}.`));
  assert.ok(further!.includes(`Ada is here, ${words}.\n\n`) && isFurther(further!));
  assert.equal((await asked(folder, written("Ada"), say)).length, 0);
  assert.equal((await asked(folder, written("Eve"), say)).length, 4);
  assert.equal((await readReplies(folder, written("Eve"))).report.unasked, 0);
});

test("of many facts further questions are asked a few facts at a time", async () => {
  const words = Array.from({ length: 13 }, (_, at) => `lamp${at}`);
  const passages = passagesOf([documentOf(`# Lamps\n\nThere are ${words.join(", ")}.\n`)]);
  const folder = newFolder();
  const all = words.map((answer) => JSON.stringify({ answer, questions: ["How heavy is it?"] })).join("\n");
  const prompts = await asked(folder, passages, () => all);
  const listed = prompts.filter(isFurther).map((prompt) => prompt.match(/\{"answer":"lamp/g)!.length);
  assert.deepEqual(listed, [6, 6, 1]);
  assert.equal((await readReplies(folder, passages)).report.unasked, 0);
});

test("a further round lists the questions of the rounds before, and asks for no other facts", async () => {
  const [folder, passages] = [newFolder(), passagesFor(1)];
  const reply = (answer: string, question: string): string => JSON.stringify({ answer, questions: [question] });
  const say = (prompt: string): string => {
    if (prompt.includes("What does it weigh?")) return reply("100 kg", "What is its mass?");
    if (!isFurther(prompt)) return replyTo(prompt);
    return `${reply("100 kg", "What does it weigh?")}\n${reply("lamp", "What is it?")}`;
  };
  const prompts = await asked(folder, passages, say, { rounds: 2 });
  assert.equal(prompts.length, 3);
  assert.ok(prompts[2]!.endsWith('\n{"answer":"100 kg","questions":["How heavy is it?","What does it weigh?"]}'));
  const { replies, report } = await readReplies(folder, passages, { rounds: 2 });
  assert.equal(report.unasked, 0);
  const { questions } = replies.get(passages[0]!.id)!.asks[0]!;
  assert.deepEqual(questions, ["How heavy is it?", "What does it weigh?", "What is its mass?"]);
});

test("a run with more rounds than the one before asks for the missing rounds alone", async () => {
  const [earlier, folder, passages] = [newFolder(), newFolder(), passagesFor(2)];
  await asked(earlier, passages);
  const prompts = await asked(folder, passages, replyTo, { earlier: [earlier], rounds: 2 });
  assert.equal(prompts.length, 2);
  assert.ok(prompts.every(isFurther));
  assert.equal((await readReplies(folder, passages, { rounds: 2 })).report.unasked, 0);
  assert.equal((await readReplies(folder, passages, { rounds: 3 })).report.unasked, 2);
});

test("a passage that is refused or gets an empty reply stays unasked, and is asked about again", async () => {
  const [folder, passages] = [newFolder(), passagesFor(4)];
  const prompts = await asked(folder, passages, (prompt) => {
    if (prompt.includes("number 1 ")) throw new Failure("bad_request", "the filter");
    return prompt.includes("number 2 ") ? "" : replyTo(prompt);
  });
  assert.equal(prompts.length, 6);
  assert.equal((await readReplies(folder, passages)).report.unasked, 2);
  assert.equal((await asked(folder, passages)).length, 4);
  assert.equal((await readReplies(folder, passages)).report.unasked, 0);
});

test("another failure ends the asking once the calls in progress have ended, and what was said is kept", async () => {
  const [folder, passages] = [newFolder(), passagesFor(4)];
  const fails = async (prompt: string): Promise<string> => {
    await new Promise(setImmediate);
    if (prompt.includes("number 1 ")) throw new Failure("upstream_failed");
    return replyTo(prompt);
  };
  await assert.rejects(asked(folder, passages, fails), { code: "upstream_failed" });
  const { unasked } = (await readReplies(folder, passages)).report;
  assert.ok(unasked < 4, `${unasked}`);
});

test("a teacher without any use is not asked about every passage", async () => {
  for (const passages of [passagesFor(40), passagesFor(2)]) {
    let n = 0;
    const says = (): string => `No. ${++n}`;
    await assert.rejects(asked(newFolder(), passages, says), { code: "upstream_failed", message: /no question/ });
    assert.ok(n <= 16 + 3, `${n}`);
    n = 0;
    const refuses = (): never => {
      n++;
      throw new Failure("bad_request", "no such parameter");
    };
    await assert.rejects(asked(newFolder(), passages, refuses), { code: "bad_request", message: /no such parameter/ });
    assert.ok(n <= 16 + 3, `${n}`);
  }
});
