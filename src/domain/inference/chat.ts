// POST chat/completions: a conversation, answered n times. What of a body is null has the meaning of being left out.
import { Failure } from "../../base/errors.ts";
import type { Caller, Handler, Input, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { inference } from "../../contract/inference.ts";
import { chatBody } from "../../contract/inference.ts";
import { formatChat } from "../../engine/chat-format.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import { refuseHuge } from "./prompts.ts";
import { openSession, type Plan, type Session, type SessionParts } from "./session.ts";
import { type ChatReply, collected, confidenceOf, done, event, followed, scoreOf, usageOf } from "./shapes.ts";
import { fitConversation } from "./truncate.ts";

type Endpoint = (typeof inference)["inference.chat"];
type Body = Input<Endpoint>["body"];

const defaults = chatBody.properties;

export const createChat =
  (parts: SessionParts): Handler<Endpoint> =>
  async (input: Input<Endpoint>, caller: Caller) => {
    const { body } = input;
    const session = await openSession(parts, input, caller, "chatcmpl", (...given) => plan(body, ...given));
    if (!body.stream) return reply(session);
    return new EventStream(stream(session, body.stream_options?.include_usage ?? false));
  };

/** The prompt of a body, and the room its answer has. */
export function plan(body: Body, tokenizer: Tokenizer, seatContext: number): Plan {
  const limit = body.prompt_truncate_len ?? defaults.prompt_truncate_len.default;
  const asked = body.max_tokens ?? defaults.max_tokens.default;
  refuseHuge(
    body.messages.reduce((sum, message) => sum + message.content.length, 0),
    seatContext,
  );
  const { tokens, truncated } = fitConversation(body.messages, limit, tokenizer, (messages) =>
    formatChat(tokenizer, messages),
  );
  // The answer is cut to what the seat has left; a seat without room for one token of it serves nobody.
  if (tokens.length + Math.min(asked, 1) > seatContext)
    throw new Failure(
      "prompt_too_long",
      `${tokens.length} prompt tokens leave no room in the ${seatContext} tokens of the context; lower prompt_truncate_len`,
    );
  const choice = { prompt: tokens, maxTokens: Math.min(asked, seatContext - tokens.length) };
  const choices = new Array(body.n ?? defaults.n.default).fill(choice);
  return { choices, promptTokens: tokens.length, truncatedTokens: truncated };
}

async function reply(session: Session): Promise<ChatReply> {
  const ended = await collected(session);
  return {
    ...session.head,
    object: "chat.completion",
    choices: ended.map((choice) => ({
      index: choice.index,
      message: { role: "assistant", content: choice.text, refusal: null },
      finish_reason: choice.finishReason,
      logprobs: null,
      confidence_score: scoreOf(choice),
    })),
    usage: usageOf(session, ended),
    ...confidenceOf(ended),
  };
}

async function* stream(session: Session, includeUsage: boolean): AsyncGenerator<StreamEvent, void, void> {
  const chunk = (choices: unknown[], more = {}) =>
    event({ ...session.head, object: "chat.completion.chunk", choices, ...more });
  const part = (index: number, delta: object, finish: string | null = null, more = {}) => ({
    index,
    delta,
    logprobs: null,
    finish_reason: finish,
    ...more,
  });
  const begun = new Set<number>();
  /** The role comes once, first, and not before there is an answer: what fails until then has its own status. */
  const begin = (index: number): StreamEvent[] => {
    if (begun.has(index)) return [];
    begun.add(index);
    return [chunk([part(index, { role: "assistant", content: "" })])];
  };
  const ended = yield* followed(
    session,
    (index, text) => [...begin(index), chunk([part(index, { content: text })])],
    (choice, all) => {
      const finish = part(choice.index, {}, choice.finishReason, { confidence_score: scoreOf(choice) });
      return [...begin(choice.index), chunk([finish], all.length < session.choices ? {} : confidenceOf(all))];
    },
  );
  if (includeUsage) yield chunk([], { usage: usageOf(session, ended), ...confidenceOf(ended) });
  yield done;
}
