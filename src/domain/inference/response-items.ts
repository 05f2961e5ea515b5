// The items of the Responses endpoint. Converts input items to chat messages, and chat events to output items and their
// stream events.
import type { Input, Reply } from "../../contract/endpoint.ts";
import type { responses } from "../../contract/responses.ts";
import type { ChatMessage } from "../../engine/format/chat-format.ts";
import type { ChatEvent } from "./chat-events.ts";
import { argumentsOf, type Place, type RequestCall, type RequestMessage } from "./chat-request.ts";

type Endpoint = (typeof responses)["inference.responses"];
type InputItems = Input<Endpoint>["body"]["input"];
type Parts = Exclude<Exclude<InputItems, string>[number]["content"], string | null | undefined>;
export type OutputItem = Reply<Endpoint>["output"][number];

/** Converts input items to messages. Consecutive calls, and the assistant text before them, become one message. */
export function messagesOf(input: InputItems): RequestMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input, at: ["body", "input"] }];
  const messages: (RequestMessage & { toolCalls?: RequestCall[] })[] = [];
  let thought = "";
  const assistant = (at: Place) => {
    const last = messages.at(-1);
    if (last?.role === "assistant" && thought === "") return last;
    messages.push({ role: "assistant", content: "", ...(thought !== "" && { thought }), at });
    thought = "";
    return messages.at(-1)!;
  };
  for (const [index, { type, ...item }] of input.entries()) {
    const at = ["body", "input", index];
    switch (type ?? "message") {
      case "message": {
        const content = textOf(item.content!);
        if (item.role === "assistant" && thought !== "") assistant(at).content = content;
        else messages.push({ role: item.role!, content, at });
        break;
      }
      case "function_call": {
        const one = assistant(at);
        one.toolCalls ??= [];
        one.toolCalls.push({
          id: item.call_id!,
          name: item.name!,
          arguments: argumentsOf(item.arguments!),
          nameAt: [...at, "name"],
          argumentsAt: [...at, "arguments"],
        });
        break;
      }
      case "function_call_output":
        messages.push({ role: "tool", toolCallId: item.call_id!, content: textOf(item.output!), at });
        break;
      case "reasoning":
        thought += item.content ? textOf(item.content) : "";
        break;
    }
  }
  return messages;
}

const textOf = (content: string | Parts): string =>
  typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");

/** Joins the output items to one message, which later responses continue from. */
export function messageOfOutput(output: readonly OutputItem[]): ChatMessage {
  const ofType = (type: OutputItem["type"]) => output.filter((item) => item.type === type);
  const textsOf = (type: OutputItem["type"]) => ofType(type).map(({ content }) => textOf(content!));
  const toolCalls = ofType("function_call").map((item) => ({
    id: item.call_id!,
    name: item.name!,
    arguments: item.arguments!,
  }));
  const thought = textsOf("reasoning").join("");
  return {
    role: "assistant",
    content: textsOf("message").join(""),
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(thought !== "" && { thought }),
  };
}

export interface OutputEvent {
  type: string;
  [field: string]: unknown;
}

/**
 * Builds the output items: thoughts, messages and calls. An item begins with its first event, and ends when another item
 * begins or when the answer ends.
 */
export function createOutput(responseId: string) {
  const items: OutputItem[] = [];
  const itemOfCall: number[] = [];
  /** Name of the last item while it grows; empty once the item is complete. */
  let open = "";

  const placeOf = (index: number) => ({ item_id: items[index]!.id, output_index: index });
  const place = () => placeOf(items.length - 1);
  const within = { content_index: 0 };
  const partOf = (item: OutputItem) => item.content![0] as { type: "output_text" | "reasoning_text"; text: string };
  const logprobsOf = (name: string) => (name === "output_text" ? { logprobs: [] } : {});

  function close(status: "completed" | "incomplete"): OutputEvent[] {
    if (open === "") return [];
    const item = items.at(-1)!;
    open = "";
    item.status = status;
    const done = { type: "response.output_item.done", output_index: items.length - 1, item };
    if (item.type === "function_call")
      return [
        { type: "response.function_call_arguments.done", ...place(), name: item.name, arguments: item.arguments },
        done,
      ];
    const part = partOf(item);
    return [
      { type: `response.${part.type}.done`, ...place(), ...within, text: part.text, ...logprobsOf(part.type) },
      { type: "response.content_part.done", ...place(), ...within, part },
      done,
    ];
  }

  function begin(name: string, fields: { type: OutputItem["type"]; [field: string]: unknown }): OutputEvent[] {
    if (open === name) return [];
    const events = close("completed");
    open = name;
    const mark = { message: "msg", function_call: "fc", reasoning: "rs" }[fields.type];
    const item = { id: `${mark}_${items.length}_${responseId}`, status: "in_progress", ...fields } as OutputItem;
    items.push(item);
    // Send copies, because the item itself grows later.
    events.push({ type: "response.output_item.added", output_index: items.length - 1, item: { ...item } });
    if (item.type === "function_call") return events;
    const part =
      item.type === "reasoning"
        ? { type: "reasoning_text" as const, text: "" }
        : { type: "output_text" as const, text: "", annotations: [], logprobs: [] };
    item.content = [part];
    events.push({ type: "response.content_part.added", ...place(), ...within, part: { ...part } });
    return events;
  }

  function grow(text: string): OutputEvent {
    const part = partOf(items.at(-1)!);
    part.text += text;
    return { type: `response.${part.type}.delta`, ...place(), ...within, delta: text, ...logprobsOf(part.type) };
  }

  const beginMessage = () => begin("words", { type: "message", role: "assistant", content: [] });

  function add(event: ChatEvent): OutputEvent[] {
    switch (event.kind) {
      case "thought":
        return [...begin("thought", { type: "reasoning", summary: [], content: [] }), grow(event.text)];
      case "words":
        return [...beginMessage(), grow(event.text)];
      case "call": {
        const { call, id, name } = event;
        const events = begin(`call ${call}`, { type: "function_call", call_id: id, name, arguments: "" });
        itemOfCall[call] = items.length - 1;
        return events;
      }
      case "arguments": {
        const index = itemOfCall[event.call]!;
        items[index]!.arguments += event.text;
        return [{ type: "response.function_call_arguments.delta", ...placeOf(index), delta: event.text }];
      }
      case "end":
        return [
          // An empty answer still has a message.
          ...(items.length === 0 ? beginMessage() : []),
          ...close(event.end.finishReason === "length" ? "incomplete" : "completed"),
        ];
    }
  }
  return { items, add };
}
