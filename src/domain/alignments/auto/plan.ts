// Plans an auto-align: combines the project's snapshot and the request into the content of a run folder, or throws the
// reason why that is impossible.
import { Failure } from "../../../base/errors.ts";
import { sha256 } from "../../../base/files.ts";
import type { alignments } from "../../../contract/alignments.ts";
import type { AutoAlignRequest } from "../../../contract/auto-align.ts";
import type { Caller, Input } from "../../../contract/endpoint.ts";
import type { Recipe } from "../../../contract/recipe.ts";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import type { OrderedWork, readWholeSnapshot } from "../snapshot.ts";
import type { AlignmentRow } from "../store.ts";
import { foundRewardModels, type KeptRewardModels, type RewardModelsLookup } from "./reward-models.ts";
import type { PastRow } from "./store.ts";
import { type SealedItem, thirdsCount, thirdsOf } from "./thirds.ts";

export type Planned = Omit<OrderedWork, "alignmentId" | "recipeName"> & {
  benchmarkId: string;
  rewardModels: KeptRewardModels | null;
};

type Snapshot = Awaited<ReturnType<typeof readWholeSnapshot>>;

/** A request as its endpoint receives it; auto-aligns started in other ways build one. */
export type AskedAutoAlign = Pick<Input<(typeof alignments)["alignments.auto_align"]>, "body" | "raw" | "keepReply">;

/** What a request adds to its project. */
export interface Extra {
  /** Further documents for the run to learn from. */
  documents: readonly SnapshotDocument[];
  /** Called within the transaction that queues or only records the auto-align; not called if planning fails. */
  also: (autoAlignId: string) => void;
}

export interface Base {
  id: string;
  sha256: string;
  architecture: string;
}

/** The look-ups that planning needs. */
export interface PlanningParts extends RewardModelsLookup {
  recipes: ReadonlyMap<string, Recipe>;
  /** Throws the reason if the base cannot be aligned. */
  alignableBase: (name: string, caller: Caller) => Promise<Base>;
  findBenchmark: (ownerId: string, benchmarkId: string) => { id: string; sha256: string } | null;
  /** Sealed items in the benchmark's order. */
  sealedOf: (benchmarkId: string) => SealedItem[];
  devOf: (benchmark: { id: string; sha256: string }) => NonNullable<OrderedWork["dev"]>;
  /** Throws a validation failure if the target uses a reward that cannot score every question. */
  checkMetric: (config: AutoAlignRequest["config"], benchmarkId: string) => Promise<void>;
}

/** Adds the request's own documents to the project's snapshot. */
export const withDocuments = (snapshot: Snapshot, { documents }: Extra): Snapshot => ({
  ...snapshot,
  documents: [...snapshot.documents, ...documents],
  ...(snapshot.originals && { originals: [...snapshot.originals, ...documents.map(({ text }) => sha256(text))] }),
});

interface Planning extends Pick<AskedAutoAlign, "body" | "raw"> {
  id: string;
  project: AlignmentRow;
  caller: Caller;
  snapshot: Snapshot;
  past: (baseId: string) => PastRow[];
}

/** Checks the request and returns the content of its run folder. Throws the reason if the auto-align cannot be planned. */
export async function planOf(
  parts: PlanningParts,
  { id, body, raw, project, caller, snapshot, past }: Planning,
): Promise<Planned> {
  const base = await parts.alignableBase(body.config?.base_model ?? project.base_model_id, caller);
  const benchmarkId = body.benchmark_id ?? project.benchmark_id;
  const benchmark = benchmarkId === null ? null : parts.findBenchmark(caller.userId, benchmarkId);
  if (benchmark === null)
    throw new Failure("auto_align_unmeasurable", "Neither the request nor the project names an existing benchmark");
  const sealed = parts.sealedOf(benchmark.id);
  const thirds = thirdsOf(sealed);
  if (thirds === null) {
    const facts = new Set(sealed.map(({ cluster }) => cluster)).size;
    throw new Failure(
      "auto_align_unmeasurable",
      `The benchmark's ${sealed.length} sealed questions are about ${facts} facts; looks need at least ${thirdsCount}`,
    );
  }
  const dev = parts.devOf(benchmark);
  if (dev.items.length === 0)
    throw new Failure("auto_align_unmeasurable", "The benchmark has no dev questions to plan with");
  const { config: _, ...request } = body;
  const config = JSON.parse(raw.config ?? "null") as AutoAlignRequest["config"];
  await parts.checkMetric(config, benchmark.id);
  const rewardModels = foundRewardModels(parts, body, caller);
  return {
    ...snapshot,
    rewardModels,
    recipe: parts.recipes.get(project.workflow_id) ?? snapshot.recipe,
    base: { id: base.id, sha256: base.sha256, architecture: base.architecture },
    dev,
    benchmarkId: benchmark.id,
    autoAlign: {
      auto_align_id: id,
      request: { ...request, config },
      past: past(base.id),
      thirds: thirds.map((third) => third.length),
    },
  };
}
