// The usage row of a request. It is inserted when the work begins, and closed at the end with the numbers of prompt and
// completion tokens. The same numbers go to the metrics and the log.
import type { Log } from "../../base/log.ts";
import type { Metrics } from "../../base/metrics.ts";
import type { Clock } from "../../base/time.ts";
import type { Caller } from "../../contract/endpoint.ts";
import type { UsageOutcome, UsageSql } from "./store.ts";

export interface AccountParts {
  usage: UsageSql;
  clock: Clock;
  log: Log;
  metrics: Pick<Metrics, "tokens">;
}

export interface Account {
  /** Sets the number of prompt tokens if it was not known at the beginning. */
  read(promptTokens: number): void;
  end(outcome: UsageOutcome, completionTokens: number): void;
}

/** Inserts the usage row of a request and returns the means to close it. All `facts` are also logged at the end. */
export function openAccount(
  { usage, clock, log, metrics }: AccountParts,
  { requestId, headers }: { requestId: string; headers: Record<string, unknown> },
  caller: Caller,
  modelId: string,
  facts: { promptTokens: number; truncatedTokens?: number } = { promptTokens: 0 },
): Account {
  let { promptTokens } = facts;
  const [ownerId, keyId] = [caller.userId, caller.keyId];
  usage.open.run({ requestId, ownerId, keyId, modelId, promptTokens, at: clock.now() });
  const begun = clock.monotonicMs();
  return {
    read(tokens) {
      promptTokens = tokens;
      usage.read.run(tokens, requestId);
    },
    end(outcome, completionTokens) {
      usage.end.run(completionTokens, outcome, requestId);
      metrics.tokens(promptTokens, completionTokens);
      const sessionId = headers["x-session-id"];
      const ms = Math.round(clock.monotonicMs() - begun);
      log("info", "inference.ended", {
        ...facts,
        requestId,
        modelId,
        outcome,
        promptTokens,
        completionTokens,
        sessionId,
        ms,
      });
    },
  };
}
