// A phase that edits representations without any gradient: profile → at most 30 edits, each tried on one half of dev →
// the best of them tried on the other half. The best edit is kept if the lower bound of its paired difference on the
// other half is above 0; otherwise the adapter stays as it was.
import { join } from "node:path";
import { z95 } from "../../../base/statistics/intervals.ts";
import { seeded } from "../../../base/statistics/random.ts";
import { shuffled } from "../../../base/text.ts";
import type { AutoAlignRequest } from "../../../contract/auto-align.ts";
import type { AdapterShape, Edit } from "../../../engine/train/trainer.ts";
import { asking, devAnswers, pointsPerNat } from "../../choose.ts";
import type { Run } from "../../context.ts";
import { divergence, type ProseSaid, proseSaid } from "../../guards/measure.ts";
import { pairedDifference } from "../../plan/evidence.ts";
import type { PhaseRecord } from "../../plan/state.ts";
import type { DevPrompt } from "../../rows.ts";
import { json, keptAt, stage } from "../../stage.ts";
import { adapterName, type OpenedBase, type Training } from "../../training.ts";
import { type EditTerms, editOf } from "./edits.ts";
import { drawMaterial, type Material } from "./material.ts";
import { mostMissed, type Profile, profileOf } from "./profile.ts";
import { kindsOf, nameOf, type Trial, trialsOf } from "./trials.ts";
import { placesBetween, type WatchedRow } from "./watch.ts";

/** Name in the trainer of the adapter with an edit stacked on it. */
export const editedName = "edited";

export interface RepresentOrder {
  run: Run;
  training: Training;
  /** Where trials are kept, and the identity of what they depend on. */
  folder: string;
  identity: string;
  /** Score of every dev item at the checkpoint that is edited, and whether that checkpoint is the base. */
  before: readonly number[];
  isBase: boolean;
  /** Maximum number of trials. */
  most: number;
  seed: number;
  isOver: () => boolean;
  /** Called with the seconds that an earlier process spent on work that was kept. */
  charge: (seconds: number) => void;
}

export interface Represented {
  /** Name in the trainer of the resulting adapter. */
  inTrainer: string;
  shape: AdapterShape;
  outcome: NonNullable<PhaseRecord["outcome"]>;
}

export async function represent(order: RepresentOrder): Promise<Represented> {
  const { run, training, seed } = order;
  const material = await charged<Material>(order, "material", null, () =>
    drawMaterial(run, training, { adapter: adapterName, rows: training.prepared.rows, seed }),
  );
  const { profile, directions } = await profileOf(run, training, adapterName, material.contrasts);
  const trials = plannedTrials(run, training, profile, material).slice(0, order.most);
  if (trials.length === 0) return unchanged(order, reasonAgainst(profile));
  const terms: EditTerms = {
    ...{ run, base: training, adapter: adapterName, directions },
    best: profile.best!,
    contexts: material.contexts,
    others: otherRows(run, seed),
  };
  const [choosing, judging] = halvesOf(training.prepared.dev, seed) as [number[], number[]];
  const { best, tried } = await bestTrial(order, terms, trials, choosing);
  if (best === null)
    return unchanged(order, `none of ${tried} edits gains more on dev than it costs in divergence from the base`);
  return confirmed(order, await editOf(terms, best), {
    judging,
    name: `${nameOf(best)}, the best of ${tried} edits`,
  });
}

/** The trials for a model with this profile. */
export function plannedTrials(run: Run, { model }: OpenedBase, profile: Profile, { contexts }: Material): Trial[] {
  return trialsOf(profile, {
    kinds: kindsOf((run.request.auto_align!.request as AutoAlignRequest).representations ?? "auto"),
    layers: model.layers,
    hasPostNorms: model.architecture === "gemma3",
    hasContexts: contexts.length > 0,
  });
}

/** Why a profile leaves no edit to try. */
export const reasonAgainst = ({ isUsable, because }: Profile): string =>
  isUsable
    ? `${because}, but no allowed edit can apply it: edits miss the needed constant by more than ${100 * mostMissed} %`
    : because;

/** Part of the identity of kept work. Format 2 added its seconds. */
const format = 2;

/**
 * Does a piece of the phase's work, or reads the result that an earlier process left, whose seconds are then charged.
 * `of`: what the result depends on besides the phase.
 */
async function charged<T>(
  { run, folder, identity, charge }: RepresentOrder,
  name: string,
  of: unknown,
  work: () => Promise<T>,
): Promise<T> {
  const { clock } = run.parts;
  let isKept = true;
  const make = async () => {
    isKept = false;
    const began = clock.monotonicMs();
    const result = await work();
    return { result, seconds: (clock.monotonicMs() - began) / 1000 };
  };
  const form = json<{ result: T; seconds: number }>();
  const { result, seconds } = await stage(join(folder, name), identityOfPiece(identity, of), make, form);
  if (isKept) charge(seconds);
  return result;
}

const identityOfPiece = (identity: string, of: unknown): string => JSON.stringify([format, identity, of]);

const trialName = (before: number): string => `trial-${before + 1}`;

