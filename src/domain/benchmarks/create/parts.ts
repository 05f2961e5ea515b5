// The dependencies of the benchmark maker, and the helpers that its phases share.
import { Failure } from "../../../base/errors.ts";
import type { Clock } from "../../../base/time.ts";
import type { UploadedFile } from "../../../contract/endpoint.ts";
import type { Generator, ModelRef } from "../../../engine/generator.ts";
import type { Claim, Queue } from "../../../jobs/queue.ts";
import type { Store } from "../../../store/open.ts";
import type { BenchmarkRows, Claimed, DraftRow } from "../store.ts";
import type { Grade } from "./checks.ts";
import type { GateCount, SourceDocument } from "./gates.ts";

export interface DraftSettings {
  model_id: string;
  wanted: number;
  seed: number;
  /** The model that writes the questions, and the API key in whose name it is asked; null if only plain forms are used. */
  generator: { model: string; provider: string | null; key_id: string } | null;
}

/** How many candidates of a draft benchmark reached and passed each gate, and the number of items per category. */
export interface Gates {
  gates: GateCount[];
  categories: Record<string, number>;
}

export interface MakeParts {
  store: Store;
  rows: BenchmarkRows;
  queue: Queue;
  clock: Clock;
  generator: Generator;
  /** Folder of the benchmark's file until the benchmark is kept. */
  folder: string;
  documentsOf: (ownerId: string, ids: readonly string[]) => Promise<SourceDocument[]>;
  findModel: (ownerId: string, modelId: string) => { ref: ModelRef };
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  grade: Grade;
  /** The installed sentence encoder; null if there is none. */
  encoder: () => ModelRef | null;
  /** A chat model's answer to one message, at temperature 0. */
  say: (
    ownerId: string,
    by: NonNullable<DraftSettings["generator"]>,
    content: string,
    options: { maxTokens: number; signal: AbortSignal },
  ) => Promise<{ text: string }>;
  /** Keeps the items like an upload; `also` runs in the same transaction. */
  keep: (draft: DraftRow, file: UploadedFile, signal: AbortSignal, also: () => void) => Promise<void>;
}

export const settingsOf = (draft: DraftRow): DraftSettings => JSON.parse(draft.settings_json) as DraftSettings;

/** Returns the parameters with which a write checks that the claim is still held. */
export const markOf = (draft: Pick<DraftRow, "id">, claim: Claim): Claimed & { id: string } => ({
  id: draft.id,
  jobId: claim.jobId,
  fence: claim.fence,
});

export const isStopping = ({ queue }: Pick<MakeParts, "queue">, claim: Claim): boolean =>
  queue.of(claim.subjectId, "generate")?.state === "stopping";

export const takenOver = (): Failure => new Failure("conflict", "Another process took over this benchmark");
