// Rewards by models that a run does not hold, and by rubrics of the project, over a small folder with the real trainer: the appliance's part
// is a script of the test.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { type Child, startNode } from "../../src/base/processes.ts";
import type { AutoAlignRequest } from "../../src/contract/auto-align.ts";
import type { RunEvent, SnapshotDocument } from "../../src/contract/run-folder.ts";
import type { ModelQuestion, RunReply } from "../../src/contract/run-lines.ts";
import { createLocalExecutor } from "../../src/jobs/executor.ts";
import { openRewardModels } from "../../src/run/auto/reward-models.ts";
import { createControl, Unanswered } from "../../src/run/control.ts";
import { mostAsked } from "../../src/run/rewards/pay.ts";
import { runAlignment } from "../../src/run/run.ts";
import { documentOf } from "../helpers/study.ts";
import { brokenRules, claimAutoAlign, devItem, eventsOf, newRunFolder, partsOf } from "./run-harness.ts";

type Said = string | number[] | Error;

/** A run's control whose questions `say` answers; every question that it was asked. */
function answering(say: (question: ModelQuestion, at: number) => Said) {
  const asked: ModelQuestion[] = [];
  const control = createControl(({ kind, seq, question }: RunReply) => {
    if (kind !== "ask") return;
    const said = say(question!, asked.push(question!) - 1);
    const told = said instanceof Error ? { failed: said.message } : { said };
    setImmediate(() => control.handle(JSON.stringify({ seq, command: "answer", ...told })));
  });
  return { control, asked };
}

const folderOf = () => newRunFolder(options);
const rewardIn = ({ metrics }: RunEvent): number => metrics!.reward as number;
const textOf = (question: ModelQuestion): string => (question.of === "judge" ? question.content : question.prompt);

const dev = Array.from({ length: 8 }, (_, at) => devItem(at + 1, `How heavy is lamp ${at}?`, `${at} kg`));
const notes = documentOf(
  "# Lamps\n\nThe lamp called Orla weighs 3 kg.\nThe lamp called Brim is red.\n",
  "text/markdown",
  "notes.md",
);
const rubric = documentOf(
  "criterion,level\nThe answer has the letter e,essential\nIt is short,optional\n",
  "text/csv",
  "letters.csv",
);
const sums = documentOf(
  [
    "prompt,answer,rubric",
    ...Array.from(
      { length: 6 },
      (_, at) =>
        `What is ${at} and ${at}?,${2 * at},"[{""text"":""The answer is ${2 * at}."",""level"":""essential""}]"`,
    ),
    "",
  ].join("\n"),
  "text/csv",
  "sums.csv",
);
const options = { dev };
const withRubric = { dev, documents: [notes, rubric] };
const withSums = { dev, documents: [notes, sums] };

/** The letter e is what the judge looks for; of the questions whose answers are known, the right ones. */
function judged(question: ModelQuestion): string {
  assert.equal(question.of, "judge");
  const { content } = question as Extract<ModelQuestion, { of: "judge" }>;
  const [, prompt = "", answer = ""] = /^Question: (.*?)\nAnswer: (.*?)\n\nStatement/su.exec(content) ?? [];
  const gold = dev.find(({ instruction }) => instruction === prompt)?.response;
  if (gold !== undefined) return answer === gold ? "Yes." : "No, it is not.";
  return answer.includes("e") ? "yes" : "no";
}

const few = {
  sampling: { prompt_groups_per_step: 2, group_size: 4, max_tokens: 4 },
  training: { steps: 2 },
};

async function reinforced(
  config: AutoAlignRequest["config"],
  say: Parameters<typeof answering>[0],
  given: { documents?: SnapshotDocument[]; dev: typeof dev } = options,
) {
  const folder = await newRunFolder(given);
  claimAutoAlign(folder, { request: { target_score: 99, sequencing: ["reinforce"], config: { ...few, ...config } } });
  const { control, asked } = answering(say);
  const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
  const grade = (answer: string) => ({ correct: answer.includes("e") });
  const result = await runAlignment(folder, partsOf({ over: { control, clock, grade } }));
  return { folder, result, asked, steps: eventsOf(folder).filter(({ kind }) => kind === "step") };
}

