// Finds out whether the trainer can train a model. Only the trainer itself knows which models it supports.
import { Failure } from "../../base/errors.ts";
import type { Trainer } from "./trainer.ts";

/** The trainer's codes for a model that it does not train. */
const refusals: readonly unknown[] = ["unsupported_architecture", "invalid_model"];

/**
 * Returns null if the model can be trained, else the reason, as a sentence without its full stop. Requests an estimate from a
 * worker that has just been started, and closes the worker. An estimate reads the header and the norms, not the other weights,
 * and takes a fraction of a second.
 */
export async function reasonNotToTrain(trainer: Trainer, path: string): Promise<string | null> {
  try {
    const smallest = { rank: 1, targets: ["attn_q" as const], longestRow: 1, passTokens: 1 };
    await trainer.estimate({ path, ...smallest, threads: 1, device: "cpu", precision: "fp32" });
    return null;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { code, refusal, hint } = error.context;
    if (!refusals.includes(code)) return `The trainer could not examine it: ${error.message}`;
    const supported = code === "unsupported_architecture" ? `. ${String(hint).replace(/\.$/, "")}` : "";
    return `It cannot be trained yet: ${refusal}${supported}`;
  } finally {
    await trainer.close();
  }
}
