// A study in its thread asks models that live outside of it, and ends with their errors as they were.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import type { StudyTask } from "../../src/study/study.worker.ts";
import { openStudyThread } from "../../src/study/thread.ts";
import { selfWriter } from "../../src/study/writers/self.ts";
import type { TeacherReply } from "../../src/study/writers/teacher.ts";
import { documentOf, plainBase, studied } from "../helpers/study.ts";

const document = documentOf("# Ferry\n\nThe crossing to Skarvik takes 25 minutes and costs 6.40 euros.\n");
const options = { phrasings: 3, stages: 2, seed: 4 };
const task: StudyTask = { documents: [document], organisation: null, options, writer: null };
const parts = {
  base: plainBase,
  writer: null,
  teacherReplies: async () => new Map<string, TeacherReply>(),
  progress: async () => {},
};

test("rows and report are those of a study on this thread", async () => {
  const thread = openStudyThread(new AbortController().signal);
  const self: StudyTask = { ...task, writer: { kind: "self" } };
  try {
    assert.deepEqual(await thread.study(task, parts), await studied([document], options));
    assert.deepEqual(
      await thread.study(self, parts),
      await studied([document], options, selfWriter(plainBase, options)),
    );
  } finally {
    await thread.close();
  }
});

test("a teacher's replies come from outside", async () => {
  const thread = openStudyThread(new AbortController().signal);
  const reply: TeacherReply = {
    asks: [{ answer: "25 minutes", questions: ["How long does one sail to Skarvik?"] }],
    unfounded: 0,
  };
  try {
    const { rows, report } = await thread.study(
      { ...task, writer: { kind: "teacher", name: "vicuna" } },
      { ...parts, teacherReplies: async (passages) => new Map(passages.map(({ id }) => [id, reply])) },
    );
    assert.equal(report.writer?.name, "vicuna");
    assert.ok(rows.some(({ messages }) => messages[0]!.content === "How long does one sail to Skarvik?"));
  } finally {
    await thread.close();
  }
});

test("what an answer throws ends the study, as it was thrown", async () => {
  const thread = openStudyThread(new AbortController().signal);
  const failing = { ...parts, progress: () => Promise.reject(new Failure("interrupted")) };
  try {
    await assert.rejects(
      thread.study(task, failing),
      (error) => error instanceof Failure && error.code === "interrupted",
    );
  } finally {
    await thread.close();
  }
});
