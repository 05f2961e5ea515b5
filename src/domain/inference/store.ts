// All SQL of inference. The usage table has one row per recorded request, which is inserted at admission and updated when
// the request ends.
import type { Store } from "../../store/open.ts";

export type UsageOutcome = "done" | "aborted" | "failed";

export interface UsageTotals {
  requests: number;
  prompt_tokens: number;
  completion_tokens: number;
}

export const prepareUsage = (store: Store) => ({
  open: store.prepare<{
    requestId: string;
    ownerId: string;
    keyId: string;
    modelId: string;
    promptTokens: number;
    at: string;
  }>(
    `INSERT INTO usage(request_id, owner_id, key_id, model_id, prompt_tokens, completion_tokens, outcome, created_at)
     VALUES(:requestId, :ownerId, :keyId, :modelId, :promptTokens, 0, 'open', :at)`,
  ),
  end: store.prepare<[number, UsageOutcome, string]>(
    "UPDATE usage SET completion_tokens = ?, outcome = ? WHERE request_id = ? AND outcome = 'open'",
  ),
  /** For a request whose number of prompt tokens is known only after they have been read. */
  read: store.prepare<[number, string]>("UPDATE usage SET prompt_tokens = ? WHERE request_id = ? AND outcome = 'open'"),
  /** Marks as interrupted the requests that were still open when the appliance last ended. Run at start. */
  interrupt: store.prepare<[]>("UPDATE usage SET outcome = 'interrupted' WHERE outcome = 'open'"),
  totals: store.prepare<[string], UsageTotals>(
    `SELECT count(*) AS requests, coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
     coalesce(sum(completion_tokens), 0) AS completion_tokens FROM usage WHERE model_id = ?`,
  ),
});

export const prepareResponses = (store: Store) => ({
  insert: store.prepare<{ id: string; ownerId: string; response: string; messages: string; at: string }>(
    `INSERT INTO response(id, owner_id, response_json, messages_json, created_at)
     VALUES(:id, :ownerId, :response, :messages, :at)`,
  ),
  get: store.prepare<[id: string, ownerId: string], { response_json: string; messages_json: string }>(
    "SELECT response_json, messages_json FROM response WHERE id = ? AND owner_id = ?",
  ),
  remove: store.prepare<[id: string, ownerId: string]>("DELETE FROM response WHERE id = ? AND owner_id = ?"),
});

export type ResponseSql = ReturnType<typeof prepareResponses>;
export type UsageSql = ReturnType<typeof prepareUsage>;