const byJudge = (over: object = {}): AutoAlignRequest["config"] => ({
  reward: { type: "llm_judge", llm_judge: { judge_model: "model_judge", criteria: ["It is right."], ...over } },
});

test("a question is asked once, whoever asks it again, now or after the run was killed", async () => {
  const folder = await folderOf();
  const { control, asked } = answering((question) => (textOf(question).includes("blue") ? "Yes" : "**No**"));
  const first = await openRewardModels({ folder, parts: partsOf({ over: { control } }) });
  const judge = (models: typeof first, answer: string) =>
    models.judge(["It is a colour.", "It is a word."], "Which?", answer, control.signal);
  assert.deepEqual(await Promise.all([judge(first, "blue"), judge(first, "blue"), judge(first, "3")]), [
    [true, true],
    [true, true],
    [false, false],
  ]);
  assert.equal(asked.length, 4);
  await first.close();
  const second = await openRewardModels({ folder, parts: partsOf({ over: { control } }) });
  assert.deepEqual(await judge(second, "blue"), [true, true]);
  assert.equal(asked.length, 4);
  await second.close();
});

test("a judge that is measured by two processes took the hours of both", async () => {
  const criteria = ["It is right.", "It is true."];
  const hoursOf = async (dies: number | null): Promise<number> => {
    const folder = await folderOf();
    claimAutoAlign(folder, {
      request: { target_score: 99, sequencing: ["reinforce"], config: { ...few, ...byJudge({ criteria }) } },
    });
    let ms = 0;
    const clock = { monotonicMs: () => ms, now: () => "2026-01-01T00:00:00.000Z" };
    const run = (dying: number | null) => {
      const { control } = answering((question, at) => {
        if (at === dying) throw new Error("died");
        ms += 3_600_000;
        return judged(question);
      });
      const grade = (answer: string) => ({ correct: answer.includes("e") });
      return runAlignment(folder, partsOf({ over: { control, clock, grade } }));
    };
    if (dies !== null) {
      assert.equal((await run(dies)).outcome, "failed");
      claimAutoAlign(folder, {});
    }
    await run(null);
    return JSON.parse(readFileSync(join(folder, "plan", "judge", "said.json"), "utf8")).hours;
  };
  assert.equal(await hoursOf(null), 32);
  // A question that was on its way is asked again.
  assert.ok((await hoursOf(24)) >= 32);
});

test("what is neither yes nor no is no verdict, and a question without an answer is asked again", async () => {
  const folder = await folderOf();
  const said: Said[] = ["Perhaps", "", "Yesterday", new Error("the model is gone"), "Yes"];
  const { control } = answering((_, at) => said[at]!);
  const models = await openRewardModels({ folder, parts: partsOf({ over: { control } }) });
  const judge = (answer: string) => models.judge(["It is right."], "Which?", answer, control.signal);
  for (const answer of ["a", "b", "c"]) assert.deepEqual(await judge(answer), [null], answer);
  await assert.rejects(judge("d"), (error) => error instanceof Unanswered && /the model is gone/.test(error.message));
  assert.deepEqual(await judge("d"), [true]);
  await models.close();
});

test("a preference model is shown each prompt's answers once, and scores every pair", async () => {
  const folder = await folderOf();
  const { control, asked } = answering((question) =>
    question.of === "preference_model" ? question.answers.map((answer) => answer.length) : "",
  );
  const models = await openRewardModels({ folder, parts: partsOf({ over: { control } }) });
  const pairs = [
    { prompt: "P", answer: "abc" },
    { prompt: "Q", answer: "a" },
    { prompt: "P", answer: "ab" },
    { prompt: "P", answer: "abc" },
  ];
  assert.deepEqual(await models.preferenceModel(pairs, control.signal), [3, 1, 2, 3]);
  assert.deepEqual(asked, [
    { of: "preference_model", prompt: "P", answers: ["abc", "ab"] },
    { of: "preference_model", prompt: "Q", answers: ["a"] },
  ]);
  await models.close();
});

