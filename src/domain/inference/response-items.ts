// Items of the Responses endpoint as messages of a chat, and the answer of a chat as items.
import { type Failure, invalid } from "../../base/errors.ts";
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
  for (const [index, item] of input.entries()) {
    const loc = (field: string): (string | number)[] => ["body", "input", index, field];
    const wanted = <T>(value: T | undefined | null, field: string): T => {
      if (value === undefined || value === null) throw invalid(loc(field), "field required", "missing");
      return value;
    };
    const type = item.type ?? "message";
    if (type === "message") {
      const role = wanted(item.role, "role");
      const content = textOf(wanted(item.content, "content"), loc("content"));
      if (role !== "assistant") messages.push({ role, content });
      else if (thought !== "") assistant().content = content;
      else messages.push({ role, content });
    } else if (type === "function_call") {
      const message = assistant();
      message.tool_calls = [
        ...((message.tool_calls as unknown[] | undefined) ?? []),
        {
          id: wanted(item.call_id, "call_id"),
          type: "function",
          function: { name: wanted(item.name, "name"), arguments: wanted(item.arguments, "arguments") },
        },
      ];
    } else if (type === "function_call_output")
      messages.push({
        role: "tool",
        tool_call_id: wanted(item.call_id, "call_id"),
        content: textOf(wanted(item.output, "output"), loc("output")),
      });
    else if (type === "reasoning") thought += item.content ? textOf(item.content, loc("content")) : "";
    else
      throw invalid(
        loc("type"),
        `${type} is not known; messages, function_call, function_call_output and reasoning are`,
      );
  }
  return messages;
}

const read = new Set(["input_text", "output_text", "text", "reasoning_text"]);

function textOf(content: string | Parts, loc: (string | number)[]): string {
  if (typeof content === "string") return content;
  return content
    .map((part, index) => {
      if (!read.has(part.type)) throw unread(part.type, [...loc, index, "type"]);
      return part.text ?? "";
    })
    .join("");
}

const unread = (type: string, loc: (string | number)[]): Failure =>
  invalid(
    loc,
    /image|file|audio/.test(type) ? `${type} is not read: the models here read text` : `${type} is not known`,
  );

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

/** What a tool is in a chat. Throws validation for those that a server would run. */
export function toolsOf(tools: ResponseBody["tools"]): Record<string, unknown>[] {
  return (tools ?? []).map(({ type, name, description, parameters, strict }, index) => {
    if (type !== "function") throw invalid(["body", "tools", index, "type"], `${type} is not served: only function is`);
    if (name === undefined) throw invalid(["body", "tools", index, "name"], "field required", "missing");
    return {
      type,
      function: { name, description: description ?? null, parameters: parameters ?? null, strict: strict ?? null },
    };
  });
}
