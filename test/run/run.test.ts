// The loop of a run over a real folder, with the real trainer on a tiny model.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sha256, sha256OfFile } from "../../src/base/files.ts";
import { tryLock } from "../../src/base/lock.ts";
import { startNode } from "../../src/base/processes.ts";
import { sleep } from "../../src/base/time.ts";
import { featureNames } from "../../src/confidence/features.ts";
import { groundingFeatureNames } from "../../src/confidence/grounding.ts";
import { sourceSpace } from "../../src/confidence/sources.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import { artefactFiles, type RunResult, runEvent, runResult } from "../../src/contract/run-folder.ts";
import { type RunReply, runExit } from "../../src/contract/run-lines.ts";
import { compile } from "../../src/contract/validate.ts";
import type { Generator } from "../../src/engine/generator.ts";
import { readGgufHeader } from "../../src/engine/gguf/header.ts";
import type { Trainer, WeightedRows } from "../../src/engine/train/trainer.ts";
import type { RunParts } from "../../src/run/context.ts";
import { createControl } from "../../src/run/control.ts";
import { readRowTexts } from "../../src/run/folder/rows.ts";
import { askTeacher } from "../../src/run/folder/teacher.ts";
import { runAlignment } from "../../src/run/run.ts";
import { passagesOf, statementsOf } from "../../src/study/passages.ts";
import type { InstalledWriter } from "../../src/study/writers/installed.ts";
import { everyTarget, rowsOf, step, tinyShape } from "../engine/trainer-fixture.ts";
import { documentOf } from "../helpers/study.ts";
import {
  brokenRules,
  claimAgain,
  devItem,
  eventsOf,
  eventually,
  type FolderOptions,
  lossesOf,
  newRunFolder,
  overridden,
  type PartsOptions,
  partsOf,
  tinyModel,
} from "./run-harness.ts";

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(dirname(folder), { recursive: true, force: true });
});

const folderFor = async (options?: FolderOptions): Promise<string> => {
  const folder = await newRunFolder(options);
  folders.push(folder);
  return folder;
};

async function runNew(folder?: FolderOptions, parts: PartsOptions = {}): Promise<[string, RunResult]> {
  const made = await folderFor(folder);
  return [made, await runAlignment(made, partsOf(parts))];
}

const checkpointsOf = (folder: string): number[] =>
  readdirSync(join(folder, "checkpoints"))
    .map(Number)
    .sort((a, b) => a - b);
const artefactOf = (folder: string, name: string) => JSON.parse(readFileSync(join(folder, "artefact", name), "utf8"));

/** A grade that is right on the n-th check (0 = the base's) as often as the script says, 0–2 of the two dev items. */
function scripted(rights: number[]): PartsOptions {
  let graded = 0;
  return {
    over: {
      grade: () => {
        const correct = graded % 2 < (rights[Math.floor(graded / 2)] ?? 0);
        graded++;
        return { correct };
      },
    },
  };
}

/** Losses and adapter of the run that nothing disturbed; every other way to the end must give the same. */
const undisturbed = (async () => {
  const [folder, result] = await runNew();
  assert.equal(result.outcome, "completed", result.error?.message);
  return { folder, result, losses: lossesOf(folder), adapter: result.files[0]!.sha256 };
})();

test("a user is told when passages or answers of a teacher cannot be used", async () => {
  const text = "# Lamps\n\nThe lamp called Orla weighs 3 kg.\n\n# Boats\n\nThe boat called Vigo carries 7 people.\n";
  const documents = [documentOf(text, "text/markdown", "things.md")];
  const folder = await folderFor({ documents, teacher: { model: "teacher", provider: null } });
  const asks = ["3 kg", "a feather's weight"].map((answer) => ({ answer, questions: ["How heavy is Orla?"] }));
  const say = async (prompt: string): Promise<string> =>
    prompt.includes("\n---\nThe lamp called Orla")
      ? asks.map((ask) => JSON.stringify(ask)).join("\n")
      : "I know no questions about boats.";
  await askTeacher(folder, passagesOf(documents), { say, together: 1 });
  const result = await runAlignment(folder, partsOf({}));
  assert.equal(result.outcome, "completed", result.error?.message);
  const told = eventsOf(folder).find(({ code }) => code === "teacher_unread");
  // The fact of Orla's weight is in both replies about lamps, of which the second is the same as the first.
  assert.deepEqual(told?.parameters, { silent: 1, passages: 2, unfounded: 2, all: 3 });
  assert.ok(!eventsOf(folder).some(({ code }) => code === "teacher_unasked"));
  assert.deepEqual(artefactOf(folder, "report.json").rows.teacher, {
    passages: 2,
    unasked: 0,
    silent: 1,
    facts: 1,
    unfounded: 2,
  });
});

test("what helps questions that were trained in other words is a teacher, and more wordings where there is one", async () => {
  const documents = [documentOf("# Lamps\n\nThe lamp called Orla weighs 3 kg.\n", "text/markdown", "things.md")];
  const say = async (): Promise<string> => JSON.stringify({ answer: "3 kg", questions: ["How heavy is Orla?"] });
  for (const [teacher, help] of [
    [null, /^1 missed questions were trained in other words\. .* A teacher helps most/],
    [{ model: "teacher", provider: null }, /^1 missed questions were trained in other words\. More wordings/],
  ] as const) {
    const folder = await folderFor({
      ...{ documents, teacher, dev: [devItem(1, "What would Orla do to a pair of scales?", "3 kg")] },
      recipe: (recipe) => ({ ...recipe, training: { ...recipe.training, max_steps: 1 } }),
    });
    if (teacher !== null) await askTeacher(folder, passagesOf(documents), { say, together: 1 });
    const result = await runAlignment(folder, partsOf({}));
    assert.equal(result.outcome, "completed", result.error?.message);
    assert.match(artefactOf(folder, "report.json").help[0], help);
  }
});

