// Whether the trainer can train a model, by its own answer: only the trainer knows which models it computes.
import { Failure } from "../../base/errors.ts";
import type { Trainer } from "./trainer.ts";

/** The trainer's codes for a model that it does not train. */
const refusals: readonly unknown[] = ["unsupported_architecture", "invalid_model"];

/**
 * Asks a worker that has just been started, and closes it. An estimate reads the header and the norms, not the weights, and takes a
 * fraction of a second. Returns null when the model can be trained, else why not, as a sentence without its full stop.
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
