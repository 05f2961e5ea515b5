// Wire formats of answers and chunks: OpenAI's, plus the confidence fields of our contract.

import type { chat } from "../../contract/chat.ts";
import type { completions } from "../../contract/completions.ts";
import type { Reply, StreamEvent } from "../../contract/endpoint.ts";
import type { ChoiceEnd, Confidence } from "./answers.ts";
import type { Session } from "./session.ts";

export type ChatReply = Reply<(typeof chat)["inference.chat"]>;
export type CompletionReply = Reply<(typeof completions)["inference.completions"]>;

/** What is known of a choice once it has ended. */
export interface EndedChoice extends ChoiceEnd {
  index: number;
}

export const event = (chunk: unknown): StreamEvent => ({ data: JSON.stringify(chunk) });
export const done: StreamEvent = { data: "[DONE]" };

/**
 * Prompt tokens count once, however many choices answer them; cached are those that no choice of the prompt had to
 * read.
 */
export function usageOf(session: Session, ended: readonly Pick<EndedChoice, "index" | "cachedTokens">[]) {
  const [prompt, completion] = [session.promptTokens, session.drawn()];
  const cached = new Map<number, number>();
  for (const { index, cachedTokens } of ended) {
    const { promptIndex } = session.choices[index]!;
    cached.set(promptIndex, Math.min(cachedTokens, cached.get(promptIndex) ?? cachedTokens));
  }
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: [...cached.values()].reduce((sum, tokens) => sum + tokens, 0),
      truncated_tokens: session.truncatedTokens,
    },
  };
}

/** The confidence of the least certain choice, for all of them; null for base models. */
export function confidenceOf(ended: readonly Pick<ChoiceEnd, "confidence">[]) {
  const scored = ended
    .map((end) => end.confidence)
    .filter((confidence): confidence is Confidence => confidence !== null);
  const least = scored.reduce<Confidence | null>((low, one) => (low && low.score <= one.score ? low : one), null);
  return {
    confidence_score: least?.score ?? null,
    confidence: least && behind(least),
  };
}

/** The basis of a score. */
export type Behind = ReturnType<typeof behind>;

const behind = ({ calibrated, n, reason, date, drift, leastCertain, sources }: Confidence) => ({
  calibrated,
  n,
  reason,
  date,
  drift,
  least_certain: leastCertain,
  sources,
});

export const scoreOf = (end: Pick<ChoiceEnd, "confidence">): number | null => end.confidence?.score ?? null;
