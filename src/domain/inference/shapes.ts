// What answers and their chunks look like on the wire: OpenAI's forms, with the contract's confidence beside them.
import type { Reply, StreamEvent } from "../../contract/endpoint.ts";
import type { inference } from "../../contract/inference.ts";
import type { ChoiceEnd, Confidence } from "./answers.ts";
import type { Session } from "./session.ts";

export type ChatReply = Reply<(typeof inference)["inference.chat"]>;
export type CompletionReply = Reply<(typeof inference)["inference.completions"]>;

/** What is known of a choice once it has ended. */
export interface EndedChoice extends ChoiceEnd {
  index: number;
  text: string;
}

export const event = (chunk: unknown): StreamEvent => ({ data: JSON.stringify(chunk) });
export const done: StreamEvent = { data: "[DONE]" };

/** Prompt tokens were read once, however many choices answer them; so cached ones count once as well. */
export function usageOf(session: Session, ended: readonly ChoiceEnd[]) {
  const [prompt, completion] = [session.promptTokens, session.drawn()];
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: Math.min(prompt, Math.max(0, ...ended.map((end) => end.cachedTokens))),
      truncated_tokens: session.truncatedTokens,
    },
  };
}

/** The least certain choice speaks for all; null on base models. */
export function confidenceOf(ended: readonly ChoiceEnd[]) {
  const scored = ended
    .map((end) => end.confidence)
    .filter((confidence): confidence is Confidence => confidence !== null);
  const least = scored.reduce<Confidence | null>((low, one) => (low && low.score <= one.score ? low : one), null);
  return {
    confidence_score: least?.score ?? null,
    confidence: least && { calibrated: least.calibrated, n: least.n, reason: least.reason },
  };
}

export const scoreOf = (end: ChoiceEnd): number | null => end.confidence?.score ?? null;

/** Reads all pieces, tells of each, and gives the ended choices in order. */
export async function* followed(
  session: Session,
  onText: (index: number, text: string) => StreamEvent[],
  onEnd: (choice: EndedChoice, ended: readonly EndedChoice[]) => StreamEvent[],
): AsyncGenerator<StreamEvent, EndedChoice[], void> {
  const texts = new Array<string>(session.choices).fill("");
  const ended: EndedChoice[] = [];
  for await (const piece of session.pieces) {
    if ("text" in piece) {
      texts[piece.index] += piece.text;
      yield* onText(piece.index, piece.text);
    } else {
      const choice = { index: piece.index, text: texts[piece.index]!, ...piece.end };
      ended.push(choice);
      yield* onEnd(choice, ended);
    }
  }
  return ended.sort((a, b) => a.index - b.index);
}

/** All choices, in order, once none runs any more. */
export async function collected(session: Session): Promise<EndedChoice[]> {
  const events = followed(
    session,
    () => [],
    () => [],
  );
  for (;;) {
    const next = await events.next();
    if (next.done) return next.value;
  }
}
