// Profiles a model's representations, with at most 200 passes of rows: whether one direction, the same for all prompts,
// separates right answers from wrong ones, and how much of a constant vector a rank-one edit would miss.
import type { Run } from "../../context.ts";
import type { OpenedBase } from "../../training.ts";
import type { Contrast } from "./material.ts";
import { agreementOf, constantReader, missedShare } from "./solutions.ts";
import { placesBetween, type WatchedRow, watched } from "./watch.ts";

export interface LayerFigures {
  layer: number;
  /** Mean cosine between the differences of any two pairs. */
  cosine: number;
  /** Share of pairs that the mean difference of the other pairs orders correctly. */
  separation: number;
  /**
   * Share of a constant vector that a rank-one edit would miss at positions it was not fitted to; null where not
   * measured.
   */
  missed: number | null;
}

export interface Profile {
  pairs: number;
  /** Number of rows sent through the layers. */
  passes: number;
  layers: LayerFigures[];
  /** The layer whose differences agree most; null with too few pairs. */
  best: number | null;
  isUsable: boolean;
  /** Explanation for people. */
  because: string;
}

/** What edits are built from, besides the profile. */
export interface Directions {
  /** By layer: mean of good minus bad [embedding]. */
  differences: Map<number, Float64Array>;
  /** By layer, where measured: the row whose product with the down matrix's input is closest to 1. */
  readers: Map<number, Float64Array>;
}

/** Mean cosine of the differences below which edits fail (alignment notes, §8.6). */
const leastCosine = 0.3;
/** Number of pairs below which the agreement says little. */
const leastPairs = 16;
/** Largest share of a constant vector that may be missed. */
export const mostMissed = 0.05;
/** Number of layers at which a constant is tried: those whose differences agree best. */
const steeredLayers = 3;
const placesOfRow = 4;
/** `ridge` of `constantReader`, as a share of the keys' mean square. */
const readerRidge = 1e-3;

/**
 * Profiles the model from its contrasts. `adapter`: the adapter that gave the contrasts' answers; null for the base.
 */
export async function profileOf(
  run: Run,
  base: OpenedBase,
  adapter: string | null,
  contrasts: readonly Contrast[],
): Promise<{ profile: Profile; directions: Directions }> {
  const directions: Directions = { differences: new Map(), readers: new Map() };
  if (contrasts.length < leastPairs) return { profile: tooFew(contrasts.length), directions };
  const rows = contrasts.flatMap(({ prompt, good, bad }) => [rowOf(prompt, good), rowOf(prompt, bad)]);
  const all = Array.from({ length: base.model.layers }, (_, at) => at);
  const asked = { adapter, layers: all, streams: ["residual" as const], isMean: true };
  const { residual } = await watched(run, base, rows, asked);
  const layers = all.map((layer): LayerFigures => {
    const means = residual[layer]!;
    const differences = contrasts.map((_, at) => means[2 * at]!.map((value, i) => value - means[2 * at + 1]![i]!));
    const { cosine, separation, mean } = agreementOf(differences);
    directions.differences.set(layer, mean);
    return { layer, cosine, separation, missed: null };
  });
  const ranked = inside(layers).sort((one, other) => other.cosine - one.cosine);
  const best = ranked[0]!;
  let passes = rows.length;
  if (best.cosine >= leastCosine) {
    const steered = ranked.slice(0, steeredLayers).sort((one, other) => one.layer - other.layer);
    await readConstants(run, base, { adapter, rows, steered, readers: directions.readers });
    passes += rows.length;
  }
  const figures = `The differences within ${contrasts.length} pairs of its own answers agree most after layer ${best.layer + 1} of ${layers.length}, with a cosine of ${best.cosine.toFixed(2)}`;
  const isUsable = best.cosine >= leastCosine;
  const because = isUsable
    ? `${figures}; the other pairs order ${Math.round(100 * best.separation)} % of them correctly`
    : `${figures}, but at least ${leastCosine} is needed`;
  return { profile: { pairs: contrasts.length, passes, layers, best: best.layer, isUsable, because }, directions };
}

const tooFew = (pairs: number): Profile => ({
  ...{ pairs, passes: 0, layers: [], best: null, isUsable: false },
  because: `The model has both a correct and a wrong answer of its own to ${pairs} study questions, but ${leastPairs} are needed`,
});

/**
 * All layers but the first, where the stream holds little more than the token, and the last, which only the head reads.
 */
const inside = (layers: readonly LayerFigures[]): LayerFigures[] =>
  layers.length > 2 ? layers.slice(1, -1) : [...layers];

/** A row watched at the positions of its answer. */
const rowOf = (prompt: readonly number[], answer: readonly number[]): WatchedRow => ({
  tokens: [...prompt, ...answer],
  places: answer.map((_, at) => prompt.length + at),
});

/**
 * Fits a reader to every second pair and measures what it misses on the others. Where a reader is fitted to fewer
 * positions than a key has components, it misses nothing. The reader that edits use is fitted to all pairs.
 */
async function readConstants(
  run: Run,
  base: OpenedBase,
  {
    adapter,
    rows,
    steered,
    readers,
  }: { adapter: string | null; rows: WatchedRow[]; steered: LayerFigures[]; readers: Map<number, Float64Array> },
): Promise<void> {
  const some = rows.map(({ tokens, places }) => ({
    tokens,
    places: placesBetween(places[0]!, places[0]! + places.length, placesOfRow),
  }));
  const pairOf = some.flatMap(({ places }, at) => places.map(() => Math.floor(at / 2)));
  const layers = steered.map(({ layer }) => layer);
  const seen = await watched(run, base, some, { adapter, layers, streams: ["ffn_down"], isMean: false });
  for (const [at, figures] of steered.entries()) {
    const keys = seen.ffn_down[at]!;
    const half = constantReader(
      keys.filter((_, key) => pairOf[key]! % 2 === 0),
      readerRidge,
    );
    figures.missed = missedShare(
      half,
      keys.filter((_, key) => pairOf[key]! % 2 === 1),
    );
    readers.set(figures.layer, constantReader(keys, readerRidge));
  }
}
