// POST completions: one choice per prompt. Streams carry usage and confidence in their final chunk only, as the contract says.
import type { Caller, Handler, Input, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { inference } from "../../contract/inference.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import { promptsOf } from "./prompts.ts";
import { openSession, type Plan, type Session, type SessionParts } from "./session.ts";
import { type CompletionReply, collected, confidenceOf, done, event, followed, scoreOf, usageOf } from "./shapes.ts";

type Endpoint = (typeof inference)["inference.completions"];
type Body = Input<Endpoint>["body"];

export const createCompletions =
  (parts: SessionParts): Handler<Endpoint> =>
  async (input: Input<Endpoint>, caller: Caller) => {
    const session = await openSession(parts, input, caller, "cmpl", (...given) => plan(input.body, ...given));
    return input.body.stream ? new EventStream(stream(session)) : reply(session);
  };

function plan(body: Body, tokenizer: Tokenizer, seatContext: number): Plan {
  const prompts = promptsOf(body.prompt, tokenizer, { maxTokens: body.max_tokens, seatContext });
  return {
    choices: prompts.map((prompt) => ({ prompt, maxTokens: body.max_tokens })),
    promptTokens: prompts.reduce((sum, prompt) => sum + prompt.length, 0),
    truncatedTokens: 0,
  };
}

async function reply(session: Session): Promise<CompletionReply> {
  const ended = await collected(session);
  return {
    ...session.head,
    object: "text_completion",
    choices: ended.map((choice) => ({
      text: choice.text,
      index: choice.index,
      finish_reason: choice.finishReason,
      confidence_score: scoreOf(choice),
    })),
    usage: usageOf(session, ended),
    ...confidenceOf(ended),
  };
}

async function* stream(session: Session): AsyncGenerator<StreamEvent, void, void> {
  const chunk = (choice: { index: number; text: string; finish_reason: string | null }, more = {}) =>
    event({ ...session.head, object: "text_completion", choices: [choice], ...more });
  yield* followed(
    session,
    (index, text) => [chunk({ text, index, finish_reason: null })],
    (choice, ended) => {
      const { index, finishReason: finish_reason } = choice;
      const last = { text: "", index, finish_reason, confidence_score: scoreOf(choice) };
      if (ended.length < session.choices) return [chunk(last)];
      return [chunk(last, { usage: usageOf(session, ended), ...confidenceOf(ended) })];
    },
  );
  yield done;
}
