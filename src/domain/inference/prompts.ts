// The prompts of a completion as token ids: text, several texts, ids, or several lists of ids.
import { Failure, invalid } from "../../base/errors.ts";
import { givingWay } from "../../base/time.ts";
import { encodeInParts } from "../../engine/format/in-parts.ts";
import type { Tokenizer } from "../../engine/generator.ts";

export type PromptField = string | string[] | number[] | number[][];

/** One list of ids per prompt. Text never becomes control tokens; a client that wants those sends ids. */
export async function promptsOf(
  field: PromptField,
  tokenizer: Tokenizer,
  room: { maxTokens: number; slotContext: number },
): Promise<number[][]> {
  const read = async (prompt: string | number[], loc: (string | number)[]): Promise<number[]> => {
    const tokens = typeof prompt === "string" ? await fromText(prompt, tokenizer, loc, room.slotContext) : prompt;
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

/** Refuses input that could never fit before it is read: tokenizing and detokenizing block the main thread. */
export function refuseHuge(count: number, slotContext: number, what = "characters"): void {
  const most = Math.max(1 << 18, 16 * slotContext);
  if (count > most)
    throw new Failure("prompt_too_long", `${count} ${what} are too many for one request; the limit is ${most}`);
}

async function fromText(
  text: string,
  tokenizer: Tokenizer,
  loc: (string | number)[],
  slotContext: number,
): Promise<number[]> {
  refuseHuge(text.length, slotContext);
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

/** Refuses a prompt that leaves no room for max_tokens: completions truncate neither prompt nor answer. */
function refuseTooLong(tokens: number, { maxTokens, slotContext }: { maxTokens: number; slotContext: number }): void {
  if (tokens + maxTokens > slotContext)
    throw new Failure(
      "prompt_too_long",
      `${tokens} prompt tokens plus max_tokens ${maxTokens} exceed the context of ${slotContext} tokens`,
    );
}
