// Reads activations of many rows, in calls between which a run can stop.
import type { Stream } from "../../../engine/train/trainer.ts";
import { asking } from "../../choose.ts";
import type { Run } from "../../context.ts";
import { packed } from "../../rows.ts";
import { microBatches } from "../../schedule.ts";
import type { OpenedBase } from "../../training.ts";

export interface WatchedRow {
  tokens: readonly number[];
  /** Positions to watch, as indices of the row's tokens. */
  places: readonly number[];
}

/** For each stream and layer, the vectors in the order of the rows and their places. */
export type Seen<S extends Stream> = Record<S, Float32Array[][]>;

/** Maximum number of tokens and of rows in one call, because the vectors of all its layers must fit in one response. */
const callTokens = 6144;
const callRows = 32;

/**
 * Reads the activations at the places of the rows. `isMean`: returns one vector per row, the mean over its places;
 * otherwise one per place.
 */
export async function watched<S extends Stream>(
  run: Run,
  { trainer }: Pick<OpenedBase, "trainer">,
  rows: readonly WatchedRow[],
  { adapter, layers, streams, isMean }: { adapter: string | null; layers: number[]; streams: S[]; isMean: boolean },
): Promise<Seen<S>> {
  const seen = Object.fromEntries(streams.map((stream) => [stream, layers.map((): Float32Array[] => [])])) as Seen<S>;
  const { turn } = asking(run, trainer);
  let done = 0;
  for (const call of microBatches(
    [...rows.keys()],
    (at) => Math.max(rows[at]!.tokens.length, callTokens / callRows),
    callTokens,
  )) {
    const own = call.map((at) => rows[at]!);
    const places: number[] = [];
    const groups: number[] = [];
    let first = 0;
    for (const [at, row] of own.entries()) {
      for (const place of row.places) {
        groups.push(isMean ? at : places.length);
        places.push(first + place);
      }
      first += row.tokens.length;
    }
    const { streams: told } = await trainer.activations(adapter, packed(own.map(({ tokens }) => tokens)), {
      ...{ layers, streams },
      places: Int32Array.from(places),
      groups: Int32Array.from(groups),
    });
    for (const stream of streams) {
      const count = isMean ? own.length : places.length;
      const width = told[stream].length / count / layers.length;
      for (const [layer, vectors] of seen[stream].entries())
        for (let at = 0; at < count; at++) {
          const from = (layer * count + at) * width;
          vectors.push(told[stream].slice(from, from + width));
        }
    }
    done += own.length;
    await turn(done, rows.length, "rows analysed");
  }
  return seen;
}

/** At most `most` places, spread evenly over those from `from` up to, but not including, `end`. */
export function placesBetween(from: number, end: number, most: number): number[] {
  const count = Math.min(most, end - from);
  return Array.from({ length: count }, (_, at) => from + Math.floor(((at + 0.5) * (end - from)) / count));
}
