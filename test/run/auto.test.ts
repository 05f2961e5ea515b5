// An auto-align over a small folder with the real trainer. The clock stands still, so that decisions follow from what was measured alone.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { sha256OfFile } from "../../src/base/files.ts";
import type { AutoAlignRequest } from "../../src/contract/auto-align.ts";
import { artefactFiles, type RunRequest } from "../../src/contract/run-folder.ts";
import type { Trainer } from "../../src/engine/train/trainer.ts";
import { answerTokens, type Grade } from "../../src/run/dev-check.ts";
import { writeScores } from "../../src/run/folder/looks.ts";
import type { DecisionCard, Next, Resume } from "../../src/run/plan/state.ts";
import { runAlignment } from "../../src/run/run.ts";
import { tinyShape } from "../engine/trainer-fixture.ts";
import { documentOf } from "../helpers/study.ts";
import {
  brokenRules,
  claimAutoAlign,
  devItem,
  eventsOf,
  type FolderOptions,
  newRunFolder,
  overridden,
  partsOf,
  tinyModel,
} from "./run-harness.ts";

/** Context of the tiny model, in tokens. */
const tinyContext = 512;

type Auto = NonNullable<RunRequest["auto_align"]>;

const dev = Array.from({ length: 12 }, (_, at) =>
  devItem(at + 1, `How heavy is the lamp called ${["Orla", "Brim", "Cusk"][at % 3]} ${at}?`, `${3 + at} kg`),
);

const options: FolderOptions = {
  dev,
  recipe: (recipe) => ({
    ...recipe,
    dataset: { phrasings: 4, replay_share: 0.25, replay_top_k: 4 },
    repair: { steps: 4, check_every_steps: 2, prompts: 2, tokens: 4, top_k: 4, rows: 2, lr_factor: 0.2 },
    guards: { retained_items: 2, max_loss: 100, max_kl: 100, max_perplexity_rise: 1000 },
  }),
};

async function autoFolder(request: AutoAlignRequest, over: Partial<Auto> = {}): Promise<string> {
  const folder = await newRunFolder(options);
  claimAutoAlign(folder, { request, ...over });
  return folder;
}

const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
/** Whatever the base does not say counts as right: a tiny model learns nothing else in a few steps. */
function unlikeBase(): Grade {
  const first = new Map<string, string>();
  return (answer, { instruction }) => {
    if (!first.has(instruction)) first.set(instruction, answer);
    return { correct: answer !== first.get(instruction) };
  };
}

const partsStill = (grade: Grade, wrap?: (trainer: Trainer) => Trainer) =>
  partsOf({ ...(wrap && { wrap }), over: { clock, grade } });

type Card = DecisionCard & { next: Next };

/** One a step: a run that was killed tells its last one again. */
const cardsOf = (folder: string): Card[] => [
  ...new Map(
    eventsOf(folder)
      .filter((event) => event.card !== undefined)
      .map((event) => event.card as unknown as Card)
      .map((card) => [`${card.step} ${card.next.kind}`, card]),
  ).values(),
];

test("supervised training of the base starts from the warm start, what follows keeps it, and other arms start from the base", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-auto-warm-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "adapter.gguf");
  const trainer = partsOf().startTrainer();
  await trainer.open({ path: tinyModel, threads: 1, memoryBytes: 0 });
  await trainer.createAdapter("a", tinyShape);
  await trainer.exportGguf("a", path, {});
  await trainer.close();
  const sha256 = await sha256OfFile(path);
  const found = { path, sha256, base: { sha256: await sha256OfFile(tinyModel) }, shape: tinyShape };
  const startOf = async (sequencing: ("supervised" | "distil" | "scale")[]): Promise<(string | null)[]> => {
    const run = await autoFolder({ target_score: 99, sequencing, config: { training: { max_steps: 2 } } });
    const parts = { ...partsStill(unlikeBase()), warmStart: () => found };
    assert.equal((await runAlignment(run, parts)).outcome, "paused");
    return sequencing.map(
      (_, at) => JSON.parse(readFileSync(join(run, "plan", `phase-${at + 1}`, "phase.json"), "utf8")).adapter.warmStart,
    );
  };
  assert.deepEqual(await startOf(["supervised", "distil", "scale"]), [sha256, sha256, sha256]);
  assert.deepEqual(await startOf(["distil"]), [null]);
});

