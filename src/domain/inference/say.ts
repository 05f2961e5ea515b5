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

/** Token limit of an answer, which is enough for questions about everything that a passage says. */
const longest = 1500;

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
    if (provider === null) {
      const { answers } = await wholeAnswers((await answerLocally(parts, request, asked, caller)).events);
      return answers[0]!.words;
    }
    const answer = await forward("chat/completions", { ...asked, body: upstreamBody(request) }, caller);
    const said = (answer as { choices: { message: { content: unknown } }[] }).choices[0]?.message.content;
    return typeof said === "string" ? said : "";
  };
