// Makes a conversation fit `prompt_truncate_len`: drops the oldest turns, then the text of the remaining messages from the
// head on. System messages, tools, and the calls of remaining messages stay whole. The dropped tokens are counted, so that
// the truncation can be reported.
import { givingWay } from "../../base/time.ts";
import type { ChatMessage } from "../../engine/format/chat-format.ts";
import { encodeInParts } from "../../engine/format/in-parts.ts";
import type { Tokenizer } from "../../engine/generator.ts";

export interface FittedPrompt {
  tokens: number[];
  /** Tokens of the whole conversation minus those of the kept part. */
  truncated: number;
}

/**
 * Truncates a conversation to a prompt of at most `limit` tokens. `renderPrompt` makes the prompt's token ids from messages
 * with the model's template. Other requests are handled between two renderings. If what is never cut exceeds the limit, a
 * conversation of at most `most` tokens stays whole; for a longer one, the result is the token count of the shortest prompt.
 */
export async function fitConversation(
  messages: readonly ChatMessage[],
  limit: number,
  tokenizer: Tokenizer,
  renderPrompt: Render,
  most = limit,
): Promise<FittedPrompt | number> {
  const giveWay = givingWay();
  const render: Render = async (kept) => {
    await giveWay();
    return renderPrompt(kept);
  };
  const whole = await render(messages);
  if (whole.length <= limit) return { tokens: whole, truncated: 0 };
  const tails = tailsOf(messages).map((start) => messages.filter((m, at) => m.role === "system" || at >= start));
  const shortest = tails.at(-1) ?? [...messages];
  const fitting = await leastThat(tails.length - 1, async (at) => (await render(tails[at]!)).length <= limit);
  const tokens = await (fitting === null ? renderCut(shortest, limit, tokenizer, render) : render(tails[fitting]!));
  if (tokens.length <= limit) return { tokens, truncated: whole.length - tokens.length };
  return whole.length <= most ? { tokens: whole, truncated: 0 } : tokens.length;
}

type Render = (messages: readonly ChatMessage[]) => number[] | Promise<number[]>;

/**
 * Indexes at which the kept part may begin: at a user's message, because templates expect the user to speak first, or at
 * the last message that is not a tool result. Tool results stay with the calls that they answer.
 */
function tailsOf(messages: readonly ChatMessage[]): number[] {
  const spoken = [...messages.keys()].filter((at) => !["system", "tool"].includes(messages[at]!.role));
  return spoken.filter((at, order) => messages[at]!.role === "user" || order === spoken.length - 1);
}

/**
 * The smallest integer from 0 to `most` for which `holds` returns true; null if there is none. `holds` must be monotonic:
 * once true, always true.
 */
async function leastThat(most: number, holds: (value: number) => Promise<boolean>): Promise<number | null> {
  let [low, high] = [0, most + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (await holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low > most ? null : low;
}

/**
 * The prompt without the head of the conversation's text: the oldest messages become empty, and the next one loses its
 * head. Messages are not dropped here, because a tool's result belongs to a call. Exceeds the limit if no cut is enough.
 */
async function renderCut(
  messages: readonly ChatMessage[],
  limit: number,
  tokenizer: Tokenizer,
  render: Render,
): Promise<number[]> {
  const contents: number[][] = [];
  for (const { role, content } of messages)
    contents.push(role === "system" ? [] : await encodeInParts(tokenizer, content, false));
  const total = contents.reduce((sum, { length }) => sum + length, 0);
  const without = async (count: number): Promise<number[]> => {
    let left = count;
    const cut = messages.map((message, index) => {
      const tokens = contents[index]!;
      const dropped = Math.min(left, tokens.length);
      left -= dropped;
      if (dropped === 0) return message;
      // A cut inside a character leaves a replacement character at the start.
      return { ...message, content: tokenizer.decode(tokens.slice(dropped)).replace(/^\ufffd+/, "") };
    });
    return render(cut);
  };
  // At most `limit` tokens of the text can stay, so the search begins with that many, and the head of a huge message is not
  // encoded again.
  const least = Math.max(0, total - limit);
  const more = await leastThat(total - least, async (count) => (await without(least + count)).length <= limit);
  return without(more === null ? total : least + more);
}
