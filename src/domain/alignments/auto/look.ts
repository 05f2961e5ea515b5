// A look lets an adapter answer a third of the sealed questions. The run that requested the look has ended; the next run
// learns only the scores and clusters. If the appliance stops before the scores are written, the look is repeated.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../../../base/errors.ts";
import type { Log } from "../../../base/log.ts";
import { sleep } from "../../../base/time.ts";
import type { AutoAlignRequest } from "../../../contract/auto-align.ts";
import type { LookScores } from "../../../contract/run-folder.ts";
import type { ModelRef } from "../../../engine/generator.ts";
import { readScores, writeScores } from "../../../run/folder/looks.ts";
import { readRequest } from "../../../run/folder/request.ts";
import { diskFailure } from "../snapshot.ts";
import { type SealedItem, thirdsOf } from "./thirds.ts";
import type { Told } from "./work.ts";

export interface LookParts {
  log: Log;
  /** Sealed items in the benchmark's order. */
  sealedOf: (benchmarkId: string) => SealedItem[];
  /**
   * Scores the answers to the samples, in [0, 1], by the configuration's target. Returns the device's hours too, and
   * records the use of the sealed split. Throws out_of_memory while the memory that it needs is in use.
   */
  score: (asked: {
    ref: ModelRef;
    benchmarkId: string;
    samples: readonly number[];
    config: AutoAlignRequest["config"];
    autoAlignId: string;
    checkpoint: string;
    signal: AbortSignal;
  }) => Promise<{ scores: number[]; hours: number }>;
}

export interface Look {
  autoAlignId: string;
  benchmarkId: string;
  folder: string;
  base: { id: string; path: string };
  told: Told;
}

/** The wait between two attempts to get memory doubles each time, from the first value up to the longest. */
const firstWaitMs = 2_000;
const longestWaitMs = 60_000;

/**
 * Scores the look, unless its scores have already been written, and returns its number. `untilWritten` repeats a write
 * while the disk is full.
 */
export async function carryOutLook(
  parts: LookParts,
  look: Look,
  signal: AbortSignal,
  untilWritten: (write: () => Promise<void>) => Promise<void>,
): Promise<number> {
  const { folder, told } = look;
  const number = told.look;
  if (number === null) throw new Failure("run_crashed", "The run asked for a look without saying at which third");
  if ((await readScores(folder, number)) === null) {
    const scores = await scoresOf(parts, look, number, signal);
    const write = (): Promise<void> =>
      writeScores(folder, number, scores).catch((error) => {
        throw diskFailure(error);
      });
    await untilWritten(write);
  }
  return number;
}

async function scoresOf(parts: LookParts, look: Look, number: number, signal: AbortSignal): Promise<LookScores> {
  const { autoAlignId, benchmarkId, told } = look;
  const third = thirdsOf(parts.sealedOf(benchmarkId))?.[number];
  if (third === undefined) throw new Failure("auto_align_unmeasurable", "The benchmark no longer has three thirds");
  const { auto_align: auto } = await readRequest(look.folder);
  const asked = {
    config: (auto!.request as AutoAlignRequest).config,
    ref: refOf(look),
    benchmarkId,
    samples: third.map(({ sample_num }) => sample_num),
    autoAlignId,
    checkpoint: told.checkpoint,
    signal,
  };
  for (let waitMs = firstWaitMs; ; waitMs = Math.min(2 * waitMs, longestWaitMs))
    try {
      const { scores, hours } = await parts.score(asked);
      return { scores, clusters: third.map(({ cluster }) => cluster), hours };
    } catch (error) {
      const isForRoom = error instanceof Failure && error.code === "out_of_memory" && error.context.fitsAlone === true;
      if (signal.aborted || !isForRoom) throw error;
      parts.log("info", "look.waits_for_room", { autoAlignId, error });
      await sleep(waitMs, signal);
      signal.throwIfAborted();
    }
}

/**
 * Returns a reference to the base or to a checkpoint that the run exported. The checkpoint's name comes from the run, so
 * it is checked and cannot be an arbitrary path. Throws run_crashed.
 */
function refOf({ autoAlignId, folder, base, told: { checkpoint } }: Look): ModelRef {
  const ref = { baseId: base.id, basePath: base.path };
  if (checkpoint === "base") return ref;
  const path = join(folder, "plan", checkpoint, "adapter.gguf");
  if (!/^phase-[1-9]\d{0,5}$/.test(checkpoint) || !existsSync(path))
    throw new Failure("run_crashed", `The run asked for a look at ${JSON.stringify(checkpoint)}, which has no adapter`);
  return { ...ref, adapter: { id: `${autoAlignId}.${checkpoint}`, path } };
}
