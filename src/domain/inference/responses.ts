// POST responses: a chat in the format of OpenAI's Responses. Stored are the response as returned and the whole
// conversation up to it, so that the next response needs only this row. On reading, only the deletion state of the
// sources is updated.
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { Caller, Handler, Handlers, Reply, StreamEvent } from "../../contract/endpoint.ts";
import { EventStream } from "../../contract/endpoint.ts";
import type { responses } from "../../contract/responses.ts";
import { type Answer, messageOf, messagesOf, type ResponseBody, toolsOf } from "./response-items.ts";
import { type HasDocument, namedNow } from "./sources.ts";
import type { ResponseSql } from "./store.ts";
import { type FieldNames, type MadeMessage, namesOf, type RunTurn, uncut } from "./turn.ts";
import type { Turn, TurnEnd, TurnPiece } from "./turn-pieces.ts";

type Endpoint = (typeof responses)["inference.responses"];
type Response = Reply<Endpoint>;
type Item = Response["output"][number];

export interface ResponseParts {
  run: RunTurn;
  sql: ResponseSql;
  /** Tokens of a seat. */
  seatContext: number;
  hasDocument: HasDocument;
  clock: Clock;
  log: Log;
}

/** Names of the chat body's fields in this endpoint. */
const chatNames = (made: readonly MadeMessage[]): FieldNames => [
  ...namesOf(made),
  ["messages", "input"],
  ["max_tokens", "max_output_tokens"],
  ["response_format.json_schema.schema", "text.format.schema"],
  ["response_format", "text.format"],
  ["tools.*.function", "tools.*"],
];

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
    const made = [...instructionsOf(body), ...conversation];
    const turn = await parts.run(chatOf(body, made, parts), asked, caller, () => chatNames(made));
    const head = headOf(`resp_${asked.requestId}`, body, turn);
    const keep = (response: Response, answer: Answer): void => {
      if (body.store === false) return;
      parts.sql.insert.run({
        id: response.id,
        ownerId: caller.userId,
        response: JSON.stringify(response),
        messages: JSON.stringify([...conversation.map(({ message }) => message), messageOf(answer)]),
        at: parts.clock.now(),
      });
    };
    const work = told(head, turn, keep, (error) =>
      parts.log("error", "stream.failed", { requestId: asked.requestId, error }),
    );
    return body.stream ? new EventStream(work) : whole(turn, head, keep);
  };

/** The instructions as a system message. They apply to this response only. */
const instructionsOf = ({ instructions }: ResponseBody): MadeMessage[] =>
  instructions ? [{ message: { role: "system", content: instructions }, from: [["**", "instructions"]] }] : [];

/** The conversation up to the previous response. */
function before({ sql }: ResponseParts, body: ResponseBody, caller: Caller): MadeMessage[] {
  const id = body.previous_response_id ?? null;
  if (id === null) return [];
  const row = sql.get.get(id, caller.userId);
  if (!row) throw new Failure("not_found", "Previous response not found");
  return (JSON.parse(row.messages_json) as MadeMessage["message"][]).map((message) => ({
    message,
    from: [["**", "previous_response_id"]],
  }));
}

/** Share of a seat that is reserved for the answer if the prompt is truncated and the request sets no limit. */
const answerShare = 0.25;

function chatOf(
  body: ResponseBody,
  made: readonly MadeMessage[],
  { seatContext }: ResponseParts,
): Record<string, unknown> {
  const { tool_choice: choice, text, reasoning } = body;
  const tools = toolsOf(body.tools);
  const format = text?.format;
  return {
    ...(body.model === undefined ? {} : { model: body.model }),
    messages: made.map(({ message }) => message),
    prompt_truncate_len:
      body.truncation === "auto"
        ? Math.max(1, seatContext - (body.max_output_tokens ?? Math.ceil(answerShare * seatContext)))
        : uncut,
    ...(body.max_output_tokens == null ? {} : { max_tokens: body.max_output_tokens }),
    temperature: body.temperature,
    top_p: body.top_p,
    ...(tools.length === 0
      ? {}
      : {
          tools,
          tool_choice:
            typeof choice === "object" && choice !== null
              ? { type: "function", function: { name: choice.name } }
              : (choice ?? "auto"),
          parallel_tool_calls: body.parallel_tool_calls,
        }),
    ...(format && format.type !== "text"
      ? {
          response_format:
            format.type === "json_object"
              ? { type: "json_object" }
              : { type: "json_schema", json_schema: { name: format.name ?? "answer", schema: format.schema } },
        }
      : {}),
    ...(reasoning?.effort ? { reasoning: { effort: reasoning.effort } } : {}),
  };
}