test("a user is told of passages that a teacher was never asked about", async () => {
  const text = "# Lamps\n\nThe lamp called Orla weighs 3 kg.\n\n# Boats\n\nThe boat called Vigo carries 7 people.\n";
  const documents = [documentOf(text, "text/markdown", "things.md")];
  const folder = await folderFor({ documents, teacher: { model: "teacher", provider: null } });
  const ask = JSON.stringify({ answer: "3 kg", questions: ["How heavy is Orla?"] });
  await askTeacher(folder, passagesOf(documents).slice(0, 1), { say: async () => ask, together: 1 });
  const result = await runAlignment(folder, partsOf({}));
  assert.equal(result.outcome, "completed", result.error?.message);
  const told = eventsOf(folder).find(({ code }) => code === "teacher_unasked");
  assert.deepEqual(told?.parameters, { unasked: 1, passages: 2 });
});

test("a run goes from documents to a verified artefact, and its folder keeps the contract", async () => {
  const { folder, result, losses } = await undisturbed;
  assert.equal(losses.size, 12);
  assert.ok(compile(runResult)(result).ok);
  const checkEvent = compile(runEvent);
  const events = eventsOf(folder);
  for (const event of events) assert.ok(checkEvent(event).ok, JSON.stringify(event));
  assert.deepEqual(
    events.filter((event) => event.kind === "check").map((event) => event.step),
    [0, 4, 8, 12],
  );
  assert.equal(events.at(-1)?.kind, "done");
  const last = events.findLast((event) => event.kind === "progress" && event.phase === "training")!;
  assert.deepEqual([last.done, last.total, last.unit, last.seconds_left], [12, 12, "steps", 0]);
  for (const file of result.files) assert.equal(await sha256OfFile(join(folder, "artefact", file.name)), file.sha256);
  assert.deepEqual(brokenRules(folder), []);

  const report = artefactOf(folder, "report.json");
  assert.equal(report.rows.overlap, 0);
  assert.equal(report.training.losses.length, 12);
  assert.ok(report.training.losses.at(-1) < report.training.losses[0], "the loss falls");
  assert.equal(report.recipe.optimizer.learning_rate, 0.01);
  assert.equal(artefactOf(folder, "calibration.json").identity.adapter_sha256, result.files[0]?.sha256);
  assert.equal((await readRowTexts(folder)).length, report.rows.rows);

  const [{ id, text }] = JSON.parse(`[${readFileSync(join(folder, "snapshot/documents/0.json"), "utf8")}]`);
  const [source, ...others] = sourceSpace(artefactOf(folder, "sources.json")).of(
    "How heavy is the lamp Ember?",
    "7 kg",
  );
  assert.deepEqual([source!.document, source!.grounding, others], [id, 1, []]);
  assert.match(text.slice(source!.start, source!.end), /\| Ember \| 14 euros \| 7 kg \|/);
  assert.equal(result.metrics.rows, report.rows.rows);
});

test("the adapter says what it was made from, as GGUF and as PEFT folder", async () => {
  const { folder, result } = await undisturbed;
  assert.deepEqual(
    result.files.map((file) => file.name),
    [...artefactFiles],
  );
  const request = JSON.parse(readFileSync(join(folder, "request.json"), "utf8"));
  const { values } = readGgufHeader(join(folder, "artefact/adapter.gguf"));
  const said = new Map([...values].filter(([key]) => key.startsWith("plumbline.")));
  assert.equal(said.get("plumbline.base_sha256"), await sha256OfFile(request.base.path));
  const ids = await Promise.all(["rows.bin", "dev.json"].map((name) => sha256OfFile(join(folder, "prepared", name))));
  assert.equal(said.get("plumbline.rows_sha256"), sha256(ids.join()));
  assert.equal(said.get("plumbline.alignment_id"), request.alignment_id);
  assert.equal(said.get("plumbline.version"), request.versions.plumbline);
  assert.equal(said.get("plumbline.step"), String(result.chosen_step));
  assert.match(String(said.get("plumbline.request_sha256")), /^[0-9a-f]{64}$/);

  const saved = readFileSync(join(folder, "artefact/peft/adapter_model.safetensors"));
  const header = JSON.parse(saved.toString("utf8", 8, 8 + Number(saved.readBigUInt64LE())));
  assert.deepEqual(header.__metadata__, { format: "pt", ...Object.fromEntries(said) });
  assert.equal(Object.keys(header).length, 1 + 2 * 2 * everyTarget.length);
});

test("a run that has its result does no more, and a new claim is told the same", async () => {
  const { folder, result } = await undisturbed;
  const events = eventsOf(folder).length;
  const never = { over: { startTrainer: () => assert.fail("nothing is left to do") } };
  assert.deepEqual(await runAlignment(folder, partsOf(never)), result);
  await claimAgain(folder, 2);
  assert.deepEqual(await runAlignment(folder, partsOf(never)), { ...result, fence: 2 });
  assert.equal(eventsOf(folder).length, events);
});

/** Lets the trainer die at an optimizer step, counted from 1. */
function dyingAt(step: number): (trainer: Trainer) => Trainer {
  let steps = 0;
  return (trainer) =>
    overridden(trainer, {
      optimStep: (...args) => {
        if (++steps === step) void trainer.close(0);
        return trainer.optimStep(...args);
      },
    });
}

