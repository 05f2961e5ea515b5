// checkpoints/<step>/ of a run folder: what exact resumption needs, and how it gets there and back whole. Each is a stage.
//
//   trainer/        adapter, both moments, step: the trainer's own files
//   average/        likewise of a moving average of the adapter, where the loop has one
//   state.json      the loop's (LoopState)
//   build.json      what the trainer was (RunBuild)
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isErrno, syncFolder, writeJsonDurably } from "../base/files.ts";
import type { SavedFile } from "../engine/trainer.ts";
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

/** Everything the loop carries from step to step. The order of rows and the learning rate follow from the step alone. */
export interface LoopState {
  step: number;
  best: CheckScore | null;
  /** Checks since the last one that was better than all before. */
  checksWithoutGain: number;
  checks: CheckScore[];
  /** Loss per trained token of every step so far. */
  losses: number[];
  /** Tokens that carried a loss, and all that went through the model. */
  trainedTokens: number;
  processedTokens: number;
  trainSeconds: number;
  /** The rung that is trained, the step it began after, the best score before it, and how many before it brought nothing, in a row. */
  rung: { index: number; from: number; before: number; idle: number };
  /** Why training ended; null while it goes on. */
  ended: "steps" | "patience" | "plateau" | null;
  /** Steps of repair begin after this one, from the checkpoint `start`; null as long as there is none. */
  repair: { start: number; from: number } | null;
  /** Of a phase of reinforcement. */
  reinforce?: {
    draws: number;
    /** Draws in a row that had nothing to tell. */
    withoutSignal: number;
    klCoef: number;
    running: Running;
  };
}

/** What a checkpoint must match to be used: another request or other rows are another run. */
export interface RunIdentity {
  request_sha256: string;
  rows_sha256: string;
}

/** What bitwise resumption depends on besides. Another one still resumes, and says that it is not bitwise. */
export interface RunBuild {
  plumbline: string;
  trainer: string;
  /** The GPU, or the kernels that the processor's products run on, and the precision. */
  device: string;
  threads: number;
  /** Decides how the trainer cuts a batch into passes, and so the order of its sums. */
  memory_bytes: number;
}

/** Part of a checkpoint's identity. 2: the loop has rungs and a repair. */
const format = 2;

export interface FoundCheckpoint {
  step: number;
  /** The folder that Trainer.load takes. */
  trainerFolder: string;
  /** Likewise, where the loop has a moving average. */
  averageFolder: string;
  state: LoopState;
  build: RunBuild;
}

/** The trainer's: fills a folder that does not exist yet and syncs its files. */
type Save = (folder: string) => Promise<SavedFile[]>;

export interface Checkpoints {
  write(state: LoopState, save: { trained: Save; average?: Save }): Promise<void>;
  /** The newest that verifies. `damaged` are the steps of newer ones that did not; they are removed. */
  newest(): Promise<{ found: FoundCheckpoint | null; damaged: number[] }>;
  /** One that was written; null when it is not there or does not verify. */
  at(step: number): Promise<FoundCheckpoint | null>;
  /** Keeps the newest `keepLast` (at least 2) and the best one. */
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
    // Only a run that went back to an older checkpoint writes one twice; what it makes is the same.
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
