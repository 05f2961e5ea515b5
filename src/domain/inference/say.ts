// Sends one message to a chat model and returns its answer. The call is handled and recorded like a client's request. The
// model is a base, a deployed model or an upstream's.
import { Failure } from "../../base/errors.ts";
import { randomWord } from "../../base/ids.ts";
import type { Caller } from "../../contract/endpoint.ts";
import { type WholeAnswer, wholeAnswers } from "./chat-events.ts";
import { type ChatRequest, requestDefaults } from "./chat-request.ts";
import { answerLocally } from "./chat-session.ts";
import type { Asked, SessionParts } from "./session.ts";
import { answerByUpstream } from "./upstream-chat.ts";
import { refusedWith } from "./upstream-refusals.ts";
import type { Forward } from "./upstreams.ts";

export interface Said {
  /** The answer without the thought that a model may put before it. */
  text: string;
  /** False if the model stopped at the token limit. */
  isWhole: boolean;
}

/**
 * Returns a chat model's answer to one message, at temperature 0 if the model can be asked at it. The message is never cut:
 * throws prompt_too_long, or bad_request of an upstream, if the context has no room for it and a short answer. Throws what the
 * chat endpoint throws. `maxTokens` limits the answer, and with it the thought of a model that cannot be kept from thinking;
 * models whose context or limit is smaller get a lower limit.
 */
export type Say = (
  ownerId: string,
  by: { model: string; provider: string | null; key_id: string },
  content: string,
  options: { maxTokens: number; signal: AbortSignal },
) => Promise<Said>;

/** Tokens of an answer that must have room beside the message; a shorter answer to a longer limit is of no use. */
const leastTokens = 500;

export function createSaying(parts: SessionParts, forward: Forward): Say {
  const askUpstream = createAskingUpstream(parts, forward);
  return async (ownerId, { model, provider, key_id }, content, { maxTokens, signal }) => {
    const request: ChatRequest = {
      ...requestDefaults,
      model,
      messages: [{ role: "user", content, at: ["body", "messages", 0] }],
      messagesAt: ["body", "messages"],
      draw: { temperature: 0 },
      maxTokens,
    };
    const caller = { userId: ownerId, userName: "", keyId: key_id };
    const said = await (provider === null
      ? askHere(parts, request, askedOf({}, signal), caller)
      : askUpstream(provider, request, signal, caller));
    if (!said.isWhole) parts.log("warn", "answer_cut_off", { model, provider, tokens: maxTokens });
    return said;
  };
}

const askedOf = (headers: Record<string, unknown>, signal: AbortSignal): Asked => ({
  headers,
  requestId: `req_${randomWord()}`,
  signal,
  // Only background work asks here, and it must not keep a person waiting.
  priority: "generation",
  setHeader: () => {},
});

const isWhole = ({ end }: WholeAnswer): boolean => end.finishReason !== "length";

async function askHere(parts: SessionParts, request: ChatRequest, asked: Asked, caller: Caller): Promise<Said> {
  const thinking = { ...request.thinking, enabled: false };
  const { events } = await answerLocally(parts, { ...request, thinking }, asked, caller);
  const { answers, usage } = await wholeAnswers(events);
  const said = { text: answers[0]!.words, isWhole: isWhole(answers[0]!) };
  if (!said.isWhole && usage.completionTokens < Math.min(request.maxTokens, leastTokens))
    throw new Failure(
      "prompt_too_long",
      `${usage.promptTokens} prompt tokens leave the answer only ${usage.completionTokens} tokens of the model's context`,
    );
  return said;
}

type AskUpstream = (provider: string, request: ChatRequest, signal: AbortSignal, caller: Caller) => Promise<Said>;

/** What an upstream's model accepts, as far as its refusals have shown. */
interface Accepted {
  /** Whether it accepts temperature 0. */
  atZero: boolean;
  /** Token limits that were accepted for messages of so many characters, and not higher ones. */
  limits: { characters: number; tokens: number }[];
}

/** Returns a function that asks an upstream's model, and yields where the model refuses the temperature or the limit. */
function createAskingUpstream({ log }: Pick<SessionParts, "log">, forward: Forward): AskUpstream {
  const known = new Map<string, Accepted>();
  return async (provider, request, signal, caller) => {
    const whom = `${provider}/${request.model}`;
    const accepted = known.get(whom) ?? { atZero: true, limits: [] };
    known.set(whom, accepted);
    const characters = request.messages[0]!.content.length;
    const usual = withAccepted(request, accepted, characters);
    for (let asked = usual; ; ) {
      try {
        // The answer is streamed, because a connection that is silent for five minutes is given up.
        const { events } = await answerByUpstream(forward, asked, askedOf({ "x-provider": provider }, signal), caller);
        const { answers } = await wholeAnswers(events);
        if (asked !== usual) {
          remember(accepted, usual, asked, characters);
          log("info", "upstream.asked_otherwise", { whom, draw: asked.draw, maxTokens: asked.maxTokens });
        }
        return { text: withoutThought(answers[0]!.words), isWhole: isWhole(answers[0]!) };
      } catch (error) {
        const next = yieldedTo(refusedWith(error), asked);
        if (next === null) throw error;
        asked = next;
      }
    }
  };
}

function withAccepted(request: ChatRequest, { atZero, limits }: Accepted, characters: number): ChatRequest {
  // A limit that a long message left says nothing about shorter ones.
  const most = limits.filter((limit) => limit.characters <= characters).map(({ tokens }) => tokens);
  return { ...request, draw: atZero ? request.draw : {}, maxTokens: Math.min(request.maxTokens, ...most) };
}

function remember(accepted: Accepted, usual: ChatRequest, asked: ChatRequest, characters: number): void {
  if (asked.draw.temperature === undefined) accepted.atZero = false;
  const { maxTokens: tokens } = asked;
  if (tokens === usual.maxTokens) return;
  const isStillTold = (limit: Accepted["limits"][number]) => limit.characters < characters || limit.tokens < tokens;
  accepted.limits = [...accepted.limits.filter(isStillTold), { characters, tokens }];
}

/** Refusals of a limit, or of a message and a limit that are too many tokens together, in the words of different servers. */
const isTooMany = /context.?(length|window|size)|too (large|long|many)|at most|exceed|maximum|must be <=|valid range/i;

/** What to ask after a refusal; null if there is nothing to yield. */
function yieldedTo(refusal: string | null, asked: ChatRequest): ChatRequest | null {
  if (refusal === null) return null;
  if (refusal.includes("temperature") && asked.draw.temperature !== undefined) return { ...asked, draw: {} };
  if (!isTooMany.test(refusal) || asked.maxTokens <= leastTokens) return null;
  return { ...asked, maxTokens: Math.max(leastTokens, Math.floor(asked.maxTokens / 2)) };
}

/** The text after the last thought. If a thought is not closed, the model was cut off in it, and there is no answer. */
function withoutThought(text: string): string {
  const answer = text.split("</think>").at(-1)!.trim();
  return answer.startsWith("<think>") ? "" : answer;
}
