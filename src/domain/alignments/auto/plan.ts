// What an auto-align's run folder is made from: the project's snapshot and what the request asks for, or the reason why
// it cannot be made.
import { Failure } from "../../../base/errors.ts";
import { sha256 } from "../../../base/files.ts";
import type { AutoAlignRequest } from "../../../contract/auto-align.ts";
import type { Caller } from "../../../contract/endpoint.ts";
import type { OrderedWork, readWholeSnapshot } from "../snapshot.ts";
import type { AlignmentRow } from "../store.ts";
import type { AskedAutoAlign, AutoAlignsParts, Extra } from "./index.ts";
import { foundRewardModels, type KeptRewardModels, type RewardModelsLookup } from "./reward-models.ts";
import type { PastRow } from "./store.ts";
import { thirdsCount, thirdsOf } from "./thirds.ts";

export type Planned = Omit<OrderedWork, "alignmentId" | "recipeName"> & {
  benchmarkId: string;
  rewardModels: KeptRewardModels | null;
};

type Snapshot = Awaited<ReturnType<typeof readWholeSnapshot>>;

/** The project's snapshot with the documents that the request adds. */
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

/** Throws the reason if the auto-align fails at planning. */
export async function planOf(
  parts: Pick<AutoAlignsParts, "alignableBase" | "findBenchmark" | "sealedOf" | "devOf" | "checkMetric" | "recipes"> &
    RewardModelsLookup,
  { id, body, raw, project, caller, snapshot, past }: Planning,
): Promise<Planned> {
  const base = await parts.alignableBase(body.config?.base_model ?? project.base_model_id, caller);
  const benchmarkId = body.benchmark_id ?? project.benchmark_id;
  const benchmark = benchmarkId === null ? null : parts.findBenchmark(caller.userId, benchmarkId);
  if (benchmark === null)
    throw new Failure("auto_align_unmeasurable", "Neither the request nor the project names a benchmark that there is");
  const sealed = parts.sealedOf(benchmark.id);
  const thirds = thirdsOf(sealed);
  if (thirds === null) {
    const facts = new Set(sealed.map(({ cluster }) => cluster)).size;
    throw new Failure(
      "auto_align_unmeasurable",
      `The benchmark's ${sealed.length} sealed questions are about ${facts} facts, and looks need ${thirdsCount} at least`,
    );
  }
  const dev = parts.devOf(benchmark);
  if (dev.items.length === 0)
    throw new Failure("auto_align_unmeasurable", "The benchmark has no dev questions to plan by");
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
