// Runs a request that generates no tokens: holds its model, and writes its usage row at the beginning and the end.
import { Failure } from "../../base/errors.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type { ModelKind, Tokenizer } from "../../engine/generator.ts";
import { refuseProvider } from "./provider.ts";
import type { ServedModel, SessionParts } from "./session.ts";

export interface Held {
  model: ServedModel;
  kind: ModelKind;
  tokenizer: Tokenizer;
  /** Reports how many tokens were read, once that is known. */
  count(promptTokens: number): void;
}

interface Asked {
  headers: Record<string, unknown>;
  requestId: string;
  signal: AbortSignal;
}

/** `kinds`: if no model is named, the only base of the first of these kinds that has any. */
export async function withModel<T>(
  parts: SessionParts,
  { headers, requestId, signal }: Asked,
  caller: Caller,
  name: string | undefined,
  kinds: readonly ModelKind[],
  work: (held: Held) => Promise<T>,
): Promise<T> {
  refuseProvider(headers);
  const { usage, clock, log, generator, metrics } = parts;
  const model = parts.resolve(caller, name ?? parts.onlyBase(kinds));
  const lease = await parts.lease(model.ref);
  try {
    if (signal.aborted) throw new Failure("cut_off");
    const { modelId } = model;
    const row = { requestId, ownerId: caller.userId, keyId: caller.keyId, modelId, promptTokens: 0 };
    usage.open.run({ ...row, at: clock.now() });
    const begun = clock.monotonicMs();
    let read = 0;
    const end = (outcome: "done" | "aborted" | "failed"): void => {
      usage.end.run(0, outcome, requestId);
      metrics.tokens(read, 0);
      log("info", "inference.ended", {
        requestId,
        modelId,
        outcome,
        promptTokens: read,
        ms: clock.monotonicMs() - begun,
      });
    };
    try {
      const result = await work({
        model,
        kind: generator.kind(model.ref.baseId),
        tokenizer: generator.tokenizer(model.ref.baseId),
        count: (promptTokens) => {
          read = promptTokens;
          usage.read.run(promptTokens, requestId);
        },
      });
      end("done");
      return result;
    } catch (error) {
      end(signal.aborted ? "aborted" : "failed");
      throw signal.aborted ? new Failure("cut_off") : error;
    }
  } finally {
    await lease.release();
  }
}
