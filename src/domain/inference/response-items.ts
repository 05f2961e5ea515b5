// Converts items of the Responses endpoint into chat messages, and a chat's answer into a message.
import type { Input } from "../../contract/endpoint.ts";
import type { responses } from "../../contract/responses.ts";
import type { MadeMessage } from "./turn.ts";

export type ResponseBody = Input<(typeof responses)["inference.responses"]>["body"];
type Item = Exclude<ResponseBody["input"], string>[number];
type Parts = Exclude<Item["content"], string | null | undefined>;

/** The parts of an answer: thought, text and calls. */
export interface Answer {
  thought: string;
  text: string;
  calls: { id: string; name: string; arguments: string }[];
}

/** Converts input items into messages. Consecutive calls, and a text before them, become one assistant message. */
export function messagesOf(input: ResponseBody["input"]): MadeMessage[] {
  if (typeof input === "string") return [{ message: { role: "user", content: input }, from: [["**", "input"]] }];
  const made: MadeMessage[] = [];
  let thought = "";
  const assistant = (at: string): MadeMessage => {
    const last = made.at(-1);
    if (last?.message.role === "assistant" && thought === "") return last;
    const message: MadeMessage["message"] = { role: "assistant", content: null };
    if (thought !== "") message.reasoning_content = thought;
    thought = "";
    const begun: MadeMessage = { message, from: [["**", at]] };
    made.push(begun);
    return begun;
  };
  for (const [index, { type, ...item }] of input.entries()) {
    const at = `input.${index}`;
    switch (type ?? "message") {
      case "message": {
        const content = textOf(item.content!);
        if (item.role === "assistant" && thought !== "") assistant(at).message.content = content;
        else made.push({ message: { role: item.role!, content }, from: [["**", at]] });
        break;
      }
      case "function_call": {
        const one = assistant(at);
        const before = (one.message.tool_calls as unknown[] | undefined) ?? [];
        one.message.tool_calls = [
          ...before,
          { id: item.call_id, type: "function", function: { name: item.name, arguments: item.arguments } },
        ];
        one.from = [[`tool_calls.${before.length}.function`, at], ...one.from];
        break;
      }
      case "function_call_output":
        made.push({
          message: { role: "tool", tool_call_id: item.call_id, content: textOf(item.output!) },
          from: [["**", at]],
        });
        break;
      case "reasoning":
        thought += item.content ? textOf(item.content) : "";
        break;
    }
  }
  return made;
}

const textOf = (content: string | Parts): string =>
  typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");

/** The answer as a message, for responses that continue from it. */
export const messageOf = ({ thought, text, calls }: Answer): MadeMessage["message"] => ({
  role: "assistant",
  content: text === "" && calls.length > 0 ? null : text,
  ...(thought === "" ? {} : { reasoning_content: thought }),
  ...(calls.length === 0
    ? {}
    : {
        tool_calls: calls.map(({ id, name, arguments: json }) => ({
          id,
          type: "function",
          function: { name, arguments: json },
        })),
      }),
});

/** The tools in the format of a chat. */
export const toolsOf = (tools: ResponseBody["tools"]): Record<string, unknown>[] =>
  (tools ?? []).map(({ type, name, description, parameters, strict }) => ({
    type,
    function: { name, description: description ?? null, parameters: parameters ?? null, strict: strict ?? null },
  }));
