// Converts the prompts of a completion to token ids. A request sends a text, several texts, ids, or several lists of ids.
import { Failure, invalid } from "../../base/errors.ts";
import { givingWay } from "../../base/time.ts";
import { encodeInParts } from "../../engine/format/in-parts.ts";
import type { Tokenizer } from "../../engine/generator.ts";

export type PromptField = string | string[] | number[] | number[][];

/**
 * Returns one list of ids per prompt. Text never becomes control tokens; a client that needs control tokens sends ids.
 * Throws validation, prompt_too_long.
 */
export async function promptsOf(
  field: PromptField,
  tokenizer: Tokenizer,
  room: { maxTokens: number; context: number },
): Promise<number[][]> {
  const read = async (prompt: string | number[], loc: (string | number)[]): Promise<number[]> => {
    const tokens = typeof prompt === "string" ? await fromText(prompt, tokenizer, loc, room.context) : prompt;
    refuseTooLong(tokens.length, room);
    return typeof prompt === "string" ? tokens : checked(tokens, tokenizer, loc);
  };
  if (typeof field === "string" || typeof field[0] === "number")
    return [await read(field as string | number[], ["body", "prompt"])];
  const prompts: number[][] = [];
  const giveWay = givingWay();
  for (const [index, prompt] of (field as (string | number[])[]).entries()) {
    prompts.push(await read(prompt, ["body", "prompt", index]));
    await giveWay();
  }
  return prompts;
}

/**
 * Throws prompt_too_long for input that could never fit. Call it before the input is tokenized or detokenized, because
 * both block the main thread.
 */
export function refuseHuge(count: number, context: number, what = "characters"): void {
  const most = Math.max(1 << 18, 16 * context);
  if (count > most)
    throw new Failure("prompt_too_long", `${count} ${what} are too many for one request; the limit is ${most}`);
}

async function fromText(
  text: string,
  tokenizer: Tokenizer,
  loc: (string | number)[],
  context: number,
): Promise<number[]> {
  refuseHuge(text.length, context);
  const start = tokenizer.bos !== null && (tokenizer.addBos || text === "") ? [tokenizer.bos] : [];
  const tokens = [...start, ...(await encodeInParts(tokenizer, text, false))];
  if (tokens.length === 0) throw invalid(loc, "is empty, and this model has no start token to use instead");
  return tokens;
}

function checked(ids: number[], tokenizer: Tokenizer, loc: (string | number)[]): number[] {
  const wrong = ids.findIndex((id) => id >= tokenizer.vocabulary);
  if (wrong >= 0) throw invalid([...loc, wrong], `the model's last token id is ${tokenizer.vocabulary - 1}`);
  return ids;
}

/** Refuses a prompt that leaves no room for max_tokens, because completions truncate neither the prompt nor the answer. */
function refuseTooLong(tokens: number, { maxTokens, context }: { maxTokens: number; context: number }): void {
  if (tokens + maxTokens > context)
    throw new Failure(
      "prompt_too_long",
      `${tokens} prompt tokens plus max_tokens ${maxTokens} exceed the context of ${context} tokens`,
    );
}
