// Wire formats of answers and chunks: OpenAI's, plus the confidence fields of our contract.

import type { StreamEvent } from "../../contract/endpoint.ts";
import type { ToolCall } from "../../engine/format/tool-format.ts";
import type { ChoiceEnd, Confidence } from "./answers.ts";
import type { Session } from "./session.ts";

export const event = (chunk: unknown): StreamEvent => ({ data: JSON.stringify(chunk) });
export const done: StreamEvent = { data: "[DONE]" };

export const callJson = ({ id, name, arguments: given }: ToolCall) => ({
  id,
  type: "function" as const,
  function: { name, arguments: given },
});

/** Numbers of tokens of a request. */
export interface Usage {
  promptTokens: number;
  completionTokens: number;
  /** Prompt tokens that came from the prompt cache and did not have to be read. */
  cachedTokens: number;
  /** Tokens that were cut from the prompt to make it fit. */
  truncatedTokens: number;
}

/**
 * Returns the usage of the choices that have ended. Prompt tokens count once, however many choices answer the prompt.
 * Cached tokens are those that no choice of the prompt had to read.
 */
export function usageOf(session: Session, ended: readonly Pick<ChoiceEnd, "index" | "cachedTokens">[]): Usage {
  const cached = new Map<number, number>();
  for (const { index, cachedTokens } of ended) {
    const { promptIndex } = session.choices[index]!;
    cached.set(promptIndex, Math.min(cachedTokens, cached.get(promptIndex) ?? cachedTokens));
  }
  return {
    promptTokens: session.promptTokens,
    completionTokens: session.drawn(),
    cachedTokens: [...cached.values()].reduce((sum, tokens) => sum + tokens, 0),
    truncatedTokens: session.truncatedTokens,
  };
}

export const usageJson = ({ promptTokens, completionTokens, cachedTokens, truncatedTokens }: Usage) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens, truncated_tokens: truncatedTokens },
});

/** The confidence of the least certain choice, which is reported for the whole response; null for base models. */
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

/** The fields that explain a score. */
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