/** Whether an earlier process has left the result of a piece of work. */
const hasResult = async ({ folder, identity }: RepresentOrder, name: string, of: unknown): Promise<boolean> =>
  (await keptAt(join(folder, name), identityOfPiece(identity, of))) !== null;

interface Tried {
  /**
   * Both compared with the checkpoint that is edited: points gained on one half of dev, and nats of divergence added on
   * other text.
   */
  gain: number;
  kl: number;
}

/**
 * Tries the edits while there is time. Returns the one that gains most on dev after the cost of its divergence is
 * subtracted; null if the result is above 0 for none.
 */
async function bestTrial(
  order: RepresentOrder,
  terms: EditTerms,
  trials: readonly Trial[],
  choosing: readonly number[],
): Promise<{ best: Trial | null; tried: number }> {
  const { run, training, isOver } = order;
  const said = await proseSaid(asking(run, training.trainer), generalText(run, order.seed)[0]);
  const klBefore = order.isBase ? 0 : await klOf(run, training, adapterName, said);
  const trial = async (one: Trial): Promise<Tried> =>
    withEdit(training, await editOf(terms, one), async () => ({
      gain: (await gainOf(order, choosing)).difference,
      kl: (await klOf(run, training, editedName, said)) - klBefore,
    }));
  let best: { trial: Trial; worth: number } | null = null;
  let tried = 0;
  for (const one of trials) {
    // A trial that an earlier process has kept counts, however much time is left.
    if (isOver() && !(await hasResult(order, trialName(tried), one))) break;
    await run.turn();
    const { gain, kl } = await charged<Tried>(order, trialName(tried), one, () => trial(one));
    const worth = gain - pointsPerNat * Math.max(0, kl);
    if (worth > (best?.worth ?? 0)) best = { trial: one, worth };
    training.state.step++;
    await run.progress(++tried, trials.length, "edits");
  }
  return { best: best?.trial ?? null, tried };
}

/** Keeps the edit if questions that had no part in its choice show a gain. */
async function confirmed(
  order: RepresentOrder,
  edit: Edit,
  { judging, name }: { judging: readonly number[]; name: string },
): Promise<Represented> {
  const { trainer, shape } = order.training;
  const grown = await trainer.stackAdapter(editedName, adapterName, edit);
  const { difference, error } = await gainOf(order, judging);
  const least = difference - z95 * error;
  const figures = `${name}: ${signed(difference)} points (lower bound ${signed(least)}) on ${judging.length} dev questions that were not used to choose it`;
  if (least > 0)
    return {
      inTrainer: editedName,
      shape: { ...shape, ...grown },
      outcome: { is_kept: true, told: `kept: ${figures}` },
    };
  await trainer.dropAdapter(editedName);
  return unchanged(order, figures);
}

const signed = (points: number): string => `${points > 0 ? "+" : ""}${points.toFixed(1)}`;

const unchanged = ({ training }: RepresentOrder, why: string): Represented => ({
  inTrainer: adapterName,
  shape: training.shape,
  outcome: { is_kept: false, told: `no usable direction: ${why}` },
});

async function withEdit<T>({ trainer }: Training, edit: Edit, ask: () => Promise<T>): Promise<T> {
  await trainer.stackAdapter(editedName, adapterName, edit);
  const said = await ask();
  await trainer.dropAdapter(editedName);
  return said;
}

/** Points that the edited adapter gains on these dev items. */
async function gainOf({ run, training, before }: RepresentOrder, items: readonly number[]) {
  const { trainer, prepared } = training;
  const prompts = items.map((at) => prepared.dev[at]!);
  const answers = await devAnswers(run, { trainer, prompts, adapter: editedName });
  return pairedDifference(
    answers.map(run.points),
    items.map((at) => before[at]!),
    prompts.map(({ item }) => item.cluster),
  );
}

const klOf = async (run: Run, { trainer }: Training, adapter: string, said: ProseSaid): Promise<number> =>
  (await divergence({ ...asking(run, trainer), adapter }, said)).kl;

/** Splits dev items into two halves that share no cluster. */
function halvesOf(dev: readonly DevPrompt[], seed: number): number[][] {
  const clusters = shuffled([...new Set(dev.map(({ item }) => item.cluster))], seeded(seed));
  const halfOf = new Map(clusters.map((cluster, at) => [cluster, at % 2]));
  return [0, 1].map((half) => [...dev.keys()].filter((at) => halfOf.get(dev[at]!.item.cluster) === half));
}

/**
 * Maximum number of openings of ordinary prose in each of two sets: one for measuring divergence, and one that an edit
 * should leave unchanged.
 */
const mostOpenings = 64;

export function generalText({ parts }: Run, seed: number): [string[], string[]] {
  const openings = shuffled(parts.replayOpenings, seeded(seed));
  const half = Math.ceil(openings.length / 2);
  return [openings.slice(0, half).slice(0, mostOpenings), openings.slice(half).slice(0, mostOpenings)];
}

const placesOfRow = 2;

const otherRows = (run: Run, seed: number): WatchedRow[] =>
  generalText(run, seed)[1].map((text) => {
    const tokens = run.tokenizer.encode(text, false);
    return { tokens, places: placesBetween(0, tokens.length, placesOfRow) };
  });