test("a run whose trainer dies fails with why, and under a new claim goes on to the very same end", async () => {
  const { losses, adapter } = await undisturbed;
  for (const step of [1, 7, 12]) {
    const folder = await folderFor();
    const failed = await runAlignment(folder, partsOf({ wrap: dyingAt(step) }));
    assert.equal(failed.outcome, "failed");
    assert.equal(failed.error?.code, "trainer_died");
    await claimAgain(folder, 2);
    const result = await runAlignment(folder, partsOf());
    assert.equal(result.outcome, "completed");
    assert.deepEqual(lossesOf(folder), losses);
    assert.equal(result.files[0]?.sha256, adapter);
    const resumed = eventsOf(folder).find((event) => event.kind === "resumed")!;
    assert.equal(resumed.fence, 2);
    assert.deepEqual(brokenRules(folder), []);
  }
});

test("a killed run goes on bit for bit", async () => {
  const { losses, adapter } = await undisturbed;
  const folder = await folderFor();
  const start = () => startNode(join(import.meta.dirname, "run-entry.ts"), [folder]);
  for (const kind of ["step", "checkpoint"]) {
    const child = start();
    const before = eventsOf(folder).length;
    const has = () =>
      eventsOf(folder)
        .slice(before)
        .some((event) => event.kind === kind);
    await eventually(has, kind);
    child.kill("SIGKILL");
    assert.equal((await child.ended).signal, "SIGKILL");
  }
  const child = start();
  assert.equal((await child.ended).code, 0);
  assert.deepEqual(lossesOf(folder), losses);
  assert.equal(await sha256OfFile(join(folder, "artefact/adapter.gguf")), adapter);
  assert.deepEqual(brokenRules(folder), []);
});

test("as a process it says by its exit status that a folder is held, or is none, and ends with its standard input", async () => {
  const verb = join(import.meta.dirname, "../../src/cli/main.ts");
  const folder = await folderFor();
  const none = startNode(verb, ["run", join(folder, "snapshot")]);
  assert.equal((await none.ended).code, runExit.invalid);
  const lock = tryLock(join(folder, "lock"))!;
  const locked = startNode(verb, ["run", folder]);
  assert.equal((await locked.ended).code, runExit.locked);
  lock.release();
  const orphan = startNode(join(import.meta.dirname, "run-entry.ts"), [folder]);
  await eventually(() => eventsOf(folder).length > 0, "the first event");
  orphan.stdin.end();
  assert.equal((await orphan.ended).signal, "SIGKILL");
  assert.equal(existsSync(join(folder, "result.json")), false);
});

test("a stop that was sent before the process began is obeyed", async () => {
  const folder = await folderFor();
  const early = startNode(join(import.meta.dirname, "run-entry.ts"), [folder]);
  early.stdin.write('{"seq":1,"command":"stop"}\n');
  let said = "";
  early.stdout.on("data", (part: Buffer) => {
    said += part.toString("utf8");
  });
  assert.equal((await early.ended).code, runExit.stopped);
  assert.match(said, /"ack","seq":1/);
});

test("a damaged checkpoint is passed over for the one before it", async () => {
  const { losses, adapter } = await undisturbed;
  let steps = 0;
  const folder = await folderFor();
  const dying: PartsOptions = {
    wrap: (trainer) =>
      overridden(trainer, {
        optimStep: (...args) => (++steps === 10 ? Promise.reject(new Error("lost")) : trainer.optimStep(...args)),
      }),
  };
  assert.equal((await runAlignment(folder, partsOf(dying))).outcome, "failed");
  const newest = checkpointsOf(folder).at(-1)!;
  const files = join(folder, "checkpoints", String(newest), "trainer");
  writeFileSync(join(files, readdirSync(files)[0]!), "damage");
  await claimAgain(folder, 2);
  assert.equal((await runAlignment(folder, partsOf())).files[0]?.sha256, adapter);
  assert.deepEqual(lossesOf(folder), losses);
  assert.ok(eventsOf(folder).some((event) => event.code === "checkpoint_damaged"));
  const resumed = eventsOf(folder).find((event) => event.kind === "resumed")!;
  assert.ok(resumed.from_step! < newest);
});

test("the best checkpoint is kept and chosen, the later one of two equals", async () => {
  const [folder, result] = await runNew(undefined, scripted([0, 2, 1, 1, 2]));
  assert.equal(result.chosen_step, 4);
  assert.equal(result.metrics.dev_score, 100);
  assert.equal(result.metrics.base_dev_score, 0);
  assert.deepEqual(checkpointsOf(folder), [4, 9, 12]);
  const [, equal] = await runNew(undefined, scripted([0, 1, 0, 1, 1]));
  assert.equal(equal.chosen_step, 12);
});

test("training stops once checks have brought nothing new for so long", async () => {
  const patient: FolderOptions = {
    recipe: (recipe) => ({
      ...recipe,
      training: { ...recipe.training, early_stopping: { enabled: true, metric: "score", patience: 2 } },
      evaluation: { eval_every_steps: 2 },
    }),
  };
  const [folder, result] = await runNew(patient, scripted([0, 1, 1, 1]));
  assert.equal(lossesOf(folder).size, 6);
  assert.equal(result.chosen_step, 6);
  assert.equal(artefactOf(folder, "report.json").training.ended, "patience");
});

test("without a benchmark the last step is chosen, and the prior says that it is one", async () => {
  const [folder, result] = await runNew({ dev: null });
  assert.equal(result.chosen_step, 12);
  assert.equal(result.metrics.dev_score, null);
  assert.ok(!eventsOf(folder).some((event) => event.kind === "check"));
  const calibration = artefactOf(folder, "calibration.json");
  assert.equal(calibration.calibrated, false);
  assert.match(calibration.reason, /No benchmark/);
});

