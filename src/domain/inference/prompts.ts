// The prompts of a completion as token ids: text, several texts, ids, or several lists of ids.
import { Failure, invalid } from "../../base/errors.ts";
import type { Tokenizer } from "../../engine/generator.ts";

export type PromptField = string | string[] | number[] | number[][];

/** One list of ids per choice. Text never becomes control tokens; whoever wants those sends ids. */
export function promptsOf(field: PromptField, tokenizer: Tokenizer): number[][] {
  if (typeof field === "string") return [fromText(field, tokenizer, ["body", "prompt"])];
  if (typeof field[0] === "number") return [checked(field as number[], tokenizer, ["body", "prompt"])];
  return (field as (string | number[])[]).map((prompt, index) =>
    typeof prompt === "string"
      ? fromText(prompt, tokenizer, ["body", "prompt", index])
      : checked(prompt, tokenizer, ["body", "prompt", index]),
  );
}

function fromText(text: string, tokenizer: Tokenizer, loc: (string | number)[]): number[] {
  const start = tokenizer.bos !== null && (tokenizer.addBos || text === "") ? [tokenizer.bos] : [];
  const tokens = [...start, ...tokenizer.encode(text, false)];
  if (tokens.length === 0) throw invalid(loc, "is empty, and this model has no token to begin with");
  return tokens;
}

function checked(ids: number[], tokenizer: Tokenizer, loc: (string | number)[]): number[] {
  const wrong = ids.findIndex((id) => id >= tokenizer.vocabulary);
  if (wrong >= 0) throw invalid([...loc, wrong], `the model's token ids end at ${tokenizer.vocabulary - 1}`);
  return ids;
}

/** A completion is answered as asked or not at all: neither prompt nor answer is cut to fit. */
export function refuseTooLong(prompts: readonly number[][], maxTokens: number, seatContext: number): void {
  const longest = Math.max(...prompts.map((prompt) => prompt.length));
  if (longest + maxTokens > seatContext)
    throw new Failure(
      "prompt_too_long",
      `${longest} prompt tokens and max_tokens ${maxTokens} are more than the ${seatContext} tokens of the context`,
    );
}