test("a passage longer than the base's context is cut where the base is asked with it, and the documents are read once for all", async (t) => {
  const code = '{"lamp": "called Brim", "kg": 3},\n'.repeat(60);
  const text = `# Boats\n\nThe boat Vigo carries 7 people.\n\n# Lamps\n\n\`\`\`\n${code}\`\`\`\n`;
  const folder = await newRunFolder({ ...options, documents: [documentOf(text)] });
  claimAutoAlign(folder, {
    request: { target_score: 99, sequencing: ["supervised"], config: { training: { max_steps: 1 } } },
  });
  const asked: number[] = [];
  const wrap = (trainer: Trainer): Trainer =>
    overridden(trainer, {
      sample: (adapter, rows, sampling) => {
        asked.push(...rows.rowLengths);
        return trainer.sample(adapter, rows, sampling);
      },
    });
  const normalised = t.mock.method(String.prototype, "normalize");
  const result = await runAlignment(folder, partsStill(unlikeBase(), wrap));
  assert.equal(result.outcome, "paused", result.error?.message);
  assert.equal(Math.max(...asked), tinyContext - answerTokens);
  assert.equal(normalised.mock.calls.filter((call) => String(call.this) === text).length, 1);
});

test("a sequence is carried out to the letter, its end is a pause, and a stop then packages the best", async () => {
  const grade = unlikeBase();
  const folder = await autoFolder({
    target_score: 99,
    sequencing: ["supervised", "distil", "scale"],
    config: { training: { max_steps: 3 } },
  });
  const paused = await runAlignment(folder, partsStill(grade));
  assert.equal(paused.outcome, "paused");
  assert.equal(paused.auto_align!.status, "PAUSED");
  assert.equal(paused.auto_align!.phases, 3);
  assert.deepEqual(
    cardsOf(folder).map(({ next }) => (next.kind === "phase" ? next.phase.arm : next.kind)),
    ["supervised", "distil", "scale", "end"],
  );
  // Three steps of four rows; only supervised training takes rows in turn.
  const seen = [1, 2, 3].map((number) => readFileSync(join(folder, "plan", `phase-${number}`, "phase.json"), "utf8"));
  assert.deepEqual(
    seen.map((phase) => JSON.parse(phase).adapter.rowsSeen),
    [12, 12, 12],
  );
  assert.deepEqual(brokenRules(folder), []);
  // Asked again without anything new it says the same.
  claimAutoAlign(folder, {});
  assert.equal((await runAlignment(folder, partsStill(grade))).outcome, "paused");

  claimAutoAlign(folder, { stopping: true });
  const stopped = await runAlignment(folder, partsStill(grade));
  assert.equal(stopped.outcome, "completed");
  assert.equal(stopped.auto_align!.status, "STOPPED");
  assert.notEqual(stopped.auto_align!.checkpoint, "base");
  assert.deepEqual(
    stopped.files.map(({ name }) => name),
    artefactFiles,
  );
  const report = JSON.parse(readFileSync(join(folder, "artefact", "report.json"), "utf8")).auto_align;
  assert.equal(report.status, "STOPPED");
  assert.deepEqual(
    report.course.map(({ arm }: { arm: string | null }) => arm),
    [null, "supervised", "distil", "scale"],
  );
  assert.equal(report.course[0].score, 0);
  assert.equal(report.course[1].gained, report.course[1].score);
  const flow = Object.values(report.flow as Record<string, { items: number; right: number }>);
  assert.equal(
    flow.reduce((sum, { items }) => sum + items, 0),
    dev.length,
  );
  const chosen = report.course.find(({ checkpoint }: { checkpoint: string }) => checkpoint === report.checkpoint);
  assert.equal(
    flow.reduce((sum, { right }) => sum + right, 0),
    Math.round((chosen.score * dev.length) / 100),
  );
  const page = readFileSync(join(folder, "artefact", "report.html"), "utf8");
  assert.match(page, /Auto-align: STOPPED/);
  assert.deepEqual(brokenRules(folder), []);
});

test("a sequence that was resumed twice keeps every phase as it was made", async () => {
  const folder = await autoFolder({
    target_score: 99,
    sequencing: ["supervised", "scale"],
    config: { training: { max_steps: 2 } },
  });
  const grade = unlikeBase();
  const phases = (): string[] =>
    Array.from({ length: paused.auto_align!.phases }, (_, at) =>
      readFileSync(join(folder, "plan", `phase-${at + 1}`, "phase.json"), "utf8"),
    );
  let paused = await runAlignment(folder, partsStill(grade));
  const resumes: Resume[] = [];
  for (let resumed = 1; resumed <= 2; resumed++) {
    const kept = phases();
    resumes.push({ phases: kept.length, looks: 0 });
    // A request of an older version has the latest resume alone.
    claimAutoAlign(folder, resumed === 1 ? { resumed_after: kept.length } : { resumes });
    paused = await runAlignment(folder, partsStill(grade));
    assert.equal(paused.outcome, "paused");
    assert.equal(paused.auto_align!.phases, kept.length + 2);
    assert.deepEqual(phases().slice(0, kept.length), kept, `resume ${resumed}`);
  }
  assert.deepEqual(
    phases().map((phase) => JSON.parse(phase).record.arm),
    ["supervised", "scale", "supervised", "scale", "supervised", "scale"],
  );
});