test("with an encoder the calibration hears what the documents say for the answers to the dev questions", async () => {
  // Of the answers every second is right and stands in the documents; the others stand nowhere. Their tokens are all alike.
  const items = Array.from({ length: 120 }, (_, at) => devItem(at + 1, `How heavy is the lamp number ${at}?`, "7 kg"));
  const few = (recipe: Recipe): Recipe => ({ ...recipe, training: { ...recipe.training, max_steps: 2 } });
  const folder = await folderFor({ dev: items, recipe: few });
  const path = import.meta.filename;
  await claimAgain(folder, 1, { path, sha256: await sha256OfFile(path) });
  const parts = partsOf();
  const top = { tokens: Int32Array.of(1, 2), logits: Float32Array.of(1, 0) };
  const openGenerator = async (): Promise<Generator> => ({
    ...(await parts.openGenerator()),
    embed: async (_, texts) =>
      texts.map((text) => ({ vector: Float32Array.of(1, text.length / 100), tokens: 1, truncated: 0 })),
    evaluate: async ({ prompts, onItem }) => {
      const step = { token: 1, logprob: -0.5, top };
      for (const index of prompts.keys()) {
        const text = index % 2 === 0 ? "It is 7 kg." : "It is 9 stones.";
        onItem(index, { text, tokens: [1], steps: [step], finishReason: "stop", seconds: 0 });
      }
    },
  });
  const result = await runAlignment(folder, { ...parts, openGenerator });
  assert.equal(result.outcome, "completed", result.error?.message);
  const { format, calibrated, model, grounding, statistics } = artefactOf(folder, "calibration.json");
  assert.deepEqual([format, calibrated, statistics.n, statistics.auroc], [4, true, 120, 1]);
  assert.deepEqual(model.features, [...featureNames.slice(0, 6), ...groundingFeatureNames]);
  const document = JSON.parse(readFileSync(join(folder, "snapshot/documents/0.json"), "utf8"));
  assert.equal(grounding.words.length, statementsOf([document]).length);
  assert.deepEqual(artefactOf(folder, "report.json").confidence.features, model.features);
});

test("an adapter that does not serve as it was trained is never an artefact", async () => {
  const [folder, result] = await runNew(undefined, { off: 0.01 });
  assert.equal(result.error?.code, "adapter_unfaithful");
  assert.equal(existsSync(join(folder, "artefact")), false);
});

test("a loss that is not finite fails the run and keeps its checkpoints", async () => {
  let passes = 0;
  const broken: PartsOptions = {
    wrap: (trainer) =>
      overridden(trainer, {
        forwardBackward: async (...args) => {
          const answer = await trainer.forwardBackward(...args);
          return ++passes === 8 ? { ...answer, loss: Number.NaN } : answer;
        },
      }),
  };
  const [folder, result] = await runNew(undefined, broken);
  assert.equal(result.error?.code, "run_failed");
  assert.match(result.error!.message, /step 8/);
  assert.ok(checkpointsOf(folder).includes(6));
});

const boats = (count: number): string =>
  Array.from(
    { length: count },
    (_, at) => `Boat B${at} was built in yard Y${at} and carries ${at + 30} crates of nuts.`,
  ).join("\n\n");

/** Everything that a recipe can ask for, small: rungs, replay with the base's targets, guards that give way, repair, scales. */
const whole: FolderOptions = {
  recipe: (recipe) => ({
    ...recipe,
    training: { ...recipe.training, max_steps: null, epochs: 1 },
    adapter: { ...recipe.adapter, scales: [1, 0.5, 0.25] },
    dataset: {
      phrasings: 2,
      rungs: 2,
      replay_share: 0.2,
      replay_top_k: 8,
      replay_tokens: 6,
    },
    guards: { retained_items: 4, max_loss: 1, max_kl: 0, max_perplexity_rise: 0 },
    repair: { steps: 6, check_every_steps: 4, prompts: 3, tokens: 5, top_k: 8, rows: 2, lr_factor: 0.5 },
  }),
};

test("stop ends a run in every phase, and comes too late once the artefact stands", async () => {
  const replies: RunReply[] = [];
  const stopping = async (phase: string): Promise<[string, RunResult]> => {
    const control = createControl((reply) => replies.push(reply));
    const folder = await folderFor(phase === "repairing" ? whole : undefined);
    const clock = partsOf().clock;
    const watching = {
      ...clock,
      // The clock is read for every event: a place from which to look at the log.
      now: () => {
        const last = eventsOf(folder).at(-1);
        if (last?.phase === phase) control.handle('{"seq":1,"command":"stop"}');
        return clock.now();
      },
    };
    return [folder, await runAlignment(folder, partsOf({ over: { control, clock: watching } }))];
  };
  for (const phase of ["preparing", "training", "checking", "repairing", "packaging"]) {
    const [folder, result] = await stopping(phase);
    assert.equal(result.outcome, "stopped", phase);
    assert.equal(eventsOf(folder).at(-1)?.kind, "stopped");
    assert.deepEqual(brokenRules(folder), []);
    assert.ok(replies.every((reply) => reply.kind === "ack"));
  }
  replies.length = 0;
  const control = createControl((reply) => replies.push(reply));
  const folder = await folderFor();
  const clock = partsOf().clock;
  const late = {
    ...clock,
    now: () => {
      if (existsSync(join(folder, "artefact"))) control.handle('{"seq":1,"command":"stop"}');
      return clock.now();
    },
  };
  assert.equal((await runAlignment(folder, partsOf({ over: { control, clock: late } }))).outcome, "completed");
  assert.ok(replies.length > 0);
  assert.ok(replies.every((reply) => reply.kind === "refused"));
});

