// Items of the Responses endpoint as messages of a chat, and the answer of a chat as items.
import type { Input } from "../../contract/endpoint.ts";
import type { responses } from "../../contract/responses.ts";

export type ResponseBody = Input<(typeof responses)["inference.responses"]>["body"];
type Item = Exclude<ResponseBody["input"], string>[number];
type Parts = Exclude<Item["content"], string | null | undefined>;

export type ChatMessage = Record<string, unknown> & { role: string };

/** Of an answer: what was thought, said and called. */
export interface Answer {
  thought: string;
  text: string;
  calls: { id: string; name: string; arguments: string }[];
}

/** Calls that follow one another, and a text before them, were one message of the assistant. */
export function messagesOf(input: ResponseBody["input"]): ChatMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const messages: ChatMessage[] = [];
  let thought = "";
  const assistant = (): ChatMessage => {
    const last = messages.at(-1);
    if (last?.role === "assistant" && thought === "") return last;
    const made: ChatMessage = { role: "assistant", content: null };
    if (thought !== "") made.reasoning_content = thought;
    thought = "";
    messages.push(made);
    return made;
  };
  for (const { type, ...item } of input)
    switch (type ?? "message") {
      case "message": {
        const content = textOf(item.content!);
        if (item.role === "assistant" && thought !== "") assistant().content = content;
        else messages.push({ role: item.role!, content });
        break;
      }
      case "function_call": {
        const message = assistant();
        message.tool_calls = [
          ...((message.tool_calls as unknown[] | undefined) ?? []),
          { id: item.call_id, type: "function", function: { name: item.name, arguments: item.arguments } },
        ];
        break;
      }
      case "function_call_output":
        messages.push({ role: "tool", tool_call_id: item.call_id, content: textOf(item.output!) });
        break;
      case "reasoning":
        thought += item.content ? textOf(item.content) : "";
        break;
    }
  return messages;
}

const textOf = (content: string | Parts): string =>
  typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");

/** The answer as a message, for what goes on from it. */
export const messageOf = ({ thought, text, calls }: Answer): ChatMessage => ({
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

/** What a tool is in a chat. */
export const toolsOf = (tools: ResponseBody["tools"]): Record<string, unknown>[] =>
  (tools ?? []).map(({ type, name, description, parameters, strict }) => ({
    type,
    function: { name, description: description ?? null, parameters: parameters ?? null, strict: strict ?? null },
  }));