test("open questions end with a stop", async () => {
  const control = createControl(() => {});
  const asked = control.ask({ of: "judge", content: "?", choices: ["Yes", "No"] });
  control.handle('{"seq":1,"command":"stop"}');
  await assert.rejects(asked, (error) => error === control.signal.reason);
  await assert.rejects(control.ask({ of: "judge", content: "?", choices: ["Yes", "No"] }), /./);
});

test("another model judges: it is tried on dev first, and its verdicts are what is paid", async () => {
  const { folder, result, asked, steps } = await reinforced(byJudge(), judged);
  assert.equal(result.error, null);
  const told = eventsOf(folder).find(({ message }) => message?.startsWith("The judge finds"));
  assert.match(
    told!.message!,
    /finds 8 of 8 criteria of correct answers met and 8 of 8 criteria of wrong answers unmet/,
  );
  assert.ok(asked.length > 16, "drawn answers were judged");
  assert.ok(steps.length >= 2);
  for (const step of steps) {
    assert.ok(rewardIn(step) >= 0 && rewardIn(step) <= 1);
    assert.equal(step.metrics!.unknown_rewards, 0);
  }
  assert.deepEqual(brokenRules(folder), []);
  assert.ok(!readFileSync(join(folder, "events.jsonl"), "utf8").includes("settings_doubtful"));
});

test("a run that was stopped while it asked goes on without asking anything twice", async () => {
  const folder = await folderOf();
  claimAutoAlign(folder, {
    request: { target_score: 99, sequencing: ["reinforce"], config: { ...few, ...byJudge() } },
  });
  const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
  const run = (control: ReturnType<typeof createControl>) =>
    runAlignment(folder, partsOf({ over: { control, clock } }));
  const before = answering((question, at) => {
    if (at === 20) before.control.handle('{"seq":1,"command":"stop"}');
    return judged(question);
  });
  assert.equal((await run(before.control)).outcome, "stopped");
  claimAutoAlign(folder, { stopping: false });
  const after = answering(judged);
  const earlier = new Set(before.asked.slice(0, 16).map(textOf));
  const ended = await run(after.control);
  assert.equal(ended.error, null);
  assert.deepEqual(
    after.asked.map(textOf).filter((text) => earlier.has(text)),
    [],
  );
});

test("a run that ended while its judge was tried tells settings and the judge's rates once it goes on, and never again", async () => {
  const folder = await folderOf();
  const config = { ...few, ...byJudge(), checkpointing: { magic: 1 } };
  claimAutoAlign(folder, { request: { target_score: 99, max_compute_hours: 0, sequencing: ["reinforce"], config } });
  const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
  const run = (say: Parameters<typeof answering>[0]) =>
    runAlignment(folder, partsOf({ over: { control: answering(say).control, clock } }));
  const told = () => eventsOf(folder).filter(({ message }) => /^The judge finds|^Settings that have/.test(message!));
  await run(() => new Error("The upstream did not answer"));
  assert.equal(told().length, 0);
  for (const _ of ["goes on", "starts again"]) {
    claimAutoAlign(folder, {});
    assert.equal((await run(judged)).error, null);
    assert.deepEqual(
      told().map(({ kind }) => kind),
      ["decision", "warning"],
    );
  }
});

test("a judge that tells nothing, and one that does not answer, end the run before anything is trained", async () => {
  const nothing = await reinforced(byJudge(), () => "Yes");
  assert.match(nothing.result.error!.message, /^config\.reward\.llm_judge\.judge_model: model_judge cannot tell good/);
  const gone = await reinforced(byJudge({ judge_provider: "far" }), () => new Error("The upstream did not answer"));
  assert.match(gone.result.error!.message, /gave no answer: The upstream did not answer/);
  for (const { folder, steps } of [nothing, gone]) {
    assert.equal(steps.length, 0);
    assert.ok(!existsSync(join(folder, "prepared")));
  }
});

test("a document is the rubric that is paid by, and nobody studies it", async () => {
  const { folder, result, steps, asked } = await reinforced(
    { reward: { type: "rubric", rubric_ref: "letters", llm_judge: { judge_model: "model_judge" } } },
    judged,
    withRubric,
  );
  assert.equal(result.error, null);
  assert.ok(steps.length >= 2);
  assert.ok(asked.some((question) => textOf(question).includes("It is short")));
  assert.ok(!readFileSync(join(folder, "prepared/rows.jsonl"), "utf8").includes("letter e"));
});