/** The response's fields that are known before the answer. */
const headOf = (id: string, body: ResponseBody, { model, created }: Turn) => ({
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
  output: [] as Item[],
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

function ended(head: Head, output: Item[], { finish, usage, confidenceScore, confidence }: TurnEnd): Response {
  const isCut = finish === "length";
  return {
    ...head,
    status: isCut ? "incomplete" : "completed",
    incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
    output,
    usage: {
      input_tokens: usage.promptTokens,
      input_tokens_details: { cached_tokens: usage.cachedTokens, truncated_tokens: usage.truncatedTokens },
      output_tokens: usage.completionTokens,
      output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
      total_tokens: usage.promptTokens + usage.completionTokens,
    },
    confidence_score: confidenceScore,
    confidence,
  };
}

/** The complete response, built from the same pieces as the stream. */
async function whole(turn: Turn, head: Head, keep: (response: Response, answer: Answer) => void): Promise<Response> {
  const answer = createAnswer(head.id);
  for await (const piece of turn.pieces)
    if ("end" in piece) {
      answer.finish(piece.end);
      const response = ended(head, answer.items, piece.end);
      keep(response, answer.said());
      return response;
    } else answer.add(piece);
  throw new Failure("inference_failed", "The answer did not end");
}

async function* told(
  head: Head,
  turn: Turn,
  keep: (response: Response, answer: Answer) => void,
  onFailure: (error: unknown) => void,
): AsyncGenerator<StreamEvent, void, void> {
  let sequence = 0;
  const event = (type: string, more: object): StreamEvent => ({
    event: type,
    data: JSON.stringify({ type, sequence_number: sequence++, ...more }),
  });
  const answer = createAnswer(head.id);
  yield event("response.created", { response: head });
  yield event("response.in_progress", { response: head });
  try {
    for await (const piece of turn.pieces) {
      const isEnd = "end" in piece;
      for (const { type, ...more } of isEnd ? answer.finish(piece.end) : answer.add(piece)) yield event(type, more);
      if (!isEnd) continue;
      const response = ended(head, answer.items, piece.end);
      keep(response, answer.said());
      yield event(`response.${response.status}`, { response });
    }
  } catch (error) {
    onFailure(error);
    const failure = error instanceof Failure ? error : new Failure("internal", undefined, { cause: error });
    const response = { ...head, status: "failed", error: { code: failure.code, message: failure.message } };
    yield event("response.failed", { response });
  }
}

interface ItemEvent {
  type: string;
  [field: string]: unknown;
}

type Piece = Exclude<TurnPiece, { end: TurnEnd }>;

/**
 * Builds the output items: thoughts, a message, calls. An item begins with its first piece and ends when another begins
 * or at the end.
 */
function createAnswer(responseId: string) {
  const items: Item[] = [];
  const said: Answer = { thought: "", text: "", calls: [] };
  let kind = "";

  const current = (): Item => items.at(-1)!;
  const place = (): { item_id: string; output_index: number } => ({
    item_id: current().id,
    output_index: items.length - 1,
  });
  const within = { content_index: 0 };

  function close(status: "completed" | "incomplete"): ItemEvent[] {
    if (kind === "") return [];
    const item = current();
    kind = "";
    item.status = status;
    const done = { type: "response.output_item.done", output_index: items.length - 1, item };
    if (item.type === "function_call")
      return [
        { type: "response.function_call_arguments.done", ...place(), name: item.name, arguments: item.arguments },
        done,
      ];
    const part = item.content![0] as { type: string; text: string };
    const name = part.type === "output_text" ? "output_text" : "reasoning_text";
    return [
      {
        type: `response.${name}.done`,
        ...place(),
        ...within,
        text: part.text,
        ...(name === "output_text" ? { logprobs: [] } : {}),
      },
      { type: "response.content_part.done", ...place(), ...within, part },
      done,
    ];
  }

  function open(name: string, item: { type: Item["type"]; [field: string]: unknown }): ItemEvent[] {
    if (kind === name) return [];
    const events = close("completed");
    kind = name;
    const mark = { message: "msg", function_call: "fc", reasoning: "rs" }[item.type];
    items.push({ id: `${mark}_${items.length}_${responseId}`, status: "in_progress", ...item } as Item);
    // A copy, because the item itself grows later.
    events.push({
      type: "response.output_item.added",
      output_index: items.length - 1,
      item: { ...current(), content: [] },
    });
    if (item.type === "function_call") events.at(-1)!.item = { ...current() };
    else {
      const part = partOf(item.type, "");
      current().content = [part];
      events.push({ type: "response.content_part.added", ...place(), ...within, part: { ...part } });
    }
    return events;
  }

  function grow(text: string, name: "output_text" | "reasoning_text"): ItemEvent[] {
    const part = current().content![0] as { type: string; text?: string };
    part.text += text;
    const logprobs = name === "output_text" ? { logprobs: [] } : {};
    return [{ type: `response.${name}.delta`, ...place(), ...within, delta: text, ...logprobs }];
  }

  return {
    items,
    said: () => said,
    add(piece: Piece): ItemEvent[] {
      if ("thought" in piece) {
        said.thought += piece.thought;
        return [
          ...open("thought", { type: "reasoning", summary: [], content: [] }),
          ...grow(piece.thought, "reasoning_text"),
        ];
      }
      if ("text" in piece) {
        said.text += piece.text;
        return [
          ...open("text", { type: "message", role: "assistant", content: [] }),
          ...grow(piece.text, "output_text"),
        ];
      }
      said.calls[piece.call] ??= { id: piece.id ?? "", name: piece.name ?? "", arguments: "" };
      const call = said.calls[piece.call]!;
      call.arguments += piece.arguments;
      const events = open(`call ${piece.call}`, {
        type: "function_call",
        call_id: call.id,
        name: call.name,
        arguments: "",
      });
      current().arguments = call.arguments;
      if (piece.arguments !== "")
        events.push({ type: "response.function_call_arguments.delta", ...place(), delta: piece.arguments });
      return events;
    },
    finish: ({ finish }: TurnEnd): ItemEvent[] => [
      // An empty answer still has a message.
      ...(items.length === 0 ? open("text", { type: "message", role: "assistant", content: [] }) : []),
      ...close(finish === "length" ? "incomplete" : "completed"),
    ],
  };
}

const partOf = (type: Item["type"], text: string) =>
  type === "reasoning"
    ? { type: "reasoning_text" as const, text }
    : { type: "output_text" as const, text, annotations: [], logprobs: [] };