test("a paused run takes no step until it is resumed", async () => {
  const control = createControl(() => {});
  control.handle('{"seq":1,"command":"pause"}');
  const folder = await folderFor();
  const running = runAlignment(folder, partsOf({ over: { control } }));
  const kinds = (): string[] => eventsOf(folder).map((event) => event.kind);
  await eventually(() => kinds().includes("paused"), "the pause");
  await sleep(200);
  assert.ok(!kinds().includes("step"));
  control.handle('{"seq":2,"command":"resume"}');
  assert.equal((await running).outcome, "completed");
  assert.ok(kinds().includes("continued"));
});

test("a folder that is not what its request says is refused before anything is written", async () => {
  const cases: [string, string, RegExp][] = [
    ["snapshot/documents/0.json", "{}", /documents\/0.json: does not match the snapshot/],
    ["snapshot/dev.jsonl", "", /dev.jsonl: does not match the snapshot/],
    ["request.json", "{}", /request.json: format field required/],
  ];
  for (const [name, content, words] of cases) {
    const folder = await folderFor();
    writeFileSync(join(folder, name), content);
    await assert.rejects(
      runAlignment(folder, partsOf()),
      (error) => error instanceof Failure && error.code === "run_folder_invalid" && words.test(error.message),
    );
    assert.equal(existsSync(join(folder, "events.jsonl")), false);
  }
});

test("rows that give a dev question away, or are too long, are dropped and counted", async () => {
  const asked = (await readRowTexts((await undisturbed).folder))[0]!.messages[0]!.content;
  const [folder] = await runNew({ dev: [devItem(1, asked, "7 kg")] });
  const { rows } = artefactOf(folder, "report.json");
  assert.ok(rows.overlap_dropped > 0);
  assert.equal(rows.overlap, 0);
  const page = readFileSync(join(folder, "artefact/report.html"), "utf8");
  assert.ok(page.includes(`The ${rows.overlap_dropped} rows with them were left out.`));
  assert.ok(!(await readRowTexts(folder)).some((row) => row.messages[0]!.content === asked));

  const short = await runNew({
    recipe: (recipe) => ({ ...recipe, rendering: { max_seq_len: 16, packing: true } }),
  });
  assert.equal(short[1].error?.code, "no_training_rows");
});

test("a question of the benchmark that the document itself asks loses its fact only if no row about the answer is left", async () => {
  const question = "How heavy is the lamp called Orla?";
  const lostOf = async (answer: string): Promise<[lost: number, isTold: boolean]> => {
    const [folder, result] = await runNew({
      documents: [
        documentOf(`# Lamps\n\n${question} ${answer}\n\n# Boats\n\nThe boat called Vigo carries 7 people.\n`),
      ],
      dev: [devItem(1, question, "3 kg")],
      recipe: (recipe) => ({ ...recipe, training: { ...recipe.training, max_steps: 1 } }),
    });
    assert.equal(result.outcome, "completed", result.error?.message);
    const { overlap_questions, overlap_lost, overlap } = artefactOf(folder, "report.json").rows;
    assert.deepEqual([overlap_questions, overlap], [1, 0]);
    return [overlap_lost, eventsOf(folder).some(({ code }) => code === "facts_dropped")];
  };
  assert.deepEqual(await lostOf("The lamp weighs 3 kg without its cord."), [0, false]);
  // This answer states too little to be asked for alone.
  assert.deepEqual(await lostOf("Very heavy."), [1, true]);
});

test("documents that say nothing give no rows, and the run says so", async () => {
  const [, result] = await runNew({ documents: [documentOf(" \n\n", "text/plain", "empty.txt")] });
  assert.equal(result.error?.code, "no_training_rows");
});

/** Right on no question to the base, and on all once trained: the first rung gains, the second does not. */
const learning = (): NonNullable<PartsOptions["over"]> => ({ grade: (answer) => ({ correct: answer.length % 3 > 0 }) });

/** A report without what a clock or a process id decides. */
function lasting(folder: string): unknown {
  const { cost: _, ...report } = artefactOf(folder, "report.json");
  return report;
}

