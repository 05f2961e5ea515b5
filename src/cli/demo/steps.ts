// The steps of the demo, each through the REST API alone: what a client of anyone else's would call, in the same order.
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../../base/errors.ts";
import type { RunEvent } from "../../contract/run-folder.ts";
import type { Client, ClientFile, Replies } from "../client.ts";
import type { Progress, Step } from "../progress.ts";

export type Status = Replies["alignments.status"];
export type Results = Replies["evaluations.results"];

export interface Said {
  question: string;
  answer: string;
  confidence: number | null;
}

const pollMs = 500;
const noModelMs = 60_000;

/** The starter model is taken in while the appliance starts. */
export async function firstBaseModel(client: Client, signal: AbortSignal): Promise<string> {
  const until = performance.now() + noModelMs;
  while (performance.now() < until) {
    const { base_models } = await client.api["models.base"]({ signal });
    const usable = base_models.find((model) => model.can_be_aligned);
    if (usable) return usable.model_id;
    if (base_models[0]) throw new Failure("demo_failed", `The base model cannot be aligned: ${base_models[0].reason}`);
    await delay(pollMs, undefined, { signal });
  }
  throw new Failure("demo_failed", "No base model was taken in; is the starter model there? Run ./install.sh");
}

export async function upload(client: Client, documents: ClientFile[], benchmark: ClientFile, signal: AbortSignal) {
  const uploaded = await client.api["documents.upload"]({ files: documents, signal });
  const record = await client.api["benchmarks.upload"]({ files: [benchmark], signal });
  return {
    documentIds: uploaded.documents.map((document) => document.document_id),
    benchmarkId: record.benchmark_id,
    splits: record.splits,
  };
}

export async function evaluate(
  client: Client,
  body: { model_id: string; benchmark_id: string },
  progress: Progress,
  signal: AbortSignal,
): Promise<Results> {
  const { evaluation_id } = await client.api["evaluations.create"]({ body, signal });
  return evaluationResults(client, evaluation_id, "evaluating the base", progress, signal);
}

export async function evaluationResults(
  client: Client,
  evaluationId: string,
  phase: string,
  progress: Progress,
  signal: AbortSignal,
): Promise<Results> {
  const params = { evaluation_id: evaluationId };
  for (;;) {
    const record = await client.api["evaluations.get"]({ params, signal });
    if (record.status === "FAILED") throw new Failure("demo_failed", `The evaluation failed: ${record.error}`);
    if (record.status === "READY") return client.api["evaluations.results"]({ params, signal });
    const step = stepOf(phase, record.progress_detail, {
      done: record.n_samples_completed,
      total: record.n_samples,
      unit: "questions",
    });
    progress.show(record.waiting_for ? { ...step, note: record.waiting_for } : step);
    await delay(pollMs, undefined, { signal });
  }
}

type Detail = { done: number; total: number | null; unit: string; rate: number | null; seconds_left: number | null };

function stepOf(phase: string, detail: Detail | null | undefined, otherwise: Omit<Step, "phase">): Step {
  if (!detail) return { phase, ...otherwise };
  const { done, total, unit, rate, seconds_left } = detail;
  return { phase, done, total, unit, rate, secondsLeft: seconds_left };
}

/** Follows the run to its end. `onEvent` sees every event once. */
export async function followAlignment(
  client: Client,
  alignmentId: string,
  onEvent: (event: RunEvent) => void,
  progress: Progress,
  signal: AbortSignal,
): Promise<Status> {
  const params = { alignment_id: alignmentId };
  await untilBegun(client, params, progress, signal);
  let loss = "";
  for await (const event of client.alignmentEvents(alignmentId, signal)) {
    onEvent(event);
    if (event.kind === "step" && typeof event.metrics?.loss === "number")
      loss = `loss ${event.metrics.loss.toFixed(3)}`;
    if (typeof event.done === "number")
      progress.show({
        phase: event.phase,
        done: event.done,
        total: event.total ?? null,
        unit: event.unit ?? "",
        rate: event.rate ?? null,
        secondsLeft: event.seconds_left ?? null,
        ...(loss === "" || event.phase !== "training" ? {} : { note: loss }),
      });
  }
  // The run's last event comes a moment before the appliance has taken its result in.
  for (;;) {
    const status = await client.api["alignments.status"]({ params, signal });
    if (status.status === "COMPLETED") return status;
    if (status.status === "FAILED" || status.status === "STOPPED")
      throw new Failure("demo_failed", `The alignment ended ${status.status}: ${status.error ?? "no reason given"}`);
    await delay(pollMs, undefined, { signal });
  }
}

/** Until it leaves the queue; says what it waits for there. */
async function untilBegun(
  client: Client,
  params: { alignment_id: string },
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const { phase, waiting_for } = await client.api["alignments.status"]({ params, signal });
    if (phase !== "queued") return;
    if (waiting_for) progress.show({ phase, done: 0, total: null, unit: "steps", note: waiting_for });
    await delay(pollMs, undefined, { signal });
  }
}

export async function deploy(client: Client, modelId: string, signal: AbortSignal): Promise<void> {
  const params = { model_id: modelId };
  let task = await client.api["models.deploy"]({ params, signal });
  while (task.status === "PROCESSING") {
    await delay(pollMs, undefined, { signal });
    task = await client.api["models.deployment"]({ params, signal });
  }
  if (task.status === "FAILED")
    throw new Failure("demo_failed", `The deployment failed: ${JSON.stringify(task.result)}`);
}

/** Greedy answers, a few at a time; in the order of the questions. */
export async function ask(
  client: Client,
  model: string,
  questions: readonly string[],
  progress: Progress,
  signal: AbortSignal,
): Promise<Said[]> {
  const said: Said[] = [];
  const atOnce = 4;
  for (let from = 0; from < questions.length; from += atOnce) {
    const group = questions.slice(from, from + atOnce);
    said.push(...(await Promise.all(group.map((question) => askOne(client, model, question, signal)))));
    progress.show({ phase: "asking", done: said.length, total: questions.length, unit: "questions" });
  }
  return said;
}

async function askOne(client: Client, model: string, question: string, signal: AbortSignal): Promise<Said> {
  const body = { model, messages: [{ role: "user", content: question }], temperature: 0, max_tokens: 64 };
  const reply = await client.api["inference.chat"]({ body, signal });
  return {
    question,
    answer: reply.choices[0]?.message.content ?? "",
    confidence: reply.confidence_score,
  };
}
