// Answers, vectors and ranks of the models of this machine, each request with its usage row.
import type { Caller, Handlers } from "../../contract/endpoint.ts";
import type { inference } from "../../contract/inference.ts";
import type { tokens } from "../../contract/tokens.ts";
import type { vectors } from "../../contract/vectors.ts";
import type { Store } from "../../store/open.ts";
import { createChat } from "./chat.ts";
import { createCompletions } from "./completions.ts";
import { createEmbeddings } from "./embeddings.ts";
import { createRerank, createRerankCohere } from "./rerank.ts";
import type { SessionParts } from "./session.ts";
import { prepareUsage, type UsageTotals } from "./store.ts";
import { createTokens, type ListedModel } from "./tokens.ts";

export interface InferenceParts extends Omit<SessionParts, "usage"> {
  store: Store;
  /** Models that the caller may use now. */
  listModels: (caller: Caller) => ListedModel[];
}

export interface Inference {
  handlers: Handlers<typeof inference & typeof vectors & typeof tokens>;
  /** Of all requests that a model ever answered. */
  usageOf(modelId: string): UsageTotals;
}

export function createInference(parts: InferenceParts): Inference {
  const usage = prepareUsage(parts.store);
  usage.interrupt.run();
  const session: SessionParts = { ...parts, usage };
  return {
    handlers: {
      "inference.completions": createCompletions(session),
      "inference.chat": createChat(session),
      "inference.embeddings": createEmbeddings(session),
      "inference.rerank": createRerank(session),
      "inference.rerank_cohere": createRerankCohere(session),
      ...createTokens(session, parts.listModels),
    },
    usageOf: (modelId) => usage.totals.get(modelId)!,
  };
}
