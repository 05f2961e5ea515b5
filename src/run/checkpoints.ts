// checkpoints/<step>/ of a run folder: everything that exact resumption needs. A checkpoint is a stage (stage.ts), so it is written and
// read as a whole.
//
//   trainer/        adapter, both moments and step, in the trainer's own files
//   average/        the same for a moving average of the adapter, where the loop has one
//   state.json      state of the loop (LoopState)
//   build.json      what the trainer ran with (RunBuild)
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isErrno, syncFolder, writeJsonDurably } from "../base/files.ts";
import type { SavedFile } from "../engine/train/trainer.ts";
import type { Running } from "./rewards/normalise.ts";
import { keep, keptAt } from "./stage.ts";

export interface CheckScore {
  step: number;
  /** Share of right answers, 0–100, and its 95 % interval. */
  score: number;
  low: number;
  high: number;
  n: number;
}

/** Rows that were trained, by index, and how likely the answer of each was before: the geometric mean of its tokens' probabilities. */
export type Likelihoods = [row: number, likelihood: number][];

/**
 * Everything that the loop carries from step to step. The order of rows and the learning rate are not part of it, because they follow from
 * the step number.
 */
export interface LoopState {
  step: number;
  best: CheckScore | null;
  /** Number of consecutive checks without a new best score, counted anew in each rung. */
  checksWithoutGain: number;
  checks: CheckScore[];
  /** Loss of every step so far, reduced over its tokens as the recipe says. */
  losses: number[];
  /** `trainedTokens` carried a loss; `processedTokens` are all tokens that went through the model. */
  trainedTokens: number;
  processedTokens: number;
  trainSeconds: number;
  /** The current rung, the step after which it began, and the best score before it. */
  rung: { index: number; from: number; before: number };
  /** Indices of the current rung's rows, where they are not those that were planned. */
  focused?: number[];
  /** The rows of the current rung that are trained; only where another rung follows. */
  likelihoods?: Likelihoods;
  /** Hash of the warm start that training started from; left out if it started from the base. */
  warmStart?: string;
  /** Why training ended; null until it has ended. */
  ended: "steps" | "patience" | "solved" | null;
  /**
   * The repair's steps are counted from step `from`, and start from the checkpoint of step `start`. Null while there is no repair.
   */
  repair: { start: number; from: number } | null;
  /** State of a reinforce phase. */
  reinforce?: {
    draws: number;
    /** Number of consecutive draws without a learning signal. */
    withoutSignal: number;
    klCoef: number;
    running: Running;
  };
}

/** What a checkpoint must match to be used. A different request or different rows make it a different run. */
export interface RunIdentity {
  request_sha256: string;
  rows_sha256: string;
}

/**
 * What bitwise resumption also depends on. With a different build, the run still resumes, but warns that later losses may differ in the
 * last bits.
 */
export interface RunBuild {
  plumbline: string;
  trainer: string;
  /** Name of the GPU, or of the kernels for matrix products on the CPU; then the precision. */
  device: string;
  threads: number;
  /** Determines how the trainer cuts a batch into passes, and therefore the order of summation. */
  memory_bytes: number;
}

/** Part of a checkpoint's identity. Format 2 added rungs and a repair to the loop's state. */
const format = 2;

export interface FoundCheckpoint {
  step: number;
  /** The folder to give to Trainer.load. */
  trainerFolder: string;
  /** The same for the moving average; it exists only where the loop has one. */
  averageFolder: string;
  state: LoopState;
  build: RunBuild;
}

/** The trainer's save function. It creates the folder, fills it and syncs its files. */
type Save = (folder: string) => Promise<SavedFile[]>;

export interface Checkpoints {
  write(state: LoopState, save: { trained: Save; average?: Save }): Promise<void>;
  /** Returns the newest checkpoint that verifies, and removes newer ones that do not. `damaged` lists the steps of those removed. */
  newest(): Promise<{ found: FoundCheckpoint | null; damaged: number[] }>;
  /** Returns the checkpoint of a step; null if it is missing or does not verify. */
  at(step: number): Promise<FoundCheckpoint | null>;
  /** Removes all checkpoints but the newest `keepLast` (at least 2) and that of step `best`. */
  prune(keepLast: number, best: number | null): Promise<void>;
}

export function openCheckpoints(folder: string, identity: RunIdentity, build: RunBuild): Checkpoints {
  const placeOf = (step: number): string => join(folder, String(step));
  const identityOf = (step: number): string => JSON.stringify({ format, step, ...identity });

  const steps = async (): Promise<number[]> => {
    const names = await readdir(folder).catch((error) => {
      if (isErrno(error, "ENOENT")) return [];
      throw error;
    });
    return names
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .sort((a, b) => b - a);
  };

  const at = async (step: number): Promise<FoundCheckpoint | null> => {
    const place = placeOf(step);
    if ((await keptAt(place, identityOf(step))) === null) return null;
    const read = async <T>(name: string): Promise<T> => JSON.parse(await readFile(join(place, name), "utf8")) as T;
    return {
      step,
      trainerFolder: join(place, "trainer"),
      averageFolder: join(place, "average"),
      state: await read("state.json"),
      build: await read("build.json"),
    };
  };

  return {
    // A step is written a second time only if the run has gone back to an older checkpoint. The content is then the same.
    async write(state, save) {
      await keep(placeOf(state.step), identityOf(state.step), async (temporary) => {
        await save.trained(join(temporary, "trainer"));
        await save.average?.(join(temporary, "average"));
        await writeJsonDurably(join(temporary, "state.json"), state);
        await writeJsonDurably(join(temporary, "build.json"), build);
      });
    },
    async newest() {
      const damaged: number[] = [];
      for (const step of await steps()) {
        const found = await at(step);
        if (found !== null) return { found, damaged };
        damaged.push(step);
        await rm(placeOf(step), { recursive: true, force: true });
      }
      return { found: null, damaged };
    },
    at,
    async prune(keepLast, best) {
      const kept = new Set((await steps()).slice(0, Math.max(2, keepLast)));
      for (const step of await steps())
        if (!kept.has(step) && step !== best) await rm(placeOf(step), { recursive: true, force: true });
      await syncFolder(folder);
    },
  };
}
