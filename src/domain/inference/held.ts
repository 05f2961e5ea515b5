// Runs requests that generate no tokens. They hold a lease on their model while they run.
import { Failure } from "../../base/errors.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type { ModelKind, Tokenizer } from "../../engine/generator.ts";
import { openAccount } from "./account.ts";
import { type Asked, refuseProvider, type ServedModel, type SessionParts } from "./session.ts";

/**
 * Runs `work` while it holds a lease on the named model. Without a name, the model is the only base of the first of
 * `kinds` that has any. Records no usage.
 */
export async function withTokenizer<T>(
  parts: SessionParts,
  { headers }: Pick<Asked, "headers">,
  caller: Caller,
  name: string | undefined,
  kinds: readonly ModelKind[],
  work: (tokenizer: Tokenizer, model: ServedModel) => T | Promise<T>,
): Promise<T> {
  refuseProvider(headers);
  const model = parts.resolve(caller, name ?? parts.onlyBase(kinds));
  const lease = await parts.lease(model.ref);
  try {
    return await work(parts.generator.tokenizer(model.ref.baseId), model);
  } finally {
    await lease.release();
  }
}

export interface Held {
  model: ServedModel;
  kind: ModelKind;
  tokenizer: Tokenizer;
  /** Reports how many tokens were read, once the number is known. */
  count(promptTokens: number): void;
}

/** Like withTokenizer, but records a usage row. Throws cut_off if the client has disconnected. */
export const withModel = <T>(
  parts: SessionParts,
  asked: Pick<Asked, "headers" | "requestId" | "signal">,
  caller: Caller,
  name: string | undefined,
  kinds: readonly ModelKind[],
  work: (held: Held) => Promise<T>,
): Promise<T> =>
  withTokenizer(parts, asked, caller, name, kinds, async (tokenizer, model) => {
    const { signal } = asked;
    if (signal.aborted) throw new Failure("cut_off");
    const account = openAccount(parts, asked, caller, model.modelId);
    const kind = parts.generator.kind(model.ref.baseId);
    try {
      const result = await work({ model, kind, tokenizer, count: account.read });
      account.end("done", 0);
      return result;
    } catch (error) {
      account.end(signal.aborted ? "aborted" : "failed", 0);
      throw signal.aborted ? new Failure("cut_off") : error;
    }
  });
