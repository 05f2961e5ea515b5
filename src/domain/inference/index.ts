// Answers: completions and chats over the models of this machine, each with its usage row.
import type { Handlers } from "../../contract/endpoint.ts";
import type { inference } from "../../contract/inference.ts";
import type { Store } from "../../store/open.ts";
import { createChat } from "./chat.ts";
import { createCompletions } from "./completions.ts";
import type { SessionParts } from "./session.ts";
import { prepareUsage, type UsageTotals } from "./store.ts";

export interface Inference {
  handlers: Handlers<typeof inference>;
  /** Of all requests that a model ever answered. */
  usageOf(modelId: string): UsageTotals;
}

export function createInference(parts: Omit<SessionParts, "usage"> & { store: Store }): Inference {
  const usage = prepareUsage(parts.store);
  usage.interrupt.run();
  const session: SessionParts = { ...parts, usage };
  return {
    handlers: { "inference.completions": createCompletions(session), "inference.chat": createChat(session) },
    usageOf: (modelId) => usage.totals.get(modelId)!,
  };
}
