// For models that think before they answer: whether to think, for how many tokens, and where the answer proper begins.
import {
  type ChatMessage,
  formatLongPrompt,
  type PromptOptions,
  type ThoughtMarks,
} from "../../engine/format/chat-format.ts";
import type { Steering, Tokenizer } from "../../engine/generator.ts";

/**
 * Share of an answer's tokens that a thought may take, by the requested effort; the rest is left for the answer proper.
 */
const shares = { minimal: 0.1, low: 0.2, medium: 0.5, high: 0.8, xhigh: 0.95 } as const;
export type Effort = keyof typeof shares | "none";

/** What a request says about thinking. Fields that the request leaves out are null. */
export interface ThinkingAsked {
  enabled: boolean | null;
  effort: Effort | null;
  maxTokens: number | null;
}

/** Whether the model should think; null leaves it to the model's template. */
export function isWanted({ enabled, effort, maxTokens }: ThinkingAsked): boolean | null {
  if (enabled === false || effort === "none" || maxTokens === 0) return false;
  return enabled === true || effort !== null || maxTokens !== null ? true : null;
}

/** Maximum number of tokens of a thought; null if only the limit of the answer applies. */
export function budgetOf({ effort, maxTokens }: ThinkingAsked, answer: number): number | null {
  if (maxTokens !== null) return maxTokens;
  return effort === null || effort === "none" ? null : Math.max(1, Math.floor(shares[effort] * answer));
}

/**
 * Returns the prompt of a model that thinks, and whether the prompt ends inside a thought. If thinking is switched off
 * and the template has not written an empty thought, one is added. Marks in the messages are plain text and do not count.
 */
export async function thinkingPrompt(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  options: PromptOptions,
  marks: ThoughtMarks,
  wanted: boolean | null,
): Promise<{ tokens: number[]; isOpen: boolean }> {
  const asked = wanted === null ? options : { ...options, enableThinking: wanted };
  const { tokens, ending } = await formatLongPrompt(tokenizer, messages, asked);
  const [opened, closed] = [ending.lastIndexOf(marks.open), ending.lastIndexOf(marks.close)];
  const isOpen = opened > closed;
  if (wanted !== false || (closed >= 0 && !isOpen)) return { tokens, isOpen };
  const empty = isOpen ? `\n${marks.close}\n\n` : `${marks.open}\n\n${marks.close}\n\n`;
  return { tokens: [...tokens, ...tokenizer.encode(empty, true)], isOpen: false };
}

export interface ThoughtSteering {
  steer: (token: number | null) => Steering;
  /** Tokens of the thought so far. */
  tokens(): number;
}

/**
 * Follows one answer of a model that thinks. Closes the thought when its budget of tokens is used up, and returns
 * `afterwards` when the thought is over. `mustOpen` forces a thought at the beginning, because a grammar applies only
 * after its end.
 */
export function steerThought(
  tokenizer: Tokenizer,
  marks: ThoughtMarks,
  {
    isOpen,
    mustOpen,
    budget,
    afterwards,
  }: { isOpen: boolean; mustOpen: boolean; budget: number | null; afterwards: Steering },
): ThoughtSteering {
  let state: "before" | "within" | "closing" | "over" = isOpen ? "within" : "before";
  let text = "";
  let tokens = 0;
  const begin = (): Steering => {
    if (isOpen) return { constrained: false };
    return mustOpen ? { take: tokenizer.encode(`${marks.open}\n`, true), constrained: false } : {};
  };
  const steer = (token: number | null): Steering => {
    if (token === null) return begin();
    if (state === "over") return {};
    text += tokenizer.pieceOf(token);
    if (state === "before") {
      const said = text.trimStart();
      if (said.startsWith(marks.open)) [state, text] = ["within", said.slice(marks.open.length)];
      else if (!marks.open.startsWith(said)) state = "over";
      return {};
    }
    tokens++;
    if (text.includes(marks.close)) {
      state = "over";
      return afterwards;
    }
    text = text.slice(-marks.close.length);
    if (state !== "within" || budget === null || tokens < budget) return {};
    state = "closing";
    return { take: tokenizer.encode(`\n${marks.close}\n\n`, true) };
  };
  return { steer, tokens: () => tokens };
}
