// Reserves memory for runs. Only the oldest queued alignment is considered. The trainer estimates its cost; then memory is reserved
// for it, with smaller passes if necessary, or it waits with a reason.
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import type { Recipe } from "../../contract/recipe.ts";
import type { RunRequest } from "../../contract/run-folder.ts";
import { type Bytes, fits, mebibytes } from "../../engine/gguf/gpu.ts";
import type { Queue } from "../../jobs/queue.ts";
import type { RunCost } from "./estimate.ts";
import { readOrderedRecipe } from "./snapshot.ts";
import type { AlignmentRow, AlignmentsSql } from "./store.ts";

export interface BaseModel {
  id: string;
  path: string;
  bytes: number;
  parameters: number;
  memory_bytes: number;
  /** Maximum number of tokens that it reads. */
  context_length: number;
}

export interface Grant {
  /** Lends the threads to inference until `resume`, for example while a teacher is asked. */
  rest(): void;
  resume(): void;
  release(): void;
}

export type Budget = RunRequest["budget"];

interface Pins {
  /** `context`: maximum number of tokens that the base reads. Throws a validation failure. */
  pinned(
    config: AutoAlignRequest["config"],
    recipe: Recipe,
    given: { reinforces: boolean; context: number },
  ): { recipe: Recipe };
}

/** Memory of the run's own process, in addition to that of its trainer or its inference. */
const ownBytes = 512 << 20;

/** A budget, and the bytes that it takes from each memory pool. */
interface Want {
  budget: Omit<Budget, "threads">;
  bytes: Bytes;
}

/** Returns the possible budgets, from the largest passes to the smallest. */
function wantsOf({ needs, gpuBytes }: RunCost, total: Bytes): Want[] {
  return needs.map(({ passTokens, memoryBytes, gpuMemoryBytes }) => {
    // A run on the GPU needs machine memory only if the GPU fails and the CPU takes over. That memory is capped at what
    // the machine has, so that a shortage of it does not refuse the run.
    const memory = gpuBytes === null ? memoryBytes : Math.min(memoryBytes, total.machine - ownBytes);
    return {
      budget: {
        memory_bytes: memory,
        gpu_memory_bytes: gpuMemoryBytes,
        pass_tokens: passTokens,
        full_pass_tokens: needs[0]!.passTokens,
      },
      bytes: { machine: memory + ownBytes, gpu: gpuMemoryBytes },
    };
  });
}

const earlierOf = (row: AlignmentRow): Budget | null =>
  row.budget_json === null ? null : (JSON.parse(row.budget_json) as Budget);

/**
 * Whether the budget is that of the earlier attempt, apart from threads. A resumed run keeps its pass sizes and threads,
 * because other values would change its losses in the last bits.
 */
const isBudget = (budget: Want["budget"], earlier: Budget | null): boolean =>
  earlier !== null && isDeepStrictEqual({ ...budget, threads: earlier.threads }, earlier);

/** Describes the pool that is too small, such as "900 MiB of the GPU's memory, but only 300 MiB are free". */
function shortage(want: Bytes, have: Bytes): string {
  const pool = want.gpu > have.gpu ? "gpu" : "machine";
  const whose = pool === "gpu" ? "of the GPU's memory" : "of the machine's memory";
  return `${mebibytes(want[pool])} ${whose}, but only ${mebibytes(Math.max(0, have[pool]))} are free`;
}

export interface ReservationParts {
  sql: AlignmentsSql;
  queue: Queue;
  log: Log;
  /** Directory of the run folders. */
  runs: string;
  maxRuns: number;
  /** Number of threads that all runs share. */
  threads: number;
  /** Estimates the memory and speed of a run that trains the base by the recipe on this machine. */
  costOf: (base: BaseModel, recipe: Recipe) => Promise<RunCost>;
  /** Loads what applies an auto-align's configuration to its recipe, as its run will. */
  loadPins: () => Promise<Pins>;
  /** Memory that runs may use when nothing else is running (`total`), and now (`free`). */
  room: () => { total: Bytes; free: Bytes };
  /** Reserves memory for a run until the grant is released; null while that memory is in use. */
  grant: (want: { bytes: Bytes; threads: number }, alignmentId: string) => Grant | null;
  /** Unloads a model that is loaded only in case of another request; false if there was none. */
  makeRoom: () => Promise<boolean>;
  baseOf: (baseModelId: string) => BaseModel;
  /** Tells the runner that there is work. */
  wake: () => void;
}

export interface Reservations {
  /**
   * Whether the oldest queued alignment can be claimed. True also if it can never fit, or if estimating its cost failed,
   * so that it is claimed and fails with the reason.
   */
  canStart(): boolean;
  /** Returns the memory reserved for an alignment that has just been claimed. Throws the reason if none could be reserved. */
  take(row: AlignmentRow): { grant: Grant; budget: Budget };
  /** What the alignment waits for; null if it waits only for its turn, or is not the oldest queued one. */
  waitingFor(alignmentId: string): string | null;
}

