// An alignment run from start to end, over one folder (contract/run-folder.ts): prepare → train in rungs → measure the guards → repair if
// one failed → choose checkpoint and scale → package.
//
//   preparing ──► training ◄──► checking ◄──► repairing
//       │            │             └──► packaging ──► result.json: completed
//       └────────────┴──── stop ────────────┴───────► result.json: stopped
//       └────────────┴──── failure ─────────┴───────► result.json: failed, with code and message
//
// Invariants:
//   1. A run killed at any moment and started again, with the same build, gives the same losses, bit for bit, and the same adapter.
//   2. A process writes the result last. It writes nothing after it.
//   3. The trainer and the inference engine are never open at the same time.
//   4. A checkpoint is used only for the request and rows that it was made from.
import { join } from "node:path";
import { removeTemporaries, writeJsonDurably } from "../base/files.ts";
import type { RunResult } from "../contract/run-folder.ts";
import { autoAlign } from "./auto.ts";
import { askBase, type BaseSaid, chooseAdapter } from "./choose.ts";
import { createRun, type Run, type RunParts } from "./context.ts";
import { Stopped } from "./control.ts";
import { type EventDraft, openEventLog } from "./events.ts";
import { readRequest, readSnapshot, verifyBase } from "./folder/request.ts";
import { exportAdapter, finishPackage } from "./package.ts";
import { prepare } from "./prepare.ts";
import { earlierResult, failedResult, stoppedResult } from "./result.ts";
import {
  checkBase,
  checkStep,
  climb,
  openBase,
  openTraining,
  rungEnd,
  saveStep,
  type Training,
  trainStep,
} from "./training.ts";

/** Runs the alignment in the folder to its result, continuing where an earlier process stopped. The caller must hold the folder's lock. */
export async function runAlignment(folder: string, parts: RunParts): Promise<RunResult> {
  const beganMs = parts.clock.monotonicMs();
  const request = await readRequest(folder);
  const earlier = await earlierResult(folder, request);
  if (earlier !== null) return earlier;
  await removeTemporaries(folder);
  await verifyBase(request);
  const snapshot = await readSnapshot(folder, request);
  const { tokenizer, dispose } = await parts.openTokenizer(request.base.path);
  const events = await openEventLog(join(folder, "events.jsonl"), request.fence, parts.clock);
  const run = createRun({ folder, request, snapshot, parts, events, tokenizer, beganMs });
  try {
    const { result, last } = await work(run).then(
      (result) => ({
        result,
        last: {
          kind: result.outcome === "completed" ? "done" : "decision",
          phase: "packaging",
          message: messageOf(result),
        } as EventDraft,
      }),
      (error) => endOf(run, error),
    );
    run.close();
    await removeTemporaries(folder);
    await events.append(last);
    await writeJsonDurably(join(folder, "result.json"), result);
    return result;
  } finally {
    run.close();
    await events.close();
    await dispose();
  }
}

/** Returns the message of the last event. */
function messageOf({ outcome, verdict, auto_align: told }: RunResult): string {
  if (outcome === "look") return `Look ${told!.look! + 1}: ${told!.checkpoint} waits for its sealed questions`;
  if (outcome === "paused") return `Paused: ${told!.help[0] ?? "nothing is likely to help"}`;
  if (verdict === undefined)
    return told?.status === "REACHED"
      ? "The base reaches the target, so there is no artefact"
      : "No checkpoint is better than the base, so there is no artefact";
  return `${verdict.headline}. The artefact is ready`;
}

/** Returns the result and the last event of a run whose work threw. */
function endOf(run: Run, error: unknown): { result: RunResult; last: EventDraft } {
  const { request, phase, parts } = run;
  // After a stop, interrupted work may throw any error. The outcome is still the stop that the user requested.
  if (error instanceof Stopped || parts.control.signal.aborted)
    return { result: stoppedResult(request), last: { kind: "stopped", phase, message: "Stopped on request" } };
  parts.log("error", "run.failed", { error });
  const result = failedResult(request, error);
  return { result, last: { kind: "failed", phase, ...result.error! } };
}

async function work(run: Run): Promise<RunResult> {
  if (run.request.auto_align != null) return autoAlign(run);
  const prepared = await prepare(run);
  await run.turn();

  const trainer = run.parts.startTrainer();
  let training: Training;
  let exported: Awaited<ReturnType<typeof exportAdapter>>;
  try {
    await run.enter("training");
    training = await openTraining(run, await openBase(run, trainer), prepared);
    const base = await askBase(run, trainer, prepared.dev);
    await train(run, training, base);
    const chosen = await chooseAdapter(run, training, base);
    await run.enter("packaging");
    exported = await exportAdapter(run, training, chosen);
  } finally {
    await trainer.close();
  }

  return finishPackage(run, training, exported);
}

/** The training loop. It handles stop and pause between two steps, and during a check between two calls of the trainer. */
async function train(run: Run, training: Training, base: BaseSaid): Promise<void> {
  const { state } = training;
  const { checkpointing, evaluation } = run.request.recipe;
  const hasDev = training.prepared.dev.length > 0;
  if (hasDev && state.checks.length === 0) await checkBase(run, training, base.dev);
  while (state.ended === null) {
    await run.turn();
    await trainStep(run, training);
    const isEnd = state.step === rungEnd(run, training);
    // Counted from the last check, because a check at the end of a rung replaces one that would come soon after it.
    const unchecked = state.step - (state.checks.at(-1)?.step ?? 0);
    const isCheck = hasDev && (unchecked >= evaluation.eval_every_steps || isEnd);
    const { isBest, isStale } = isCheck ? await checkStep(run, training) : { isBest: false, isStale: false };
    if (isEnd || isStale) await climb(run, training, isEnd ? "steps" : "patience");
    const isSave = state.step % checkpointing.save_every_steps === 0;
    if (isSave || isBest || isEnd || isStale) await saveStep(run, training);
  }
}
