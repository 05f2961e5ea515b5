// Runs the demo's steps in order, and times each.
import type { RunEvent } from "../../contract/run-folder.ts";
import type { Client } from "../client.ts";
import { note } from "../output.ts";
import { startProgress } from "../progress.ts";
import type { Material } from "./material.ts";
import { type Report, reportOf, saidText } from "./report.ts";
import { align, ask, deploy, evaluate, evaluationResults, firstBaseModel, upload } from "./steps.ts";

/**
 * The idempotency key of a step. It is the same each time, so a demo that was interrupted and is restarted within a day
 * continues where it was.
 */
const keyOf = (workflow: string, what: string): string => `plumbline-demo-${workflow}-${what}`;

export async function drive(
  client: Client,
  material: Material,
  workflow: string,
  signal: AbortSignal,
): Promise<Report> {
  const progress = startProgress();
  const watch = stopwatch();
  const run = watchRun();
  try {
    const baseId = await watch.time("start", () => firstBaseModel(client, signal));
    const { documentIds, benchmarkId, splits } = await watch.time("upload", () =>
      upload(client, material, (what) => keyOf(workflow, what), signal),
    );
    note(
      `Uploaded ${documentIds.length} documents and a benchmark: ${splits.dev} dev, ${splits.sealed} sealed questions`,
    );

    const base = await watch.time("evaluate_base", () =>
      // The alignment itself evaluates the base on the dev questions.
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
      const idempotencyKey = keyOf(workflow, "alignment");
      const { alignment_id } = await client.api["alignments.create"]({ body, idempotencyKey, signal });
      return align(client, alignment_id, run.see, progress, signal);
    });
    const modelId = String(status.model_id);
    await watch.time("deploy", () => deploy(client, modelId, progress, signal));
    const aligned = await watch.time("evaluate_aligned", () =>
      evaluationResults(client, String(status.evaluation_id), "evaluating the aligned model", progress, signal),
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
  } finally {
    progress.end();
  }
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

/** Steps and seconds per phase, from the run's own events. */
function watchRun() {
  const seconds: Record<string, number> = {};
  let steps = 0;
  let last: { phase: string; at: number } | null = null;
  return {
    see(event: RunEvent): void {
      const at = Date.parse(event.at);
      if (last) seconds[last.phase] = (seconds[last.phase] ?? 0) + (at - last.at) / 1000;
      last = { phase: event.phase, at };
      if (event.kind === "step") steps = Math.max(steps, event.step ?? 0);
    },
    steps: () => steps,
    seconds: () => Object.fromEntries(Object.entries(seconds).map(([phase, value]) => [phase, tenths(value)])),
  };
}

const tenths = (value: number): number => Math.round(value * 10) / 10;
