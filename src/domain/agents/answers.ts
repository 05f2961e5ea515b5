// An agent's answer is a chat completion of its model. The agent's system prompt comes first, and its temperature
// applies unless the request sets another. Tokens are counted as for any chat. Only the answer's duration and
// confidence are reported here, for the agent's own statistics.
import { Failure } from "../../base/errors.ts";
import type { Clock } from "../../base/time.ts";
import type { agents } from "../../contract/agents.ts";
import type { chat } from "../../contract/chat.ts";
import { chatBody } from "../../contract/chat-body.ts";
import {
  type Caller,
  EventStream,
  type Handler,
  type Input,
  type Reply,
  type StreamEvent,
} from "../../contract/endpoint.ts";
import { compile } from "../../contract/validate.ts";
import type { AgentRow } from "./store.ts";

type Chat = (typeof chat)["inference.chat"];
type AskedBody = Input<(typeof agents)["agents.completions"]>["body"];
type Message = AskedBody["messages"][number];

/** The parts of a request that pass through to the model. */
export type Passed = Pick<Input<Chat>, "headers" | "requestId" | "signal" | "setHeader">;

export interface Answered {
  seconds: number;
  /** Null if the answer has no confidence, as from a base model. */
  confidence: number | null;
}

export interface AnswersParts {
  /** Without prompt_truncate_len, the prompt may fill the context, less the room for the answer. */
  chat: Handler<Chat>;
  clock: Clock;
  /** Called after each complete answer. */
  ended: (agent: AgentRow, requestId: string, answered: Answered) => void;
}

export interface Answers {
  /** Answers a conversation, without streaming. */
  reply(agent: AgentRow, messages: Message[], passed: Passed, caller: Caller): Promise<Reply<Chat>>;
  /** Answers a conversation. The answer is streamed if the body requests a stream. */
  complete(agent: AgentRow, body: AskedBody, passed: Passed, caller: Caller): Promise<Reply<Chat> | EventStream>;
}

/** Validates a chat body and fills in its defaults. */
const check = compile(chatBody);

export function createAnswers({ chat, clock, ended }: AnswersParts): Answers {
  async function complete(agent: AgentRow, body: AskedBody, passed: Passed, caller: Caller) {
    const begunMs = clock.monotonicMs();
    const asked = check({
      ...body,
      model: agent.model_id,
      messages: asAgent(agent, body.messages),
      temperature: body.temperature ?? agent.temperature,
      // A limit that is left out is null here, because the schema of chats would fill in the default of 1500, which a long
      // system prompt alone exceeds.
      prompt_truncate_len: body.prompt_truncate_len ?? null,
    });
    if (!asked.ok) throw new Failure("validation", undefined, { details: asked.details });
    const nothing = { params: {}, query: {}, raw: {}, files: [], lastEventId: null };
    const answer = await chat({ ...nothing, ...passed, body: asked.value }, caller);
    const end = (confidence: number | null): void =>
      ended(agent, passed.requestId, { seconds: (clock.monotonicMs() - begunMs) / 1000, confidence });
    if (answer instanceof EventStream) return new EventStream(followed(answer, end));
    end(answer.confidence_score ?? null);
    return answer;
  }

  return {
    complete,
    async reply(agent, messages, passed, caller) {
      const answer = await complete(agent, { messages, stream: false } as AskedBody, passed, caller);
      if (answer instanceof EventStream)
        throw new Failure("internal", "The answer is a stream, which was not requested");
      return answer;
    },
  };
}

/**
 * Puts the agent's system prompt before the messages. If the first message is a system message, under either of its
 * roles, the two are merged, because chat templates support only one system message, at the start.
 */
function asAgent({ system_prompt }: AgentRow, messages: readonly Message[]): Message[] {
  if (system_prompt === "") return [...messages];
  const [first, ...rest] = messages;
  if (first?.role !== "system" && first?.role !== "developer")
    return [{ role: "system", content: system_prompt }, ...messages];
  const content =
    typeof first.content === "string"
      ? `${system_prompt}\n\n${first.content}`
      : [{ type: "text", text: `${system_prompt}\n\n` }, ...((first.content ?? []) as object[])];
  return [{ ...first, content } as Message, ...rest];
}

/**
 * Passes the stream on. When it ends, reports the confidence, which is in one of the last chunks. A stream that breaks
 * off is not reported.
 */
async function* followed(
  stream: EventStream,
  end: (confidence: number | null) => void,
): AsyncGenerator<StreamEvent, void, void> {
  let confidence: number | null = null;
  for await (const event of stream.events) {
    if (event.data.includes('"confidence_score"'))
      confidence = (JSON.parse(event.data) as { confidence_score?: number | null }).confidence_score ?? confidence;
    yield event;
  }
  end(confidence);
}
