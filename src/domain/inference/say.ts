// Sends one message to a chat model and returns its answer. The call is handled and recorded like a client's request. The
// model is a base, a deployed model or an upstream's.
import { randomWord } from "../../base/ids.ts";
import { chatBody } from "../../contract/chat-body.ts";
import { wholeAnswers } from "./chat-events.ts";
import { type ChatRequest, requestDefaults } from "./chat-request.ts";
import { answerLocally } from "./chat-session.ts";
import type { SessionParts } from "./session.ts";
import { upstreamBody } from "./upstream-chat.ts";
import type { Forward } from "./upstreams.ts";

/** Token limit of an answer. Twelve facts of a passage with eight questions each take some 3,000 tokens. */
const longest = 4000;

/** Returns the words of a chat model's answer to one message, at temperature 0. Throws what the chat endpoint throws. */
export type Say = (
  ownerId: string,
  by: { model: string; provider: string | null; key_id: string },
  content: string,
  signal: AbortSignal,
) => Promise<string>;

export const createSaying =
  (parts: SessionParts, forward: Forward): Say =>
  async (ownerId, { model, provider, key_id }, content, signal) => {
    const request: ChatRequest = {
      ...requestDefaults,
      model,
      messages: [{ role: "user", content, at: ["body", "messages", 0] }],
      messagesAt: ["body", "messages"],
      draw: { temperature: 0 },
      maxTokens: longest,
      truncateTo: chatBody.properties.prompt_truncate_len.default,
    };
    const headers = provider === null ? {} : { "x-provider": provider };
    const asked = { headers, requestId: `req_${randomWord()}`, signal, setHeader: () => {} };
    const caller = { userId: ownerId, userName: "", keyId: key_id };
    const whole = (words: string, reason: unknown): string => {
      if (reason === "length") parts.log("warn", "answer_cut_off", { model, provider, tokens: longest });
      return words;
    };
    if (provider === null) {
      const { answers } = await wholeAnswers((await answerLocally(parts, request, asked, caller)).events);
      return whole(answers[0]!.words, answers[0]!.end.finishReason);
    }
    const answer = await forward("chat/completions", { ...asked, body: upstreamBody(request) }, caller);
    const [choice] = (answer as { choices: { message: { content: unknown }; finish_reason?: unknown }[] }).choices;
    const said = choice?.message.content;
    return typeof said === "string" ? whole(said, choice!.finish_reason) : "";
  };
