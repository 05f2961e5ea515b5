// checkpoints/<step>/ of a run folder: everything that exact resumption needs, written and read back whole. Each is a
// stage.
//
//   trainer/        adapter, both moments, step: the trainer's own files
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

/**
 * Everything the loop carries from step to step. The order of rows and the learning rate follow from the step number
 * alone.
 */
export interface LoopState {
  step: number;
  best: CheckScore | null;
  /** Checks since the last one that beat all before it. */
  checksWithoutGain: number;
  checks: CheckScore[];
  /** Loss per trained token of every step so far. */
  losses: number[];
  /** Tokens that carried a loss, and all tokens that went through the model. */
  trainedTokens: number;
  processedTokens: number;
  trainSeconds: number;
  /**
   * The current rung, the step after which it began, the best score before it, and how many rungs in a row before it
   * brought no gain.
   */
  rung: { index: number; from: number; before: number; idle: number };
  /** Why training ended; null while it goes on. */
  ended: "steps" | "patience" | "plateau" | null;
  /**
   * Repair steps come after step `from` and start from the checkpoint of step `start`; null while there is no repair.
   */
  repair: { start: number; from: number } | null;
  /** State of a reinforce phase. */
  reinforce?: {
    draws: number;
    /** Draws in a row without a learning signal. */
    withoutSignal: number;
    klCoef: number;
    running: Running;
  };
}

/** What a checkpoint must match to be used: another request or other rows mean another run. */
export interface RunIdentity {
  request_sha256: string;
  rows_sha256: string;
}

/**
 * What bitwise resumption also depends on. With another build the run still resumes, and warns that it is not bitwise.
 */
export interface RunBuild {
  plumbline: string;
  trainer: string;
  /** The GPU, or the kernels that compute products on the processor, and the precision. */
  device: string;
  threads: number;
  /** Decides how the trainer cuts a batch into passes, and so the order of summation. */
  memory_bytes: number;
}

/** Part of a checkpoint's identity. 2: the loop has rungs and a repair. */
const format = 2;

export interface FoundCheckpoint {
  step: number;
  /** The folder that Trainer.load takes. */
  trainerFolder: string;
  /** The same for the moving average, where the loop has one. */
  averageFolder: string;
  state: LoopState;
  build: RunBuild;
}

/** The trainer's save function: fills a folder that does not exist yet and syncs its files. */
type Save = (folder: string) => Promise<SavedFile[]>;

export interface Checkpoints {
  write(state: LoopState, save: { trained: Save; average?: Save }): Promise<void>;
  /** The newest checkpoint that verifies. `damaged` lists the steps of newer ones that did not; they are removed. */
  newest(): Promise<{ found: FoundCheckpoint | null; damaged: number[] }>;
  /** The checkpoint of a step; null when it is missing or does not verify. */
  at(step: number): Promise<FoundCheckpoint | null>;
  /** Keeps the newest `keepLast` (at least 2) and the one of step `best`. */
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
    // A step is written twice only when a run went back to an older checkpoint; the content is then the same.
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
