// checkpoints/<step>/ of a run folder: what exact resumption needs, and how it gets there and back whole.
//
//   trainer/        adapter, both moments, step: the trainer's own files
//   state.json      the loop's (LoopState)
//   manifest.json   written last inside: what it belongs to, and the size and sha256 of every file
//
// A checkpoint is made under a temporary name, synced and renamed, so a folder with a number is complete; sizes and hashes are
// checked all the same before it is used, for a disk can lose what it acknowledged.
import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import {
  isErrno,
  makeFolder,
  renameDurably,
  sha256OfFile,
  syncFolder,
  temporaryName,
  writeJsonDurably,
} from "../../base/files.ts";
import type { SavedFile } from "../../engine/trainer.ts";

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
  /** The rung that is trained, the step it began after, and the best score before it. */
  rung: { index: number; from: number; before: number };
  /** Why training ended; null while it goes on. */
  ended: "steps" | "patience" | "plateau" | null;
  /** Steps of repair begin after this one, from the checkpoint `start`; null as long as there is none. */
  repair: { start: number; from: number } | null;
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

interface Manifest {
  /** 2: the loop has rungs and a repair. */
  format: 2;
  step: number;
  identity: RunIdentity;
  build: RunBuild;
  files: SavedFile[];
}

export interface FoundCheckpoint {
  step: number;
  /** The folder that Trainer.load takes. */
  trainerFolder: string;
  state: LoopState;
  build: RunBuild;
}

export interface Checkpoints {
  /** `save` is the trainer's: it fills a folder that does not exist yet and syncs its files. */
  write(state: LoopState, save: (folder: string) => Promise<SavedFile[]>): Promise<void>;
  /** The newest that verifies. `damaged` are the steps of newer ones that did not; they are removed. */
  newest(): Promise<{ found: FoundCheckpoint | null; damaged: number[] }>;
  /** One that was written; null when it is not there or does not verify. */
  at(step: number): Promise<FoundCheckpoint | null>;
  /** Keeps the newest `keepLast` (at least 2) and the best one. */
  prune(keepLast: number, best: number | null): Promise<void>;
}

export function openCheckpoints(folder: string, identity: RunIdentity, build: RunBuild): Checkpoints {
  const placeOf = (step: number): string => join(folder, String(step));

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
    const manifest = await readManifest(place);
    if (manifest === null || manifest.step !== step) return null;
    if (JSON.stringify(manifest.identity) !== JSON.stringify(identity)) return null;
    for (const file of manifest.files) if (!(await isWhole(place, file))) return null;
    const state = JSON.parse(await readFile(join(place, "state.json"), "utf8")) as LoopState;
    return { step, trainerFolder: join(place, "trainer"), state, build: manifest.build };
  };

  return {
    async write(state, save) {
      const place = placeOf(state.step);
      const temporary = temporaryName(place);
      await makeFolder(temporary);
      const saved = await save(join(temporary, "trainer"));
      await writeJsonDurably(join(temporary, "state.json"), state);
      const stateFile = {
        name: "state.json",
        bytes: (await stat(join(temporary, "state.json"))).size,
        sha256: await sha256OfFile(join(temporary, "state.json")),
      };
      const manifest: Manifest = {
        format: 2,
        step: state.step,
        identity,
        build,
        files: [...saved.map((file) => ({ ...file, name: `trainer/${file.name}` })), stateFile],
      };
      await writeJsonDurably(join(temporary, "manifest.json"), manifest);
      await syncFolder(join(temporary, "trainer"));
      await syncFolder(temporary);
      // Only a run that went back to an older checkpoint comes here twice; what it makes is the same.
      await rm(place, { recursive: true, force: true });
      await renameDurably(temporary, place);
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

async function readManifest(place: string): Promise<Manifest | null> {
  try {
    const manifest = JSON.parse(await readFile(join(place, "manifest.json"), "utf8")) as Manifest;
    return manifest.format === 2 && Array.isArray(manifest.files) ? manifest : null;
  } catch (error) {
    if (error instanceof SyntaxError || isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  }
}

async function isWhole(place: string, file: SavedFile): Promise<boolean> {
  try {
    const path = join(place, file.name);
    return (await stat(path)).size === file.bytes && (await sha256OfFile(path)) === file.sha256;
  } catch (error) {
    if (isErrno(error, "ENOENT", "EIO")) return false;
    throw error;
  }
}