test("a whole recipe goes through rungs, guards, repair and scales, and its report says what was chosen and why", async () => {
  const [folder, result] = await runNew(whole, { over: learning() });
  assert.equal(result.outcome, "completed", result.error?.message);
  const report = artefactOf(folder, "report.json");
  const { candidates, chosen_scale, chosen_step, repaired_steps } = report.training;
  // No drift at all is allowed, which no pace reaches: its first check ends it.
  assert.equal(repaired_steps, 4);
  assert.deepEqual(
    candidates.map((one: { repaired: boolean; scale: number }) => one.scale),
    [1, 1, 0.5, 0.25],
  );
  assert.deepEqual(candidates.map((one: { repaired: boolean }) => one.repaired).slice(0, 2), [false, true]);
  const worth = (one: { dev: number; penalty: number }): number => one.dev - one.penalty;
  const best = Math.max(...candidates.map(worth));
  const chosen = candidates.find(
    (one: { step: number; scale: number }) => one.step === chosen_step && one.scale === chosen_scale,
  );
  assert.equal(worth(chosen), best);
  assert.ok(chosen.penalty > 0);
  assert.match(
    report.help.join(" "),
    /than the recipe allows, despite repair and smaller scales.* a larger weight_decay preserves more of them/,
  );
  // A smaller scale is nearer to the base.
  const scaled = candidates.slice(-2).map((one: { guards: { drift: { kl: number } } }) => one.guards.drift.kl);
  assert.ok(scaled[1] < scaled[0] && scaled[1] > 0, String(scaled));
  const header = readGgufHeader(join(folder, "artefact/adapter.gguf"));
  assert.equal(header.values.get("adapter.lora.alpha"), 8 * chosen_scale);
  assert.equal(
    JSON.parse(readFileSync(join(folder, "artefact/peft/adapter_config.json"), "utf8")).lora_alpha,
    8 * chosen_scale,
  );
  assert.ok(report.rows.by_kind.replay > 0 && report.rows.by_kind.prose > 0);
  const rows = readFileSync(join(folder, "prepared/rows.jsonl"), "utf8").trim().split("\n");
  for (const rung of [0, 1]) {
    const kinds = rows.map((row) => JSON.parse(row)).flatMap((row) => (row.rung === rung ? [row.kind] : []));
    const replayed = kinds.filter((kind) => kind === "replay" || kind === "prose").length;
    assert.equal(replayed, Math.round((kinds.length - replayed) / 4), "a fifth of each rung is replayed");
  }
  const rates = eventsOf(folder).flatMap((event) =>
    event.kind === "step" && event.phase === "training" ? [Number(event.metrics!.learning_rate)] : [],
  );
  const falling = rates.slice(rates.indexOf(Math.max(...rates)));
  assert.deepEqual(
    falling,
    falling.toSorted((a, b) => b - a),
    "one curve over both rungs",
  );
  const page = readFileSync(join(folder, "artefact/report.html"), "utf8");
  // Whether it was worth it comes first, wherever one looks.
  assert.deepEqual(Object.keys(report).slice(0, 2), ["format", "verdict"]);
  assert.deepEqual(result.verdict, report.verdict);
  assert.ok(eventsOf(folder).at(-1)!.message!.startsWith(report.verdict.headline));
  assert.ok(page.indexOf(report.verdict.headline) < page.indexOf("What was learned"));
  assert.match(page, /What was learned.*What was lost.*What it cost.*What would help most/s);
  assert.ok(!/<script|https?:|src=/i.test(page), "nothing runs and nothing comes from elsewhere");
  assert.deepEqual(brokenRules(folder), []);
});

test("with sequence_mean every row of the documents weighs alike, however long its answer is", async () => {
  const passes: WeightedRows[] = [];
  const wrap = (trainer: Trainer): Trainer =>
    overridden(trainer, {
      forwardBackward: (adapter, rows) => {
        passes.push(rows);
        return trainer.forwardBackward(adapter, rows);
      },
    });
  const weightsOf = async (token_reduction: "mean" | "sequence_mean"): Promise<number[][]> => {
    passes.length = 0;
    const options: FolderOptions = {
      recipe: (recipe) => ({
        ...recipe,
        loss: { type: "cross_entropy", token_reduction },
        training: { ...recipe.training, max_steps: 3 },
      }),
    };
    await runNew(options, { wrap });
    return passes.map(({ rowLengths, weights }) => {
      let at = 0;
      return [...rowLengths].map((length) => {
        at += length;
        return weights.subarray(at - length, at).reduce((sum, one) => sum + one, 0);
      });
    });
  };
  const spread = (sums: readonly number[]): number => Math.max(...sums) / Math.min(...sums);
  const [byToken, byRow] = [await weightsOf("mean"), await weightsOf("sequence_mean")];
  assert.ok(byToken.length >= 3 && byToken.some((sums) => spread(sums) > 1.5));
  for (const sums of byRow) assert.ok(spread(sums) < 1 + 1e-5, String(sums));
});

test("without a benchmark, a run that dies during or after its repair goes on to the same choice", async () => {
  const alone: FolderOptions = { ...whole, dev: null };
  const [undisturbed, result] = await runNew(alone);
  assert.equal(result.outcome, "completed", result.error?.message);
  const { steps, repaired_steps } = artefactOf(undisturbed, "report.json").training;
  assert.ok(repaired_steps > 3);
  /** Dies at the repair's last step, by when it has a checkpoint, or when the adapter is exported. */
  const dying: ((trainer: Trainer) => Trainer)[] = [
    dyingAt(steps),
    (trainer) => overridden(trainer, { exportGguf: () => Promise.reject(new Error("lost")) }),
  ];
  for (const wrap of dying) {
    const folder = await folderFor(alone);
    assert.equal((await runAlignment(folder, partsOf({ wrap }))).outcome, "failed");
    assert.ok(Math.max(...checkpointsOf(folder)) > steps - repaired_steps);
    await claimAgain(folder, 2);
    const again = await runAlignment(folder, partsOf());
    assert.equal(again.outcome, "completed", again.error?.message);
    assert.deepEqual(lossesOf(folder), lossesOf(undisturbed));
    assert.deepEqual(lasting(folder), lasting(undisturbed));
    assert.equal(again.files[0]?.sha256, result.files[0]?.sha256);
  }
});

test("a repair ends when a check finds the drift back within its limits", async () => {
  // What the suites say counts for nothing here, and the limit of drift is a hair below what training leaves.
  const limited = (max_kl: number): FolderOptions => ({
    ...whole,
    recipe: (recipe) => ({
      ...whole.recipe!(recipe),
      guards: { retained_items: 4, max_loss: 100, max_kl, max_perplexity_rise: 1e6 },
      repair: { steps: 40, check_every_steps: 10, prompts: 8, tokens: 8, top_k: 8, rows: 0, lr_factor: 1 },
    }),
  });
  const [free] = await runNew(limited(1e6), { over: learning() });
  const { kl } = artefactOf(free, "report.json").training.candidates[0].guards.drift;
  const [folder] = await runNew(limited(kl * 0.99), { over: learning() });
  const { candidates, repaired_steps } = artefactOf(folder, "report.json").training;
  // It ends at 95 % of the limit (choose.ts).
  assert.ok(candidates[1].repaired && candidates[1].guards.drift.kl <= 0.95 * 0.99 * kl, JSON.stringify(candidates[1]));
  assert.ok(repaired_steps === 10 || repaired_steps === 20 || repaired_steps === 30, String(repaired_steps));
});