test("a target that the base meets ends after one look, and leaves no artefact", async () => {
  const folder = await autoFolder({ target_score: 0 });
  const parts = () => partsStill(unlikeBase());
  const looking = await runAlignment(folder, parts());
  assert.equal(looking.outcome, "look");
  assert.equal(looking.auto_align!.checkpoint, "base");
  assert.equal(looking.auto_align!.look, 0);
  claimAutoAlign(folder, {});
  assert.equal((await runAlignment(folder, parts())).outcome, "look");
  await writeScores(folder, 0, { scores: [0, 0, 1, 0], clusters: ["a", "b", "c", "d"], hours: 0.25 });
  claimAutoAlign(folder, {});
  const reached = await runAlignment(folder, parts());
  assert.equal(reached.outcome, "completed");
  assert.equal(reached.auto_align!.status, "REACHED");
  assert.equal(reached.auto_align!.hours, 0.25);
  assert.deepEqual(reached.files, []);
  assert.match(eventsOf(folder).at(-1)!.message!, /^The base reaches the target, so there is no artefact/);
  assert.deepEqual(
    cardsOf(folder).map(({ next }) => next.kind),
    ["look", "end"],
  );
});

test("where the target is of the reward, dev, phases and the report are scored by it", async () => {
  const folder = await autoFolder({
    target_score: 99,
    sequencing: ["supervised"],
    config: {
      evaluation: { metrics: ["reward"] },
      // Half is paid for any answer, and all for none that is ever given.
      reward: { composite: { "builtin:regex?pattern=.": 1, "builtin:regex?pattern=never said": 1 } },
      training: { max_steps: 3 },
    },
  });
  await runAlignment(folder, partsStill(unlikeBase()));
  const [first] = cardsOf(folder);
  assert.equal(first!.best.dev.score, 50);
  claimAutoAlign(folder, { stopping: true });
  await runAlignment(folder, partsStill(unlikeBase()));
  const after = cardsOf(folder).at(-1)!;
  assert.deepEqual(after.result!.dev, [50, 50]);
  const ignored = eventsOf(folder).find(({ code }) => code === "settings_ignored");
  assert.ok(!/evaluation|reward/.test(ignored?.message ?? ""));
});

test("what a process spends before its first new work is of the budget, once, whichever process comes after", async () => {
  const hour = 3_600_000;
  /** The first look at the clock is where the folder is taken up; from then on an hour has passed. */
  const late = () => {
    let looks = 0;
    const monotonicMs = (): number => (looks++ === 0 ? 0 : hour);
    return partsOf({ over: { clock: { ...clock, monotonicMs }, grade: unlikeBase() } });
  };
  const looked = await autoFolder({ target_score: 0 });
  await runAlignment(looked, partsStill(unlikeBase()));
  await writeScores(looked, 0, { scores: [0, 0, 1, 0], clusters: ["a", "b", "c", "d"], hours: 0.25 });
  claimAutoAlign(looked, {});
  assert.equal((await runAlignment(looked, late())).auto_align!.hours, 1.25);

  const request: AutoAlignRequest = {
    target_score: 99,
    sequencing: ["supervised"],
    config: { training: { max_steps: 3 } },
  };
  const killed = await autoFolder(request);
  assert.equal((await runAlignment(killed, partsStill(unlikeBase(), dyingAt("exportGguf", 1)))).outcome, "failed");
  claimAutoAlign(killed, {});
  assert.equal((await runAlignment(killed, late())).auto_align!.hours, 1);
  // It is kept with the phase: a later process adds nothing of its own, for there is nothing new to do.
  claimAutoAlign(killed, { stopping: true });
  assert.equal((await runAlignment(killed, late())).auto_align!.hours, 1);
});

