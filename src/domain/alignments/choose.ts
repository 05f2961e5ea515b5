// Which adapter becomes the artefact. The best checkpoint is asked what it costs (guards); where one gave way, it is repaired; of
// the two the better one is tried at the recipe's scales. What counts is, first, that nothing is lost beyond what may be lost, as long as
// no answers are given up for it beyond chance, then the dev score less such losses: the sealed questions take no part.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno, makeFolder, writeJsonDurably } from "../../base/files.ts";
import { spread } from "../../base/spread.ts";
import { compareScores, significance } from "../../base/statistics/paired.ts";
import type { Recipe } from "../../contract/run-folder.ts";
import type { Run } from "./context.ts";
import { answerDev, type DevAnswer } from "./dev-check.ts";
import type { Choice } from "./guards/material.ts";
import { type Asked, choose, type Drift, drift, follow, type ProseSaid, proseSaid } from "./guards/measure.ts";
import { repair } from "./repair.ts";
import { identityOf } from "./request.ts";
import { loadScaled, removeScaled } from "./scale.ts";
import { adapterName, checkTokens, type Training } from "./training.ts";

/** What the base said, asked once a run. */
export interface BaseSaid {
  identity: string;
  /** Ids of the items it got right in both wordings: what can be lost. */
  retained: string[];
  general: boolean[];
  format: boolean[];
  refusals: boolean[];
  dev: DevAnswer[];
}

export const suites = ["retention", "general", "format", "refusals"] as const;

/** One suite before and after, in points. */
export interface SuiteResult {
  name: (typeof suites)[number];
  n: number;
  base: number;
  aligned: number;
  /** Whether a loss counts against an adapter: the base does better than chance for certain. The others are only told. */
  gates: boolean;
  /** What the base did and the adapter does not, and the other way round: by question. */
  lost: string[];
  gained: string[];
}

export interface GuardResults {
  suites: SuiteResult[];
  drift: Drift;
}

/** One adapter that could have been chosen. */
export interface Candidate {
  step: number;
  repaired: boolean;
  scale: number;
  /** Of all dev questions; null without a benchmark. */
  dev: number | null;
  guards: GuardResults | null;
  /** Points that the guards lost beyond what they may. */
  penalty: number;
}

export interface Chosen extends Candidate {
  /** Name in the trainer of the adapter as it will be exported. */
  adapter: string;
  candidates: Candidate[];
  base: DevAnswer[];
  answers: DevAnswer[];
}

/** What all candidates of a run are asked with. */
interface Comparison {
  run: Run;
  training: Training;
  base: BaseSaid;
  /** Of the adapter as the trainer has it at this step and scale, from the base; asked once. */
  driftAt(adapter: string, what: Pick<Candidate, "step" | "scale">): Promise<Drift>;
}

export async function chooseAdapter(run: Run, training: Training, base: BaseSaid): Promise<Chosen> {
  const { state } = training;
  const { guards: limits, repair: plan, adapter } = run.request.recipe;
  await run.enter("checking");
  const comparison: Comparison = { run, training, base, driftAt: driftFrom(run, training) };
  const step = state.best?.step ?? state.step;
  await load(training, step);
  const trained = await examined(comparison, adapterName, { step, repaired: false, scale: 1 });
  const candidates = [trained.candidate];
  let best = trained;
  if (plan !== undefined && trained.candidate.penalty > 0) {
    state.repair ??= { start: step, from: state.step };
    if (state.step > state.repair.from) await load(training, state.step);
    await tell(run, `${describe(trained.candidate)}; repair begins, ${plan.steps} steps against the base`);
    await run.enter("repairing");
    await repair(run, training, plan, () => isBack(comparison, trained.candidate));
    await run.enter("checking");
    const repaired = await examined(comparison, adapterName, { step: state.step, repaired: true, scale: 1 });
    candidates.push(repaired.candidate);
    if (isPreferred(repaired, trained)) best = repaired;
  }
  await load(training, best.candidate.step);
  let inTrainer = adapterName;
  // A smaller scale can only win back what the guards lost.
  if (limits !== undefined && best.candidate.penalty > 0)
    for (const scale of (adapter.scales ?? [1]).filter((one) => one < 1)) {
      const name = await loadScaled(run, training, scale);
      const { step: from, repaired } = best.candidate;
      const scaled = await examined(comparison, name, { step: from, repaired, scale });
      candidates.push(scaled.candidate);
      if (isPreferred(scaled, best)) best = scaled;
      if (scaled.candidate.penalty === 0) break;
    }
  const { scale } = best.candidate;
  if (scale < 1) inTrainer = await loadScaled(run, training, scale);
  else await removeScaled(training);
  await tell(run, `Chosen: ${describe(best.candidate)}`);
  return { ...best.candidate, adapter: inTrainer, candidates, base: base.dev, answers: best.answers };
}