test("a repair ends where its pace would not bring the drift back in time", async () => {
  const limited: FolderOptions = {
    ...whole,
    recipe: (recipe) => ({
      ...whole.recipe!(recipe),
      // Nothing but the base itself is within this limit, and the rate is too low to come near it.
      guards: { retained_items: 4, max_loss: 100, max_kl: 1e-9, max_perplexity_rise: 1e6 },
      repair: { steps: 40, check_every_steps: 10, prompts: 8, tokens: 8, top_k: 8, rows: 0, lr_factor: 0.001 },
    }),
  };
  const [folder] = await runNew(limited, { over: learning() });
  const { candidates, repaired_steps } = artefactOf(folder, "report.json").training;
  assert.equal(repaired_steps, 10);
  assert.ok(candidates[1].repaired && candidates[1].guards.drift.kl > 1e-9);
  assert.ok(
    eventsOf(folder).some(({ message }) => /more steps would not bring it back within its limits/.test(message ?? "")),
  );
});

test("a run that lost too much is told of the repair that it did not have", async () => {
  const [folder] = await runNew({
    recipe: (recipe) => ({
      ...recipe,
      adapter: { ...recipe.adapter, scales: [1] },
      guards: { retained_items: 4, max_loss: 100, max_kl: 0, max_perplexity_rise: 1e6 },
    }),
  });
  const help = artefactOf(folder, "report.json").help.join(" ");
  assert.match(help, /than the recipe allows\. .* or a repair \(preset standard or thorough\) preserves more of them/);
});

test("drift is measured on as many paragraphs as the recipe says, or on all", async () => {
  const tokensOf = async (limits: object): Promise<number> => {
    const [folder] = await runNew({
      recipe: (recipe) => ({
        ...recipe,
        training: { ...recipe.training, max_steps: 1 },
        guards: { retained_items: 4, max_loss: 100, max_kl: 1e6, max_perplexity_rise: 1e6, ...limits },
      }),
    });
    return artefactOf(folder, "report.json").training.candidates[0].guards.drift.tokens;
  };
  const [all, one] = [await tokensOf({}), await tokensOf({ prose_paragraphs: 1 })];
  assert.ok(one > 0 && one < all, `${one} of ${all}`);
});

/** A writer for the tiny model: an adapter that its trainer made, moved off the base by a few steps on made-up tokens. */
async function madeWriter(): Promise<InstalledWriter> {
  const folder = mkdtempSync(join(tmpdir(), "writer-"));
  folders.push(join(folder, "it"));
  const trainer = partsOf().startTrainer();
  try {
    await trainer.open({ path: tinyModel, threads: 1, memoryBytes: 0 });
    await trainer.createAdapter("writer", tinyShape);
    for (let at = 0; at < 4; at++) {
      await trainer.forwardBackward("writer", rowsOf([24, 24], at));
      await trainer.optimStep("writer", step(0.03));
    }
    const path = join(folder, "adapter.gguf");
    await trainer.exportGguf("writer", path, {});
    const base = { sha256: await sha256OfFile(tinyModel) };
    return { path, sha256: await sha256OfFile(path), base, shape: tinyShape, languages: ["en"] };
  } finally {
    await trainer.close();
  }
}

test("the shipped writer is loaded for its own base; a run killed while it is asked asks the rest, and makes the same rows", async () => {
  const writer = await madeWriter();
  // Enough passages that models are asked in several calls: the kill falls between two of them.
  const options: FolderOptions = {
    documents: [documentOf(`# Boats\n\n${boats(400)}\n`, "text/markdown", "boats.md")],
    recipe: (recipe) => ({ ...recipe, training: { ...recipe.training, max_steps: 1 } }),
  };
  const prepared = (folder: string): string[] =>
    ["rows.jsonl", "rows.bin"].map((name) => sha256(readFileSync(join(folder, "prepared", name))));
  /** Runs it to its end; how often models were asked while rows were made. */
  const asking = async (folder: string, own: InstalledWriter | null): Promise<number> => {
    let asked = 0;
    const count = (): void => {
      if (eventsOf(folder).at(-1)?.phase === "preparing") asked++;
    };
    const wrap = (trainer: Trainer): Trainer =>
      overridden(trainer, {
        sample: (...args) => {
          count();
          return trainer.sample(...args);
        },
        score: (...args) => {
          count();
          return trainer.score(...args);
        },
      });
    const result = await runAlignment(folder, partsOf({ wrap, over: { writer: () => own } }));
    assert.equal(result.outcome, "completed", result.error?.message);
    return asked;
  };
  const undisturbed = await folderFor(options);
  const all = await asking(undisturbed, writer);
  const { study } = artefactOf(undisturbed, "report.json").rows;
  assert.equal(study.writer.name, "shipped");
  assert.ok(study.writer.probe.questions > 0 && study.writer.gates[0].in > 0, JSON.stringify(study.writer));

  const folder = await folderFor(options);
  const file = join(dirname(writer.path), "writer.json");
  writeFileSync(file, JSON.stringify(writer));
  const child = startNode(join(import.meta.dirname, "run-entry.ts"), [folder, file]);
  const answers = join(folder, "answers.jsonl");
  const known = (): number => (existsSync(answers) ? readFileSync(answers, "utf8").split("\n").length - 1 : 0);
  await eventually(() => known() >= 3, "three answers");
  child.kill("SIGKILL");
  await child.ended;
  const before = known();
  assert.ok(before < all, `${before} of ${all}`);
  await claimAgain(folder, 2);
  assert.equal(await asking(folder, writer), all - before);
  assert.deepEqual(prepared(folder), prepared(undisturbed));
  assert.deepEqual(brokenRules(folder), []);

  // For another base it is worth nothing, and is not asked.
  const other = await folderFor(options);
  await asking(other, { ...writer, base: { sha256: sha256("another") } });
  const { name, used } = artefactOf(other, "report.json").rows.study.writer;
  assert.deepEqual([name, used], ["self", false]);
});