test("rows that a killed process began are charged with its answers' hours, as if it had not been killed", async () => {
  let ms = 0;
  const timed = { ...clock, monotonicMs: () => ms };
  const run = async (folder: string, dies: number) => {
    let calls = 0;
    const tick = (): void => {
      if (++calls === dies) throw new Error("died");
      ms += 1000;
    };
    const wrap = (trainer: Trainer): Trainer => watched("score", tick)(watched("sample", tick)(trainer));
    return runAlignment(folder, partsOf({ wrap, over: { clock: timed, grade: unlikeBase() } }));
  };
  const secondsOf = (folder: string): number =>
    JSON.parse(readFileSync(join(folder, "prepared", "report.json"), "utf8")).seconds;
  const [whole, killed] = [await autoFolder({ target_score: 0 }), await autoFolder({ target_score: 0 })];
  await run(whole, 0);
  assert.ok(secondsOf(whole) >= 2, `${secondsOf(whole)}`);
  assert.equal((await run(killed, 2)).outcome, "failed");
  claimAutoAlign(killed, {});
  assert.equal((await run(killed, 0)).error, null);
  assert.equal(secondsOf(killed), secondsOf(whole));
});

test("a phase whose hours are over before its first step makes one step, and no more", async () => {
  let [adapters, ms] = [0, 0];
  // Forecasts are made while the clock stands still; it runs from where the phase opens its adapter.
  const monotonicMs = (): number => (adapters < 2 ? 0 : ++ms);
  const wrap = (trainer: Trainer): Trainer =>
    overridden(trainer, {
      createAdapter: (...made) => {
        adapters++;
        return trainer.createAdapter(...made);
      },
    });
  const folder = await autoFolder({
    target_score: 99,
    sequencing: ["supervised"],
    config: { training: { max_steps: 3 } },
  });
  const paused = await runAlignment(
    folder,
    partsOf({ wrap, over: { clock: { ...clock, monotonicMs }, grade: unlikeBase() } }),
  );
  assert.equal(paused.auto_align!.status, "PAUSED");
  assert.equal(eventsOf(folder).filter(({ kind }) => kind === "step").length, 1);
});

test("a reinforce phase whose hours are over makes one draw, and no more than one step of it", async () => {
  const stepsOf = async (pattern: string, inner_optim_steps: number) => {
    let [adapters, ms] = [0, 0];
    const monotonicMs = (): number => (adapters < 2 ? 0 : ++ms);
    const createAdapter =
      (trainer: Trainer): Trainer["createAdapter"] =>
      (...made) => {
        adapters++;
        return trainer.createAdapter(...made);
      };
    const folder = await autoFolder({
      target_score: 99,
      sequencing: ["reinforce"],
      config: {
        reward: { type: "verifier", verifier_ref: `builtin:regex?pattern=${pattern}` },
        sampling: { prompt_groups_per_step: 4, group_size: 8, max_tokens: 4 },
        training: { max_steps: 20, inner_optim_steps },
      },
    });
    const wrap = (trainer: Trainer): Trainer => overridden(trainer, { createAdapter: createAdapter(trainer) });
    const over = { clock: { ...clock, monotonicMs }, grade: unlikeBase() };
    assert.equal((await runAlignment(folder, partsOf({ wrap, over }))).error, null);
    return eventsOf(folder).flatMap(({ kind, metrics }) => (kind === "step" ? [metrics!.loss !== null] : []));
  };
  // No draw gives a signal, so the phase has no step to make.
  assert.deepEqual(await stepsOf("never said", 1), [false]);
  assert.deepEqual(await stepsOf("e", 4), [true]);
});

test("a check is forecast with all that it asks, and later ones by those that took longer", async () => {
  let ms = 0;
  /** A call about the base takes a second, and one about an adapter as many as this. */
  const secondsOf = async (slower: number) => {
    const wrap = (trainer: Trainer): Trainer =>
      (["score", "sample", "forward"] as const).reduce(
        (one, verb) =>
          overridden(one, {
            [verb]: (adapter: string | null, ...parts: never[]) => {
              ms += adapter === null ? 1000 : 1000 * slower;
              return (one[verb] as (...parts: unknown[]) => unknown)(adapter, ...parts);
            },
          }),
        trainer,
      );
    const folder = await autoFolder({
      target_score: 99,
      sequencing: ["supervised", "supervised", "reinforce"],
      config: { training: { max_steps: 2 } },
    });
    const timed = { ...clock, monotonicMs: () => ms };
    assert.equal(
      (await runAlignment(folder, partsOf({ wrap, over: { clock: timed, grade: unlikeBase() } }))).error,
      null,
    );
    const check = JSON.parse(readFileSync(join(folder, "plan", "check-1", "said.json"), "utf8"));
    // A supervised step asks nothing here, so all hours of its phases are those of their checks.
    const forecasts = cardsOf(folder).map(({ bids }) => 3600 * bids.find(({ arm }) => arm === "supervised")!.hours);
    return { took: Math.round(3600 * check.hours), forecasts: forecasts.slice(0, 2).map(Math.round) };
  };
  const alike = await secondsOf(1);
  assert.ok(alike.took >= 12, String(alike.took));
  assert.ok(alike.forecasts[0]! >= alike.took, JSON.stringify(alike));
  assert.equal(alike.forecasts[1], alike.forecasts[0]);
  const slower = await secondsOf(3);
  assert.deepEqual(slower.forecasts, [alike.forecasts[0], slower.took]);
});

