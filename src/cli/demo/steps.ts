// The demo's steps. They use only the REST API, so any other client could make the same calls.
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../../base/errors.ts";
import type { Client, Replies } from "../client.ts";
import { type AlignmentStatus, followDeployment, followEvaluation } from "../follow.ts";
import type { Progress } from "../progress.ts";
import type { Material } from "./material.ts";

export type Status = AlignmentStatus;
export type Results = Replies["evaluations.results"];

export interface Said {
  question: string;
  answer: string;
  confidence: number | null;
}

const pollMs = 500;
const noModelMs = 60_000;

/**
 * Returns the id of the smallest base model that can be aligned. Waits up to a minute until there is a base model, because
 * the starter model is imported while the appliance starts. Throws work_failed.
 */
export async function firstBaseModel(client: Client, signal: AbortSignal): Promise<string> {
  const until = performance.now() + noModelMs;
  while (performance.now() < until) {
    const { base_models } = await client.api["models.base"]({ signal });
    const usable = base_models.filter((model) => model.can_be_aligned);
    const [smallest] = usable.toSorted((a, b) => a.parameters - b.parameters);
    if (smallest) return smallest.model_id;
    if (base_models[0]) throw new Failure("work_failed", `The base model cannot be aligned: ${base_models[0].reason}`);
    await delay(pollMs, undefined, { signal });
  }
  throw new Failure(
    "work_failed",
    "No base model was imported; run `plumbline doctor` to see whether the starter model exists",
  );
}

export async function upload(
  client: Client,
  { documents, benchmark }: Pick<Material, "documents" | "benchmark">,
  keyOf: (what: string) => string,
  signal: AbortSignal,
) {
  const uploaded = await client.api["documents.upload"]({
    files: documents,
    idempotencyKey: keyOf("documents"),
    signal,
  });
  const record = await client.api["benchmarks.upload"]({
    files: [benchmark],
    idempotencyKey: keyOf("benchmark"),
    signal,
  });
  return {
    documentIds: uploaded.documents.map((document) => document.document_id),
    benchmarkId: record.benchmark_id,
    splits: record.splits,
  };
}

export async function evaluate(
  client: Client,
  body: { model_id: string; benchmark_id: string; splits: ("dev" | "sealed")[] },
  { progress, signal, idempotencyKey }: { progress: Progress; signal: AbortSignal; idempotencyKey: string },
): Promise<Results> {
  const { evaluation_id } = await client.api["evaluations.create"]({ body, idempotencyKey, signal });
  return followEvaluation(client, evaluation_id, progress, signal, "evaluating the base");
}

/**
 * Starts the alignment and returns its id. One that an earlier command started is taken up, unless it failed or was stopped. Each such
 * end gives the next one another idempotency key.
 */
export async function startAlignment(
  client: Client,
  body: object,
  keyOf: (what: string) => string,
  signal: AbortSignal,
): Promise<string> {
  const ended = ["FAILED", "STOPPED"].map((status) =>
    client.api["alignments.list"]({ query: { status, limit: 100 }, signal }),
  );
  const lost = new Set(
    (await Promise.all(ended)).flatMap(({ alignment_projects }) => alignment_projects.map(({ id }) => id)),
  );
  for (let what = "alignment"; ; ) {
    const { alignment_id } = await client.api["alignments.create"]({ body, idempotencyKey: keyOf(what), signal });
    if (!lost.has(alignment_id)) return alignment_id;
    what = `after-${alignment_id}`;
  }
}

export async function deploy(client: Client, modelId: string, progress: Progress, signal: AbortSignal): Promise<void> {
  await client.api["models.deploy"]({ params: { model_id: modelId }, signal });
  await followDeployment(client, modelId, progress, signal);
}

/** Asks the questions a few at a time, with greedy decoding. Returns the answers in the order of the questions. */
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