test("nobody studies a rubric that no phase pays by", async () => {
  const folder = await newRunFolder(withRubric);
  const config = { ...few, reward: { type: "rubric", rubric_ref: "letters" } };
  claimAutoAlign(folder, { request: { target_score: 99, sequencing: ["supervised"], config } });
  const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
  assert.equal((await runAlignment(folder, partsOf({ over: { clock } }))).error, null);
  assert.ok(!readFileSync(join(folder, "prepared/rows.jsonl"), "utf8").includes("letter e"));
});

test("prompts of a data set are paid by rubrics of their own, on which the judge is tried", async () => {
  const truth = (question: ModelQuestion): string => {
    const [, answer, gold] =
      /\nAnswer: (.*?)\n\nStatement about the answer: The answer is (\d+)\./su.exec(textOf(question)) ?? [];
    return answer === gold || answer?.includes("e") ? "Yes" : "No";
  };
  const { folder, result, asked, steps } = await reinforced(
    { dataset: { split: "sums" }, reward: { type: "rubric", llm_judge: { judge_model: "model_judge" } } },
    truth,
    withSums,
  );
  assert.equal(result.error, null);
  const told = eventsOf(folder).find(({ message }) => message?.startsWith("The judge finds"));
  assert.match(
    told!.message!,
    /finds 6 of 6 criteria of correct answers met and 6 of 6 criteria of wrong answers unmet/,
  );
  assert.ok(steps.length >= 2);
  assert.ok(asked.every((question) => textOf(question).includes("What is")));
  const none = await reinforced({ reward: { type: "rubric" } }, truth, withRubric);
  assert.match(none.result.error!.message, /^config\.reward\.rubric_ref: must name the document that holds the rubric/);
});

test("a preference model's scores are what is paid", async () => {
  const { result, steps, asked } = await reinforced(
    { reward: { type: "preference_model", preference_model_ref: "ranker" } },
    (question) =>
      question.of === "preference_model" ? question.answers.map((answer) => (answer.includes("e") ? 4 : -4)) : "",
  );
  assert.equal(result.error, null);
  assert.ok(steps.length >= 2);
  assert.ok(asked.length > 0 && asked.every(({ of }) => of === "preference_model"));
  const [low, high] = [1 / (1 + Math.exp(4)), 1 / (1 + Math.exp(-4))];
  for (const step of steps) assert.ok(rewardIn(step) >= low - 1e-9 && rewardIn(step) <= high + 1e-9);
});

const entry = join(import.meta.dirname, "auto-entry.ts");

test("a run that is killed while it asks goes on with what it was told, and makes the same adapter", async () => {
  const made = async (killAt: number | null) => {
    const folder = await newRunFolder(options);
    claimAutoAlign(folder, {
      request: { target_score: 99, sequencing: ["reinforce"], config: { ...few, ...byJudge() } },
    });
    const asked: string[] = [];
    let child: Child | null = null;
    const executor = createLocalExecutor({
      launch: (at) => {
        child = startNode(entry, [at]);
        return child;
      },
      log: createLog("error", () => {}),
    });
    const start = () =>
      executor.start(folder, {
        afterSeq: 0,
        onEvent: () => {},
        async onAsk(question) {
          if (asked.push(textOf(question)) - 1 === killAt) child!.kill("SIGKILL");
          return judged(question);
        },
      });
    if (killAt !== null) await assert.rejects(start(), { code: "run_crashed" });
    // But for the last ones, whose answers were on their way.
    const before = new Set(asked.slice(0, Math.max(0, asked.length - mostAsked)));
    assert.equal(before.size > 0, killAt !== null);
    const again = asked.length;
    const result = await start();
    assert.equal(result.error, null);
    assert.deepEqual(
      asked.slice(again).filter((text) => before.has(text)),
      [],
    );
    assert.ok(asked.length > again);
    return readFileSync(join(folder, "plan/phase-1/adapter.gguf"));
  };
  const whole = await made(null);
  for (const killAt of [24, 30]) assert.deepEqual(await made(killAt), whole);
});