test("settings of reinforcement are neither measured nor obeyed where the sequence has none, and that is told", async () => {
  const folder = await autoFolder({
    target_score: 99,
    sequencing: ["supervised"],
    config: {
      reward: { type: "llm_judge", llm_judge: { criteria: ["It is right."] } },
      sampling: { temperature: 0.7 },
      training: { max_steps: 2 },
    },
  });
  assert.equal((await runAlignment(folder, partsStill(unlikeBase()))).outcome, "paused");
  const { message } = eventsOf(folder).find(({ code }) => code === "settings_ignored")!;
  for (const field of ["reward.type", "reward.llm_judge", "sampling.temperature"])
    assert.ok(message!.includes(`${field} (redundant: no phase uses reinforcement)`), message);
  const check = JSON.parse(readFileSync(join(folder, "plan", "check-1", "said.json"), "utf8"));
  assert.equal(check.sampled, null);
});

test("hours that pay for nothing end at once, and say what would help", async () => {
  const folder = await autoFolder({ target_score: 90, max_compute_hours: 0 });
  const result = await runAlignment(folder, partsOf());
  assert.equal(result.auto_align!.status, "BUDGET_SPENT");
  assert.equal(result.auto_align!.phases, 0);
  assert.deepEqual(result.files, []);
  assert.ok(result.auto_align!.help.length > 0);
});

test("a setting that cannot be followed fails before anything trains, and names its field", async () => {
  const folder = await autoFolder({ target_score: 90, sequencing: ["supervised", "dance"] });
  const result = await runAlignment(folder, partsStill(unlikeBase()));
  assert.equal(result.outcome, "failed");
  assert.match(result.error!.message, /sequencing/);
  assert.equal(eventsOf(folder).filter(({ kind }) => kind === "step").length, 0);
});

const verbs = ["forwardBackward", "sample", "exportGguf"] as const;
type Verb = (typeof verbs)[number];

/** `onCall` before each call of the verb: throws what a worker that dies throws. */
const watched =
  (verb: Verb | "score", onCall: () => void) =>
  (trainer: Trainer): Trainer =>
    overridden(trainer, {
      [verb]: (...parts: never[]) => {
        onCall();
        return (trainer[verb] as (...parts: never[]) => unknown).apply(trainer, parts);
      },
    });

function dyingAt(verb: Verb, n: number) {
  let calls = 0;
  return watched(verb, () => {
    if (++calls === n) throw new Error("died");
  });
}

const request: AutoAlignRequest = {
  target_score: 99,
  sequencing: ["supervised", "distil", "scale"],
  config: { training: { max_steps: 5 } },
};

test("killed anywhere it decides the same and makes the same adapters", async () => {
  const whole = await autoFolder(request);
  const calls: Record<Verb, number> = { forwardBackward: 0, sample: 0, exportGguf: 0 };
  const counting = (trainer: Trainer): Trainer =>
    verbs.reduce((one, verb) => watched(verb, () => calls[verb]++)(one), trainer);
  await runAlignment(whole, partsStill(unlikeBase(), counting));
  const adapters = (folder: string): string[] =>
    [1, 2, 3].map((number) => readFileSync(join(folder, "plan", `phase-${number}`, "adapter.gguf")).toString("base64"));
  const expected = { cards: cardsOf(whole), adapters: adapters(whole) };
  assert.equal(expected.cards.length, 4);
  // In the diagnosis, within and between phases, and with the last call of all.
  const deaths = verbs.flatMap((verb) =>
    [...new Set([0.2, 0.6, 1].map((share) => Math.ceil(share * calls[verb])))].map((n) => dyingAt(verb, n)),
  );
  for (const [index, wrap] of deaths.entries()) {
    const folder = await autoFolder(request);
    const grade = unlikeBase();
    const first = await runAlignment(folder, partsStill(grade, wrap));
    assert.equal(first.outcome, "failed", `death ${index}`);
    claimAutoAlign(folder, {});
    assert.equal((await runAlignment(folder, partsStill(grade))).outcome, "paused");
    assert.deepEqual({ cards: cardsOf(folder), adapters: adapters(folder) }, expected, `death ${index}`);
    assert.deepEqual(brokenRules(folder), []);
  }
});
