// Runs the demo's steps in order, and times each.
import type { Client } from "../client.ts";
import { followAlignment, followEvaluation } from "../follow.ts";
import { note } from "../output.ts";
import { tenths, watchRun } from "../phases.ts";
import type { Progress } from "../progress.ts";
import type { Material } from "./material.ts";
import { type Report, reportOf, saidText } from "./report.ts";
import { ask, deploy, evaluate, firstBaseModel, startAlignment, upload } from "./steps.ts";

/**
 * The idempotency key of a step. It is the same each time, so a demo that was interrupted and is restarted within a day
 * continues where it was.
 */
const keyOf = (workflow: string, what: string): string => `plumbline-demo-${workflow}-${what}`;

/** Runs all steps and returns the report. If this throws, the caller must end `progress`. */
export async function drive(
  client: Client,
  material: Material,
  workflow: string,
  { progress, signal }: { progress: Progress; signal: AbortSignal },
): Promise<Report> {
  const watch = stopwatch();
  const run = watchRun();
  const baseId = await watch.time("start", () => firstBaseModel(client, signal));
  const { documentIds, benchmarkId, splits } = await watch.time("upload", () =>
    upload(client, material, (what) => keyOf(workflow, what), signal),
  );
  note(
    `Uploaded ${documentIds.length} documents and a benchmark: ${splits.dev} dev, ${splits.sealed} sealed questions`,
  );

  const base = await watch.time("evaluate_base", () =>
    // Only sealed questions, because the alignment itself evaluates the base on the dev questions.
    evaluate(
      client,
      { model_id: baseId, benchmark_id: benchmarkId, splits: ["sealed"] },
      { progress, signal, idempotencyKey: keyOf(workflow, "base") },
    ),
  );
  note(`The base model answers ${base.score.toFixed(1)} % of ${base.n} sealed questions`);

  const status = await watch.time("align", async () => {
    const body = {
      alignment_name: "Demo",
      base_model_id: baseId,
      document_ids: documentIds,
      benchmark_id: benchmarkId,
      workflow_id: workflow,
    };
    const alignmentId = await startAlignment(client, body, (what) => keyOf(workflow, what), signal);
    return followAlignment(client, alignmentId, progress, signal, run.see);
  });
  const modelId = String(status.model_id);
  await watch.time("deploy", () => deploy(client, modelId, progress, signal));
  const aligned = await watch.time("evaluate_aligned", () =>
    followEvaluation(client, String(status.evaluation_id), progress, signal, "evaluating the aligned model"),
  );

  const model = await client.api["models.get"]({ params: { model_id: modelId }, signal });
  const said = await watch.time("ask", async () => ({
    baseSaid: await ask(client, baseId, material.questions, progress, signal),
    alignedSaid: await ask(client, modelId, material.questions, progress, signal),
    offTopic: await ask(client, modelId, material.offTopic, progress, signal),
  }));
  const timing = { seconds: watch.seconds(), phases: run.seconds(), steps: run.steps() };
  const report = reportOf({ base, aligned, status, model, ...said, ...timing });
  progress.end();
  note(`\n${saidText(report)}\n`);
  return report;
}

function stopwatch() {
  const taken: Record<string, number> = {};
  const startedMs = performance.now();
  return {
    async time<T>(what: string, work: () => Promise<T>): Promise<T> {
      const fromMs = performance.now();
      try {
        return await work();
      } finally {
        taken[what] = tenths((performance.now() - fromMs) / 1000);
      }
    },
    seconds: () => ({ ...taken, total: tenths((performance.now() - startedMs) / 1000) }),
  };
}