/** Of the base is asked when an adapter is first held against it. */
function driftFrom(run: Run, training: Training): Comparison["driftAt"] {
  let said: Promise<ProseSaid> | null = null;
  const known = new Map<string, Drift>();
  return async (adapter, { step, scale }) => {
    const key = `${step} ${scale}`;
    const { prose } = run.parts.guards;
    const { prose_paragraphs: count = prose.length } = run.request.recipe.guards!;
    said ??= proseSaid(asking(run, training), spread(prose, count));
    const found = known.get(key) ?? (await drift({ ...asking(run, training), adapter }, await said));
    known.set(key, found);
    return found;
  };
}

/** Share of what drift may be at which a repair ends: on other text it is not quite the same. */
const settledShare = 0.95;

/** Whether the steps of repair so far have brought the drift back, where nothing but drift was to be repaired. */
async function isBack({ run, training, driftAt }: Comparison, { guards }: Candidate): Promise<boolean> {
  const limits = run.request.recipe.guards!;
  if (lostBeyond(guards!.suites, limits) > 0) return false;
  const now = await driftAt(adapterName, { step: training.state.step, scale: 1 });
  const isEnough =
    now.kl <= settledShare * limits.max_kl && now.perplexity_rise <= settledShare * limits.max_perplexity_rise;
  const steps = training.state.step - training.state.repair!.from;
  await tell(run, `After ${steps} steps of repair: ${describeDrift(now)}; ${isEnough ? "enough" : "more follow"}`);
  return isEnough;
}

/** Points of a candidate: the dev score less the guards' penalty. */
const worth = ({ dev, penalty }: Candidate): number => (dev ?? 0) - penalty;

/** Of the same questions: whether the first is right on fewer of them, by more than chance would have it; those of one fact go together. */
function isWorseBeyondChance(one: Examined, other: Examined): boolean {
  const [rights, others] = [one, other].map(({ answers }) => answers.map(({ correct }) => Number(correct)));
  if (rights!.length === 0) return false;
  const clusters = one.answers.map(({ item }) => item.cluster);
  const { gained, lost, p_value: p } = compareScores(rights!, others!, clusters);
  return gained < lost && p < significance;
}

/** Who is worth more; but one that keeps within every limit of the guards rather than one that does not, unless it has lost answers for it. */
export function isPreferred(one: Examined, other: Examined): boolean {
  const [keeps, otherKeeps] = [one, other].map(({ candidate }) => candidate.penalty === 0);
  if (keeps === otherKeeps) return worth(one.candidate) > worth(other.candidate);
  return keeps ? !isWorseBeyondChance(one, other) : isWorseBeyondChance(other, one);
}

/**
 * What an answered question is weighed against, in points. Drift of generic text counts for less than an ability lost: nobody asks
 * for it, and a weight of 1 would give up most of what was learned for the last percent of perplexity.
 */
const driftWeight = 0.25;

type Limits = NonNullable<Recipe["guards"]>;

const beyond = (value: number, limit: number): number => Math.max(0, value - limit);

/** Points that the gating suites lost beyond what each may. */
const lostBeyond = (suites: readonly SuiteResult[], { max_loss }: Limits): number =>
  suites.reduce((sum, { base, aligned, gates }) => sum + (gates ? beyond(base - aligned, max_loss) : 0), 0);

