// Finds the tool call in a turn of the policy, and makes the tokens that follow it: the tool's answer and the start of the next turn.
import { invalid } from "../../base/errors.ts";
import { type ChatMessage, callFormatOf, formatChat } from "../../engine/format/chat-format.ts";
import { type CallFormat, jsonLength, type Tool } from "../../engine/format/tool-format.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import type { Call } from "./tools.ts";

/** Returns the first call in the policy's text; undefined if there is none, null if the call cannot be read. */
export function callIn(text: string, { before, nameKey, argumentsKey }: CallFormat): Call | undefined {
  const mark = before.trim();
  const at = text.indexOf(mark);
  if (at < 0) return undefined;
  const open = text.indexOf("{", at + mark.length);
  const length = open < 0 ? null : jsonLength(text.slice(open));
  const called = length === null ? null : objectIn(text.slice(open, open + length));
  const name = called?.[nameKey];
  const given = called?.[argumentsKey];
  if (typeof name === "string" && isObject(given)) return { name, arguments: given };
  // In a format without a mark, braces alone are not a call.
  return mark === "" ? undefined : null;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function objectIn(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/**
 * Returns the call in the tokens of a turn. Models mark calls with special tokens, which decode to no text, so this function reads the
 * names of such tokens.
 */
export function calledBy(tokenizer: Tokenizer, tokens: Int32Array): Call | undefined {
  const bytes = [...tokens].map((token) => {
    const own = tokenizer.bytesOf(token);
    return own.length > 0 ? own : Buffer.from(tokenizer.pieceOf(token));
  });
  return callIn(Buffer.concat(bytes).toString("utf8"), callFormatOf(tokenizer));
}

/**
 * Returns the tokens between a turn that made a call and the next turn: the tool's answer and the template's text around it. They are cut
 * from a formatted conversation with one call, because the policy's own tokens must stay as they were sampled. Throws a validation failure
 * if the template changes earlier parts of a turn once a tool has answered.
 */
export function continuation(tokenizer: Tokenizer, used: readonly Tool[], answer: string): number[] {
  const { name } = used[0]!;
  // Some templates require an id of nine letters and digits.
  const call = { id: "call00001", name, arguments: "{}" };
  const asked: ChatMessage[] = [{ role: "user", content: "?" }];
  const called: ChatMessage[] = [...asked, { role: "assistant", content: "", toolCalls: [call] }];
  const answered: ChatMessage[] = [...called, { role: "tool", content: answer, toolCallId: call.id, name }];
  const prompt = formatChat(tokenizer, asked, { tools: used });
  const before = formatChat(tokenizer, called, { tools: used, addGenerationPrompt: false });
  const whole = formatChat(tokenizer, answered, { tools: used });
  let same = 0;
  while (same < before.length && before[same] === whole[same]) same++;
  if (same <= prompt.length)
    throw invalid(
      ["config", "environment", "type"],
      "the base's chat template changes earlier parts of a turn once a tool has answered",
    );
  // If the template ends a turn with a token, the policy has written that token itself.
  const end = before.slice(0, same).findLastIndex((token) => tokenizer.eog.has(token));
  if (end >= prompt.length) return whole.slice(end + 1);
  // Otherwise the text that the template writes after a turn still has to be added.
  const said: ChatMessage[] = [...asked, { role: "assistant", content: "x" }];
  const plain = formatChat(tokenizer, said, { tools: used, addGenerationPrompt: false });
  const after = plain.slice(prompt.length + tokenizer.encode("x", false).length);
  return [...(same === before.length ? after : []), ...whole.slice(same)];
}
