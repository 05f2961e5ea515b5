// POST responses: a chat in the format of OpenAI's Responses. The row of a response holds the response as it was returned
// and the whole conversation up to it, so that the next response needs only this row. When a stored response is read,
// the deletion state of its sources is updated.
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import { chatBody } from "../../contract/chat-body.ts";
import type { Caller, Handler, Handlers, Input, Reply, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { responses } from "../../contract/responses.ts";
import { compile } from "../../contract/validate.ts";
import { messageOf } from "./chat.ts";
import type { ChatAnswer, ChatEnd, RunChat } from "./chat-events.ts";
import { type ChatRequest, formatOf, type RequestMessage, refusalOf, requestDefaults } from "./chat-request.ts";
import { createOutput, messageOfOutput, messagesOf, type OutputEvent, type OutputItem } from "./response-items.ts";
import { confidenceOf } from "./shapes.ts";
import { type HasDocument, namedNow } from "./sources.ts";
import type { ResponseSql } from "./store.ts";
import { messageJson } from "./upstream-chat.ts";

type Endpoint = (typeof responses)["inference.responses"];
type Body = Input<Endpoint>["body"];
type Response = Reply<Endpoint>;

export interface ResponseParts {
  run: RunChat;
  sql: ResponseSql;
  hasDocument: HasDocument;
  clock: Clock;
  log: Log;
}

export const createResponses = (parts: ResponseParts): Handlers<typeof responses> => ({
  "inference.responses": answering(parts),

  "inference.response": async ({ params }, caller) => {
    const row = parts.sql.get.get(params.response_id, caller.userId);
    if (!row) throw new Failure("not_found", "Response not found");
    const { confidence, ...response } = JSON.parse(row.response_json) as Response;
    const sources = namedNow(confidence?.sources, caller.userId, parts.hasDocument);
    return { ...response, confidence: confidence && { ...confidence, sources } };
  },

  "inference.delete_response": async ({ params: { response_id: id } }, caller) => {
    if (parts.sql.remove.run(id, caller.userId).changes === 0) throw new Failure("not_found", "Response not found");
    return { id, object: "response", deleted: true };
  },
});

const answering =
  (parts: ResponseParts): Handler<Endpoint> =>
  async ({ body, ...asked }, caller) => {
    const conversation = [...before(parts, body, caller), ...messagesOf(body.input)];
    const answer = await parts.run(requestOf(body, conversation), asked, caller);
    const head = headOf(`resp_${asked.requestId}`, body, answer);
    const keep = (response: Response): void => {
      if (body.store === false) return;
      parts.sql.insert.run({
        id: response.id,
        ownerId: caller.userId,
        response: JSON.stringify(response),
        messages: JSON.stringify([...conversation, messageOfOutput(response.output)].map(messageJson)),
        at: parts.clock.now(),
      });
    };
    const events = eventsOf(head, answer, keep);
    const onFailure = (error: unknown): void =>
      parts.log("error", "stream.failed", { requestId: asked.requestId, error });
    return body.stream ? new EventStream(stream(events, head, onFailure)) : reply(events);
  };

const checkStored = compile(chatBody.properties.messages.items);

/** The stored conversation up to and including the previous response. Errors in it are reported at previous_response_id. */
function before({ sql }: ResponseParts, body: Body, caller: Caller): RequestMessage[] {
  const id = body.previous_response_id ?? null;
  if (id === null) return [];
  const row = sql.get.get(id, caller.userId);
  if (!row) throw new Failure("not_found", "Previous response not found");
  const at = ["body", "previous_response_id"];
  return (JSON.parse(row.messages_json) as unknown[]).map((stored) => {
    const checked = checkStored(stored);
    if (!checked.ok) throw refusalOf(checked.details.map((detail) => ({ ...detail, loc: at })));
    const { toolCalls, ...message } = messageOf(checked.value, at);
    return {
      ...message,
      ...(toolCalls && { toolCalls: toolCalls.map((call) => ({ ...call, nameAt: at, argumentsAt: at })) }),
    };
  });
}

function requestOf(body: Body, conversation: RequestMessage[]): ChatRequest {
  const { instructions, tool_choice: choice, max_output_tokens: most } = body;
  const format = body.text?.format;
  return {
    ...requestDefaults,
    model: body.model,
    // The instructions apply to this response only.
    messages: instructions
      ? [{ role: "system", content: instructions, at: ["body", "instructions"] }, ...conversation]
      : conversation,
    messagesAt: ["body", "input"],
    draw: { temperature: body.temperature, top_p: body.top_p ?? null },
    maxTokens: most ?? requestDefaults.maxTokens,
    truncateTo: body.truncation === "auto" ? "room" : requestDefaults.truncateTo,
    tools: (body.tools ?? []).map(({ name, description, parameters, strict }, index) => ({
      name: name!,
      ...(description != null && { description }),
      parameters: parameters ?? { type: "object", properties: {} },
      ...(strict != null && { strict }),
      at: ["body", "tools", index, "parameters"],
    })),
    toolChoice: typeof choice === "object" && choice !== null ? { name: choice.name } : (choice ?? "auto"),
    isParallel: body.parallel_tool_calls ?? true,
    format: formatOf(format?.type, format ?? undefined, ["body", "text", "format"]),
    thinking: { ...requestDefaults.thinking, effort: body.reasoning?.effort ?? null },
  };
}

/** The response's fields that are known before the answer. */
const headOf = (id: string, body: Body, { head: { model, created } }: ChatAnswer) => ({
  id,
  object: "response" as const,
  created_at: created,
  status: "in_progress" as const,
  error: null,
  incomplete_details: null,
  background: false,
  instructions: body.instructions ?? null,
  max_output_tokens: body.max_output_tokens ?? null,
  model,
  output: [] as OutputItem[],
  parallel_tool_calls: body.parallel_tool_calls ?? true,
  previous_response_id: body.previous_response_id ?? null,
  reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
  store: body.store ?? true,
  temperature: body.temperature ?? 1,
  text: { format: body.text?.format ?? { type: "text" } },
  tool_choice: body.tool_choice ?? "auto",
  tools: body.tools ?? [],
  top_p: body.top_p ?? 1,
  truncation: body.truncation ?? "disabled",
  usage: null,
  metadata: body.metadata ?? {},
  confidence_score: null,
  confidence: null,
});

type Head = ReturnType<typeof headOf>;

function endedOf(head: Head, output: OutputItem[], end: ChatEnd): Response {
  const isCut = end.finishReason === "length";
  const { promptTokens, cachedTokens, truncatedTokens, completionTokens, reasoningTokens } = end.usage;
  return {
    ...head,
    status: isCut ? "incomplete" : "completed",
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    output,
    usage: {
      input_tokens: promptTokens,
      input_tokens_details: { cached_tokens: cachedTokens, truncated_tokens: truncatedTokens },
      output_tokens: completionTokens,
      output_tokens_details: { reasoning_tokens: reasoningTokens },
      total_tokens: promptTokens + completionTokens,
    },
    ...confidenceOf([end]),
  };
}

/** Yields the events of a response. The last event holds the complete response. */
async function* eventsOf(
  head: Head,
  { events }: ChatAnswer,
  keep: (response: Response) => void,
): AsyncGenerator<OutputEvent, void, void> {
  yield { type: "response.created", response: head };
  yield { type: "response.in_progress", response: head };
  const output = createOutput(head.id);
  for await (const event of events) {
    yield* output.add(event);
    if (event.kind !== "end") continue;
    const response = endedOf(head, output.items, event.end);
    keep(response);
    yield { type: `response.${response.status}`, response };
  }
}

async function reply(events: AsyncIterable<OutputEvent>): Promise<Response> {
  let last: OutputEvent | null = null;
  for await (const event of events) last = event;
  return last!.response as Response;
}

async function* stream(
  events: AsyncIterable<OutputEvent>,
  head: Head,
  onFailure: (error: unknown) => void,
): AsyncGenerator<StreamEvent, void, void> {
  let sequence = 0;
  const numbered = ({ type, ...more }: OutputEvent): StreamEvent => ({
    event: type,
    data: JSON.stringify({ type, sequence_number: sequence++, ...more }),
  });
  try {
    for await (const event of events) yield numbered(event);
  } catch (error) {
    onFailure(error);
    const failure = error instanceof Failure ? error : new Failure("internal", undefined, { cause: error });
    const response = { ...head, status: "failed", error: { code: failure.code, message: failure.message } };
    yield numbered({ type: "response.failed", response });
  }
}