/** Of every suite its loss beyond the limit, of KL and perplexity so much for each 0.01 nats and each percent beyond theirs. */
export function penaltyOf({ suites, drift }: GuardResults, limits: Limits): number {
  return (
    lostBeyond(suites, limits) +
    driftWeight * 100 * beyond(drift.kl, limits.max_kl) +
    driftWeight * beyond(drift.perplexity_rise, limits.max_perplexity_rise)
  );
}

function describe({ step, repaired, scale, dev, guards, penalty }: Candidate): string {
  const lost = (guards?.suites ?? []).map(({ name, base, aligned }) => `${name} ${signed(aligned - base)}`);
  const name = `step ${step}${repaired ? ", repaired" : ""}${scale < 1 ? `, scale ${scale}` : ""}`;
  return [
    name,
    dev === null ? "" : `dev ${dev.toFixed(1)}`,
    ...lost,
    guards ? describeDrift(guards.drift) : "",
    guards ? `penalty ${penalty.toFixed(1)}` : "",
  ]
    .filter((part) => part !== "")
    .join("; ");
}

const describeDrift = ({ kl, perplexity_rise }: Drift): string =>
  `KL ${kl.toFixed(3)}; perplexity ${signed(perplexity_rise)} %`;

const signed = (value: number): string => `${value > 0 ? "+" : ""}${value.toFixed(1)}`;

const tell = (run: Run, message: string): Promise<void> =>
  run.events.append({ kind: "decision", phase: run.phase, message });

async function load({ trainer, checkpoints }: Training, step: number): Promise<void> {
  const found = await checkpoints.at(step);
  if (found === null) throw new Failure("run_failed", `The checkpoint of step ${step} is gone or damaged`);
  await trainer.load(adapterName, found.trainerFolder);
}

const asking = (run: Run, { trainer }: Training): Omit<Asked, "adapter"> => ({
  trainer,
  tokenizer: run.tokenizer,
  turn: async (done, total, unit) => {
    await run.progress(done, total, unit);
    await run.turn();
  },
});

/** Before anything is trained: what can be lost, and the score to rise from. */
export async function askBase(run: Run, training: Training): Promise<BaseSaid> {
  const folder = join(run.folder, "guards");
  const path = join(folder, "base.json");
  const { guards } = run.parts;
  const identity = `${identityOf(run.request)} ${guards.sha256}`;
  const kept = await readKept<BaseSaid>(path);
  if (kept?.identity === identity) return kept;
  await run.enter("checking");
  const asked: Asked = { ...asking(run, training), adapter: null };
  const limits = run.request.recipe.guards;
  const said: BaseSaid = {
    identity,
    retained: limits === undefined ? [] : await rightTwice(run, asked, limits.retained_items),
    general: limits === undefined ? [] : await choose(asked, guards.general),
    format: limits === undefined ? [] : await follow(asked, guards.format),
    refusals: limits === undefined ? [] : await choose(asked, guards.refusals),
    dev: await devAnswers(run, training, null),
  };
  await makeFolder(folder);
  await writeJsonDurably(path, said);
  await run.enter("training");
  return said;
}

