// Reads the `sampling` block of a configuration, which says how answers are drawn, and fills in every default.
import { invalid } from "../../base/errors.ts";

export interface SamplingPlan {
  /** Prompts per draw, and answers per prompt. */
  groups: number;
  groupSize: number;
  maxTokens: number;
  /** Maximum number of tokens of a prompt and all that follows it. */
  maxSeqLen: number;
  /** Longer prompts are not used. */
  maxPromptTokens: number;
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  warnings: string[];
}

const refused = (field: string, message: string) => invalid(["config", "sampling", field], message);

/** Default of `max_tokens`. Answers of a benchmark are short; a longer answer is cut and rewarded as it stands. */
const usualTokens = 48;

/**
 * Reads the block, whose values are not null. `context`: maximum number of tokens of a row in the recipe; `inner`:
 * optimizer steps per draw. Throws a validation failure that names the field.
 */
export function resolveSampling(
  block: Record<string, unknown>,
  { context, inner }: { context: number; inner: number },
): SamplingPlan {
  const number = (field: string, usual: number, least: number, most: number): number => {
    const value = block[field] ?? usual;
    if (typeof value === "number" && value >= least && value <= most) return value;
    const range = least === Number.MIN_VALUE ? `above 0 and at most ${most}` : `from ${least} to ${most}`;
    throw refused(field, `must be a number ${range}`);
  };
  const whole = (field: string, usual: number, least: number, most: number): number => {
    const value = number(field, usual, least, most);
    if (Number.isInteger(value)) return value;
    throw refused(field, "must be a whole number");
  };
  const fits = whole("max_seq_len", context, 2, context);
  const maxTokens = whole("max_tokens", Math.min(usualTokens, Math.floor(fits / 2)), 1, fits - 1);
  const maxPromptTokens = whole("max_prompt_tokens", fits - maxTokens, 1, fits);
  if (maxPromptTokens + maxTokens > fits)
    throw refused(
      "max_prompt_tokens",
      `and max_tokens add up to ${maxPromptTokens + maxTokens}, but only ${fits} tokens fit`,
    );
  const groups = whole("prompt_groups_per_step", 8, 1, 1024);
  const groupSize = whole("group_size", 8, 2, 128);
  if (!(Number.isInteger(inner) && inner >= 1 && inner <= groups * groupSize))
    throw invalid(
      ["config", "training", "inner_optim_steps"],
      `must be a whole number from 1 to ${groups * groupSize}, the number of answers per draw`,
    );
  const topK = block.top_k === -1 ? 0 : whole("top_k", 0, 0, 1 << 20);
  const topP = number("top_p", 1, Number.MIN_VALUE, 1);
  const minP = number("min_p", 0, 0, 1);
  const isCut = topK > 0 || topP < 1 || minP > 0;
  return {
    ...{ groups, groupSize, maxTokens, maxSeqLen: fits, maxPromptTokens, topK, topP, minP },
    temperature: number("temperature", 1, Number.MIN_VALUE, 2),
    warnings: isCut
      ? [
          "sampling.top_k, top_p and min_p exclude answers that the ratio in the loss treats as possible, so they bias it",
        ]
      : [],
  };
}
