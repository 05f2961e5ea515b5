// Answers, embeddings and rankings by the models of this machine, or by an upstream. Each such request has a usage row.
// Requests that only count or convert tokens, or list models, have none.
import { Failure } from "../../base/errors.ts";
import type { chat } from "../../contract/chat.ts";
import type { completions } from "../../contract/completions.ts";
import type { Caller, Handler, Handlers } from "../../contract/endpoint.ts";
import type { messages } from "../../contract/messages.ts";
import type { responses } from "../../contract/responses.ts";
import type { tokens } from "../../contract/tokens.ts";
import type { vectors } from "../../contract/vectors.ts";
import type { Store } from "../../store/open.ts";
import { createChat } from "./chat.ts";
import { begun, type RunChat } from "./chat-events.ts";
import { checkLimits } from "./chat-request.ts";
import { answerLocally } from "./chat-session.ts";
import { createCompletions } from "./completions.ts";
import { createEmbeddings } from "./embeddings.ts";
import { createCountTokens, createMessages } from "./messages.ts";
import { patient } from "./patient.ts";
import { createRerank, createRerankCohere } from "./rerank.ts";
import { createResponses } from "./responses.ts";
import { createSaying, type Say } from "./say.ts";
import type { SessionParts } from "./session.ts";
import { prepareResponses, prepareUsage, type UsageTotals } from "./store.ts";
import { createTokens, type ListedModel } from "./tokens.ts";
import { answerByUpstream } from "./upstream-chat.ts";
import { createForward, isForwarded, orUpstream, type Upstreams } from "./upstreams.ts";

export { createDriftMeter } from "./drift.ts";
export { upstreamsOf } from "./upstreams.ts";

export interface InferenceParts extends Omit<SessionParts, "usage"> {
  upstreams: Upstreams;
  store: Store;
  /** Models that the caller may use now. */
  listModels: (caller: Caller) => ListedModel[];
}

export interface Inference {
  handlers: Handlers<
    typeof completions & typeof chat & typeof messages & typeof responses & typeof vectors & typeof tokens
  >;
  /**
   * Answers a chat as the endpoint does, except that the prompt of a request without prompt_truncate_len may fill the context
   * of the model, less the room for the answer.
   */
  chatInRoom: Handler<(typeof chat)["inference.chat"]>;
  /** Totals of all requests ever made to a model. */
  usageOf(modelId: string): UsageTotals;
  /**
   * Lets other rooms send a message to a base, a deployed model or an upstream's model, on behalf of an owner. Waits while the
   * model cannot answer.
   */
  say: Say;
}

export function createInference(parts: InferenceParts): Inference {
  const usage = prepareUsage(parts.store);
  usage.interrupt.run();
  const session: SessionParts = { ...parts, usage };
  const forward = createForward({ ...session, upstreams: parts.upstreams });
  const run: RunChat = async (request, asked, caller) => {
    checkLimits(request);
    if (isForwarded(asked.headers)) return answerByUpstream(forward, request, asked, caller);
    const answer = await answerLocally(session, request, asked, caller);
    const started = await begun(answer.events);
    if (started === null) throw new Failure("inference_failed", "The answer did not begin");
    return { ...answer, events: started.all };
  };
  return {
    handlers: {
      "inference.completions": orUpstream(forward, "completions", createCompletions(session)),
      "inference.chat": orUpstream(forward, "chat/completions", createChat(session)),
      "inference.messages": createMessages(run),
      "inference.count_tokens": createCountTokens(session),
      ...createResponses({
        run,
        sql: prepareResponses(parts.store),
        hasDocument: parts.hasDocument,
        clock: parts.clock,
        log: parts.log,
      }),
      "inference.embeddings": orUpstream(forward, "embeddings", createEmbeddings(session)),
      "inference.rerank": createRerank(session),
      "inference.rerank_cohere": createRerankCohere(session),
      ...createTokens(session, parts.listModels),
    },
    chatInRoom: createChat(session, "room"),
    usageOf: (modelId) => usage.totals.get(modelId)!,
    say: patient(createSaying(session, forward), parts),
  };
}
