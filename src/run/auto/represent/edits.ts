// Edits of the matrices that write to the residual stream. Each is an adapter that does exactly what its formula says
// (alignment notes, §8.2).
import { type Edit, type EditedSite, writers } from "../../../engine/train/trainer.ts";
import type { Run } from "../../context.ts";
import type { OpenedBase } from "../../training.ts";
import { unitOf } from "./algebra.ts";
import type { ContextRow } from "./material.ts";
import type { Directions } from "./profile.ts";
import { contextEdit } from "./solutions.ts";
import type { Trial } from "./trials.ts";
import { placesBetween, type WatchedRow, watched } from "./watch.ts";

export interface EditTerms {
  run: Run;
  base: OpenedBase;
  /** The adapter to edit: an edit acts on the matrices together with this adapter. */
  adapter: string;
  directions: Directions;
  /** The layer whose difference is ablated. */
  best: number;
  contexts: readonly ContextRow[];
  /** Rows of other text, which an edit from context should leave unchanged. */
  others: readonly WatchedRow[];
}

export function editOf(terms: EditTerms, trial: Trial): Promise<Edit> {
  if (trial.kind === "ablation") return ablation(terms, trial);
  if (trial.kind === "difference_of_means") return Promise.resolve(steering(terms, trial));
  return contextRidge(terms, trial);
}

/** W' = (I − λ r rᵀ) W for both writers of each layer: B = −λr, A = rᵀW, where r is the unit difference of means. */
async function ablation({ base, adapter, directions, best }: EditTerms, trial: Trial): Promise<Edit> {
  const unit = Float32Array.from(unitOf(directions.differences.get(best)!));
  const sites = trial.layers.flatMap((layer) => writers.map((writer) => ({ layer, writer })));
  const edited = sites.map(async (site): Promise<EditedSite> => {
    const { direction, row } = await base.trainer.project(adapter, site, unit);
    return { ...site, a: row, b: direction.map((value) => -trial.strength * value) };
  });
  return { rank: 1, sites: await Promise.all(edited) };
}

/** ΔW = c aᵀ on the down matrix: adds c, the strength times the difference of means, wherever aᵀz is 1. */
function steering({ directions }: EditTerms, { layers, strength }: Trial): Edit {
  const layer = layers[0]!;
  const c = Float32Array.from(directions.differences.get(layer)!, (value) => strength * value);
  return {
    rank: 1,
    sites: [{ layer, writer: "ffn_down", a: Float32Array.from(directions.readers.get(layer)!), b: c }],
  };
}

const contextRank = 4;
/** `floor` of `contextEdit`, as a share of the mean square of other text's keys. */
const contextFloor = 0.01;
/** Positions per row, spread evenly over its answer. */
const placesOfRow = 4;

const spreading = "spreading";

/**
 * Lets the down matrices of the band write, without the passage, what the passage adds to the stream after the band's
 * last layer. Each layer takes its share of what is still missing: one part in the number of layers left (MEMIT, arXiv
 * 2210.07229, §4.3, with targets that need no gradient).
 */
async function contextRidge(terms: EditTerms, { layers, strength }: Trial): Promise<Edit> {
  const { run, base, adapter, contexts, others } = terms;
  const end = layers.at(-1)!;
  const at = (prompt: readonly number[], answer: readonly number[]): WatchedRow => ({
    tokens: [...prompt, ...answer],
    // The position before a token is the one that predicts it.
    places: placesBetween(0, answer.length, placesOfRow).map((place) => prompt.length - 1 + place),
  });
  const closed = contexts.map((row) => at(row.closed, row.answer));
  const opened = contexts.map((row) => at(row.opened, row.answer));
  const last = { adapter, layers: [end], streams: ["residual" as const], isMean: false };
  const wanted = (await watched(run, base, opened, last)).residual[0]!;
  const sites: EditedSite[] = [];
  for (const [index, layer] of layers.entries()) {
    const now = index === 0 ? adapter : spreading;
    if (index > 0) await base.trainer.stackAdapter(spreading, adapter, { rank: contextRank, sites });
    const asked = { adapter: now, layers: [layer], streams: ["ffn_down" as const], isMean: false };
    const keys = (await watched(run, base, closed, asked)).ffn_down[0]!;
    const reached = (await watched(run, base, closed, { ...last, adapter: now })).residual[0]!;
    const left = (await watched(run, base, others, { ...asked, adapter })).ffn_down[0]!;
    if (index > 0) await base.trainer.dropAdapter(spreading);
    const targets = wanted.map((vector, key) =>
      Float64Array.from(vector, (value, i) => (value - reached[key]![i]!) / (layers.length - index)),
    );
    const options = { lambda: strength * keys.length, floor: contextFloor, rank: contextRank };
    sites.push({
      layer,
      writer: "ffn_down",
      ...padded(contextEdit(keys, targets, left, options), keys[0]!, targets[0]!),
    });
  }
  return { rank: contextRank, sites };
}

/** Rows A and columns B in the adapter's layout, with zeros where the rank is not used up. */
function padded(
  { a, b }: ReturnType<typeof contextEdit>,
  { length: columns }: ArrayLike<number>,
  { length: rows }: ArrayLike<number>,
): Pick<EditedSite, "a" | "b"> {
  const flat = { a: new Float32Array(contextRank * columns), b: new Float32Array(rows * contextRank) };
  for (const [k, row] of a.entries()) {
    flat.a.set(row, k * columns);
    for (let r = 0; r < rows; r++) flat.b[r * contextRank + k] = b[k]![r]!;
  }
  return flat;
}
