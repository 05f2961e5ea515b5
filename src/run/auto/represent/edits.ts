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
  /** The adapter to edit. An edit acts on the base's matrices with this adapter applied. */
  adapter: string;
  directions: Directions;
  /** The layer whose difference of means is ablated. */
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

/**
 * Makes W' = (I − λ r rᵀ) W of both writers of each layer, as B = −λr and A = rᵀW. r is the unit difference of means of
 * the layer `best`.
 */
async function ablation({ base, adapter, directions, best }: EditTerms, trial: Trial): Promise<Edit> {
  const unit = Float32Array.from(unitOf(directions.differences.get(best)!));
  const sites = trial.layers.flatMap((layer) => writers.map((writer) => ({ layer, writer })));
  const edited = sites.map(async (site): Promise<EditedSite> => {
    const { direction, row } = await base.trainer.project(adapter, site, unit);
    return { ...site, a: row, b: direction.map((value) => -trial.strength * value) };
  });
  return { rank: 1, sites: await Promise.all(edited) };
}

/**
 * Makes ΔW = c aᵀ for the down matrix. This adds c, the strength times the difference of means, wherever aᵀz is 1 for
 * the matrix's input z.
 */
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
 * Makes the down matrices of a band of layers write, without the passage, what the passage adds to the residual stream
 * after the band's last layer. Each layer adds what is still missing, divided by the number of layers left (MEMIT,
 * arXiv 2210.07229, §4.3; the targets here need no gradient).
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

/** Lays out the rows of A and the columns of B as the adapter has them, with zeros where the rank is not used up. */
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