export function createReservations(parts: ReservationParts): Reservations {
  const { sql, queue } = parts;
  /** Made when canStart finds memory for the next alignment, and used when that alignment is claimed. */
  let reserved: { alignmentId: string; grant: Grant; budget: Budget } | null = null;
  /** Costs of queued alignments: null while the trainer is being asked, an Error if that failed. */
  const costs = new Map<string, RunCost | Error | null>();
  const waiting = new Map<string, string>();
  /** Alignments for which no idle model was left to unload, so they may take a smaller budget at the next check. */
  const cleared = new Set<string>();
  let isClearing = false;

  function askCost(row: AlignmentRow): void {
    costs.set(row.id, null);
    const ask = async (): Promise<RunCost> => {
      const base = parts.baseOf(row.base_model_id);
      const { recipe, autoAlign } = await readOrderedRecipe(join(parts.runs, row.id));
      if (autoAlign === null) return parts.costOf(base, recipe);
      // Whether a phase may reinforce changes only what is told of the configuration, not the recipe.
      const trained = { reinforces: false, context: base.context_length };
      return parts.costOf(base, (await parts.loadPins()).pinned(autoAlign.config, recipe, trained).recipe);
    };
    ask()
      .then(
        (cost) => costs.set(row.id, cost),
        (error: Error) => costs.set(row.id, error),
      )
      .finally(parts.wake);
  }

  /**
   * Returns the largest budget that fits into the free memory, or null if the alignment has to wait. Idle models are
   * unloaded before a smaller budget is taken. Throws out_of_memory if the smallest would not fit even with nothing else
   * running.
   */
  function choose(row: AlignmentRow, cost: RunCost): Want | null {
    const { total, free } = parts.room();
    const wants = wantsOf(cost, total);
    const possible = wants.filter(({ bytes }) => fits(bytes, total));
    if (possible.length === 0) {
      const least = shortage(wants.at(-1)!.bytes, total);
      throw new Failure("out_of_memory", `Even with the smallest passes and nothing else running, it needs ${least}`);
    }
    const same = possible.filter(({ budget }) => isBudget(budget, earlierOf(row)));
    const allowed = same.length > 0 ? same : possible;
    const chosen = allowed.find(({ bytes }) => fits(bytes, free)) ?? null;
    if (chosen !== allowed[0] && !cleared.delete(row.id)) {
      makeWay(row.id);
      return null;
    }
    if (chosen === null) waiting.set(row.id, `It needs ${shortage(allowed.at(-1)!.bytes, free)}`);
    return chosen;
  }

  function makeWay(alignmentId: string): void {
    if (isClearing) return;
    isClearing = true;
    parts
      .makeRoom()
      .catch((error) => {
        parts.log("error", "model.unload_failed", { error });
        return false;
      })
      .then((hasMade) => {
        isClearing = false;
        if (!hasMade) cleared.add(alignmentId);
        parts.wake();
      });
  }

  function threadsOf(row: AlignmentRow): number {
    const share = Math.min(parts.maxRuns, queue.count("align", ["queued", "running", "stopping"]));
    return earlierOf(row)?.threads ?? Math.max(1, Math.floor(parts.threads / Math.max(1, share)));
  }

  function reserve(row: AlignmentRow, cost: RunCost): boolean {
    if (reserved?.alignmentId === row.id) return true;
    reserved?.grant.release();
    reserved = null;
    const want = choose(row, cost);
    if (want === null) return false;
    const budget = { ...want.budget, threads: threadsOf(row) };
    const grant = parts.grant({ bytes: want.bytes, threads: budget.threads }, row.id);
    if (grant !== null) reserved = { alignmentId: row.id, grant, budget };
    return grant !== null;
  }

  function canStart(): boolean {
    const next = sql.oldestQueued.get();
    if (next === undefined) {
      // The alignment may have been cancelled while it waited to be claimed.
      reserved?.grant.release();
      reserved = null;
      for (const kept of [costs, waiting, cleared]) kept.clear();
      return false;
    }
    const cost = costs.get(next.id);
    if (cost === undefined) askCost(next);
    if (!cost) return false;
    if (cost instanceof Error) return true;
    try {
      return reserve(next, cost);
    } catch (error) {
      if (error instanceof Failure && error.code === "out_of_memory") return true;
      throw error;
    }
  }

  function takeReserved(row: AlignmentRow): { grant: Grant; budget: Budget } {
    const cost = costs.get(row.id);
    costs.delete(row.id);
    waiting.delete(row.id);
    if (cost instanceof Error) throw cost;
    if (!cost || !reserve(row, cost)) throw new Failure("out_of_memory");
    const { grant, budget } = reserved!;
    reserved = null;
    return { grant, budget };
  }

  return { canStart, take: takeReserved, waitingFor: (alignmentId) => waiting.get(alignmentId) ?? null };
}