async function readKept<T>(path: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as T;
  } catch (error) {
    if (error instanceof SyntaxError || isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

/** Items of one question to the base: so many at a time, until enough are found. */
const retentionBatch = 100;

async function rightTwice(run: Run, asked: Asked, wanted: number): Promise<string[]> {
  const { retention } = run.parts.guards;
  const found: string[] = [];
  for (let from = 0; from < retention.length && found.length < wanted; from += retentionBatch) {
    const some = retention.slice(from, from + retentionBatch);
    const right = await choose(
      asked,
      some.flatMap((item) => item.wordings),
    );
    found.push(...some.filter((_, index) => right[2 * index] && right[2 * index + 1]).map((item) => item.id));
    await run.progress(Math.min(found.length, wanted), wanted, "retained items");
  }
  return found.slice(0, wanted);
}

function devAnswers(run: Run, training: Training, adapter: string | null): Promise<DevAnswer[]> {
  return answerDev({
    ...asking(run, training),
    adapter,
    prompts: training.prepared.dev,
    maxTokens: checkTokens,
    grade: run.parts.grade,
    onProgress: async (done, total) => {
      await run.progress(done, total, "questions");
      await run.turn();
    },
  });
}

export interface Examined {
  candidate: Candidate;
  answers: DevAnswer[];
}

/** Asks an adapter everything that the base was asked; kept, so that a run killed here asks nothing twice. */
async function examined(
  comparison: Comparison,
  adapter: string,
  what: Pick<Candidate, "step" | "repaired" | "scale">,
): Promise<Examined> {
  const { run, training, base } = comparison;
  const path = join(run.folder, "guards", `step-${what.step}-scale-${what.scale}.json`);
  const identity = `${base.identity} ${training.prepared.sha256}`;
  const kept = await readKept<Examined & { identity: string }>(path);
  if (kept?.identity === identity) return { candidate: kept.candidate, answers: kept.answers };
  const limits = run.request.recipe.guards;
  const answers = await devAnswers(run, training, adapter);
  const right = answers.filter((one) => one.correct).length;
  const dev = answers.length === 0 ? null : run.parts.interval(right, answers.length).score;
  const guards = limits === undefined ? null : await askGuards(comparison, adapter, what);
  const penalty = guards === null ? 0 : penaltyOf(guards, limits!);
  const said: Examined = { candidate: { ...what, dev, guards, penalty }, answers };
  await writeJsonDurably(path, { identity, ...said });
  return said;
}

async function askGuards(
  { run, training, base, driftAt }: Comparison,
  adapter: string,
  what: Pick<Candidate, "step" | "scale">,
): Promise<GuardResults> {
  const { guards } = run.parts;
  const asked = { ...asking(run, training), adapter };
  const ids = new Set(base.retained);
  const items = guards.retention.filter((item) => ids.has(item.id));
  const kept = await choose(
    asked,
    items.flatMap((item) => item.wordings),
  );
  const questions = items.flatMap((item) => item.wordings.map((wording) => `${wording.ask} (${wording.choices[0]})`));
  const named = (choices: readonly { ask: string }[]): string[] => choices.map((item) => item.ask);
  const aboveChance = (suite: readonly boolean[], chance: number): boolean =>
    run.parts.interval(suite.filter(Boolean).length, suite.length).low > chance;
  return {
    suites: [
      suiteOf(
        "retention",
        questions,
        kept.map(() => true),
        kept,
        true,
      ),
      suiteOf(
        "general",
        named(guards.general),
        base.general,
        await choose(asked, guards.general),
        aboveChance(base.general, chanceOf(guards.general)),
      ),
      suiteOf(
        "format",
        named(guards.format),
        base.format,
        await follow(asked, guards.format),
        aboveChance(base.format, 0),
      ),
      suiteOf(
        "refusals",
        named(guards.refusals),
        base.refusals,
        await choose(asked, guards.refusals),
        aboveChance(base.refusals, chanceOf(guards.refusals)),
      ),
    ],
    drift: await driftAt(adapter, what),
  };
}

/** Points of whoever picks any of an item's choices. */
const chanceOf = (items: readonly Choice[]): number =>
  (100 / items.length) * items.reduce((sum, { choices }) => sum + 1 / choices.length, 0);

function suiteOf(
  name: SuiteResult["name"],
  questions: readonly string[],
  base: readonly boolean[],
  aligned: readonly boolean[],
  gates: boolean,
): SuiteResult {
  const points = (right: readonly boolean[]): number =>
    right.length === 0 ? 0 : (100 * right.filter(Boolean).length) / right.length;
  return {
    name,
    n: questions.length,
    base: points(base),
    aligned: points(aligned),
    gates,
    lost: questions.filter((_, index) => base[index] && !aligned[index]),
    gained: questions.filter((_, index) => !base[index] && aligned[index]),
  };
}