test("a damaged writer fails the run that it would write for, and no other", async () => {
  const endOf = async (enabled: boolean): Promise<string> => {
    const folder = await folderFor({
      recipe: (recipe) => ({
        ...recipe,
        dataset: { ...recipe.dataset, synthetic: { ...recipe.dataset.synthetic, enabled } },
      }),
    });
    const writer = (): never => {
      throw new Failure("installation_damaged");
    };
    const { outcome, error } = await runAlignment(folder, partsOf({ over: { writer } }));
    return error?.code ?? outcome;
  };
  assert.equal(await endOf(true), "installation_damaged");
  assert.equal(await endOf(false), "completed");
});

test("a run starts from the warm start and says so; one whose trainer dies before the first checkpoint does the same again", async () => {
  const { losses: cold } = await undisturbed;
  const shipped = await madeWriter();
  const over: Partial<RunParts> = { warmStart: () => shipped };
  const whole = await folderFor();
  const result = await runAlignment(whole, partsOf({ over }));
  assert.equal(result.outcome, "completed", result.error?.message);
  const losses = lossesOf(whole);
  assert.notEqual(losses.get(1), cold.get(1));
  assert.equal(eventsOf(whole).filter(({ message }) => /shipped warm start/.test(message ?? "")).length, 1);
  assert.equal(artefactOf(whole, "report.json").training.warm_start, shipped.sha256);
  const { values } = readGgufHeader(join(whole, "artefact/adapter.gguf"));
  assert.equal(values.get("plumbline.warm_start_sha256"), shipped.sha256);
  assert.deepEqual(brokenRules(whole), []);

  // The first checkpoint comes after three steps; later ones are of a process that did not load the warm start.
  for (const step of [2, 7]) {
    const folder = await folderFor();
    assert.equal((await runAlignment(folder, partsOf({ wrap: dyingAt(step), over }))).error?.code, "trainer_died");
    await claimAgain(folder, 2);
    const again = await runAlignment(folder, partsOf({ over }));
    assert.deepEqual(lossesOf(folder), losses);
    assert.equal(again.files[0]?.sha256, result.files[0]?.sha256);
    assert.equal(artefactOf(folder, "report.json").training.warm_start, shipped.sha256);
  }
  const [without] = await runNew({
    recipe: (recipe) => ({ ...recipe, adapter: { ...recipe.adapter, warm_start: false } }),
  });
  assert.deepEqual(lossesOf(without), cold);
  assert.equal(artefactOf(without, "report.json").training.warm_start, null);
});

test("a stage without rows is skipped, as those after the first where a document is only recalled as a whole", async () => {
  const [folder, result] = await runNew({
    documents: [documentOf("# Lamps\n\nPlease pay cash.\n", "text/markdown", "lamps.md")],
    dev: null,
    recipe: (recipe) => ({
      ...recipe,
      training: { ...recipe.training, max_steps: null, epochs: 1 },
      dataset: { phrasings: 4, rungs: 6, replay_share: 0 },
    }),
  });
  assert.equal(result.outcome, "completed", result.error?.message);
  const stages = readFileSync(join(folder, "prepared", "rows.jsonl"), "utf8")
    .split("\n")
    .flatMap((line) => (line === "" ? [] : [JSON.parse(line).rung as number]));
  assert.deepEqual(stages, [0]);
  const { rungs, steps } = artefactOf(folder, "report.json").training;
  assert.deepEqual([rungs, steps], [{ trained: 1, planned: 1 }, 1]);
});

test("a run killed in each phase and resumed gives the same report", async () => {
  const entry = join(import.meta.dirname, "run-entry.ts");
  const undisturbed = await folderFor(whole);
  assert.equal((await startNode(entry, [undisturbed]).ended).code, 0);
  const folder = await folderFor(whole);
  const kills: [string, (event: { kind: string; phase: string }) => boolean][] = [
    ["preparing", (event) => event.phase === "preparing" && event.kind === "progress"],
    ["training", (event) => event.kind === "step" && event.phase === "training"],
    ["checking", (event) => event.kind === "decision" && event.phase === "checking"],
    ["repairing", (event) => event.kind === "checkpoint" && event.phase === "repairing"],
    ["packaging", (event) => event.phase === "packaging"],
  ];
  for (const [phase, holds] of kills) {
    const before = eventsOf(folder).length;
    const child = startNode(entry, [folder]);
    await eventually(() => eventsOf(folder).slice(before).some(holds), `an event of ${phase}`);
    child.kill("SIGKILL");
    assert.equal((await child.ended).signal, "SIGKILL", phase);
  }
  assert.equal((await startNode(entry, [folder]).ended).code, 0);
  assert.deepEqual(lossesOf(folder), lossesOf(undisturbed));
  assert.deepEqual(lasting(folder), lasting(undisturbed));
  const adapters = [folder, undisturbed].map((one) => sha256OfFile(join(one, "artefact/adapter.gguf")));
  assert.equal(...((await Promise.all(adapters)) as [string, string]));
  assert.deepEqual(brokenRules(folder), []);
});
