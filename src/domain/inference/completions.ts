// POST completions: n choices per prompt. Streams carry usage and confidence in their final chunk only, as the contract says.
import { invalid } from "../../base/errors.ts";
import type { completions } from "../../contract/completions.ts";
import type { Handler, Input, Reply, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { GeneratedToken, PromptToken, Tokenizer } from "../../engine/generator.ts";
import type { ChoiceEnd } from "./answers.ts";
import { type CompletionLogprobs, completionLogprobs, scoredAnswer, scoredPrompt } from "./logprobs.ts";
import { promptsOf } from "./prompts.ts";
import { openSession, type Plan, type Session, type SessionParts } from "./session.ts";
import { confidenceOf, done, event, scoreOf, usageJson, usageOf } from "./shapes.ts";

type Endpoint = (typeof completions)["inference.completions"];
type Body = Input<Endpoint>["body"];

const mostChoices = 128;

export const createCompletions =
  (parts: SessionParts): Handler<Endpoint> =>
  async ({ body, ...asked }, caller) => {
    const drawn = { model: body.model, draw: body, idMark: "cmpl" };
    const session = await openSession(parts, asked, caller, drawn, (...given) => plan(body, ...given));
    return body.stream ? new EventStream(stream(session, body)) : reply(session, body);
  };

async function plan(body: Body, tokenizer: Tokenizer, context: number): Promise<Plan> {
  const prompts = await promptsOf(body.prompt, tokenizer, { maxTokens: body.max_tokens, context });
  const n = body.n ?? 1;
  if (prompts.length * n > mostChoices)
    throw invalid(["body", "n"], `${prompts.length} prompts times ${n} make more than ${mostChoices} choices`);
  const scores = body.logprobs != null;
  return {
    choices: prompts.flatMap((prompt, promptIndex) =>
      Array.from({ length: n }, () => ({
        prompt,
        promptIndex,
        question: sentText(body, tokenizer, prompt, promptIndex),
        maxTokens: body.max_tokens,
        exact: scores,
        scoresPrompt: scores && body.echo === true,
      })),
    ),
    truncatedTokens: 0,
  };
}

/** A part of a choice, which fills one chunk of a stream. The joined parts are the complete choice. */
interface Part {
  index: number;
  text: string;
  logprobs: CompletionLogprobs | null;
  end: ChoiceEnd | null;
}

async function* partsOf(session: Session, body: Body): AsyncGenerator<Part, void, void> {
  const { tokenizer } = session;
  const most = body.logprobs ?? 0;
  /** Code points emitted so far, by choice. */
  const offsets = new Map<number, number>();
  const part = (index: number, text: string, scored: Parameters<typeof completionLogprobs>[0]): Part => {
    const offset = offsets.get(index) ?? 0;
    offsets.set(index, offset + [...text].length);
    return {
      index,
      text,
      logprobs: scored.length > 0 ? completionLogprobs(scored, tokenizer, offset) : null,
      end: null,
    };
  };
  const prompted = (index: number, tokens: readonly PromptToken[]): Part =>
    part(
      index,
      session.choices[index]!.question,
      tokens.map((token) => scoredPrompt(token, most)),
    );
  const answered = (index: number, text: string, tokens: readonly GeneratedToken[]): Part =>
    part(
      index,
      text,
      tokens.map((token) => scoredAnswer(token, most)),
    );
  for await (const piece of session.pieces) {
    const { index } = piece;
    if ("prompt" in piece) yield prompted(index, piece.prompt);
    // Without log-probs, the prompt is echoed when the first piece of the answer arrives.
    else if (body.echo && !offsets.has(index)) yield prompted(index, []);
    if ("text" in piece) yield answered(index, piece.text, piece.tokens);
    if ("end" in piece) yield { index, text: "", logprobs: null, end: piece.end };
  }
}

/** The text of a prompt as the client sent it, or decoded from ids. */
function sentText({ prompt }: Body, tokenizer: Tokenizer, tokens: readonly number[], promptIndex: number): string {
  const sent = typeof prompt === "string" ? prompt : prompt[promptIndex];
  return typeof sent === "string" ? sent : tokenizer.decode(tokens);
}

async function reply(session: Session, body: Body): Promise<Reply<Endpoint>> {
  const choices = session.choices.map(() => ({ text: "", logprobs: [] as CompletionLogprobs[] }));
  const ended: ChoiceEnd[] = [];
  for await (const { index, text, logprobs, end } of partsOf(session, body)) {
    choices[index]!.text += text;
    if (logprobs !== null) choices[index]!.logprobs.push(logprobs);
    if (end !== null) ended.push(end);
  }
  ended.sort((a, b) => a.index - b.index);
  return {
    ...session.head,
    object: "text_completion",
    choices: ended.map((end) => ({
      text: choices[end.index]!.text,
      index: end.index,
      finish_reason: end.finishReason,
      stop_reason: end.stopString,
      logprobs: body.logprobs == null ? null : joined(choices[end.index]!.logprobs),
      confidence_score: scoreOf(end),
    })),
    usage: usageJson(usageOf(session, ended)),
    ...confidenceOf(ended),
  };
}

const joined = (parts: readonly CompletionLogprobs[]): CompletionLogprobs => ({
  tokens: parts.flatMap((part) => part.tokens),
  token_logprobs: parts.flatMap((part) => part.token_logprobs),
  top_logprobs: parts.flatMap((part) => part.top_logprobs),
  text_offset: parts.flatMap((part) => part.text_offset),
});

async function* stream(session: Session, body: Body): AsyncGenerator<StreamEvent, void, void> {
  const chunk = (choice: object, more = {}) =>
    event({ ...session.head, object: "text_completion", choices: [choice], ...more });
  const ended: ChoiceEnd[] = [];
  for await (const { index, text, logprobs, end } of partsOf(session, body)) {
    if (end === null) {
      yield chunk({ text, index, logprobs, finish_reason: null });
      continue;
    }
    ended.push(end);
    const last = {
      text,
      index,
      logprobs,
      finish_reason: end.finishReason,
      stop_reason: end.stopString,
      confidence_score: scoreOf(end),
    };
    if (ended.length < session.choices.length) yield chunk(last);
    else yield chunk(last, { usage: usageJson(usageOf(session, ended)), ...confidenceOf(ended) });
  }
  yield done;
}
