// Finds the question and the answer in each API dialect: in the request body, in a whole reply, and in the events of a
// stream. Bodies and replies have already been validated against the contract, so the casts here name only the fields that are used.
import type { StreamEvent } from "../../contract/endpoint.ts";

/** The part of an answer that has arrived so far. */
export interface Heard {
  answer: string;
  model: string;
  /** Null for a base model, and for a run of an agent. */
  confidence: number | null;
}

export interface Form {
  /** Returns the last user message of a request. */
  question(body: unknown): string;
  whole(reply: unknown): Heard;
  /** Adds an event of the stream to `heard`. */
  event(heard: Heard, chunk: unknown): void;
}

type Content = string | readonly { text?: string }[] | null | undefined;

const textOf = (content: Content): string =>
  typeof content === "string" ? content : (content ?? []).flatMap(({ text }) => text ?? []).join("\n");

interface Message {
  role?: string;
  content?: Content;
}

const lastSaid = (messages: readonly Message[]): string =>
  textOf(messages.findLast(({ role }) => role === "user")?.content);

interface Scored {
  model?: string;
  confidence_score?: number | null;
}

const headOf = ({ model = "", confidence_score = null }: Scored): Pick<Heard, "model" | "confidence"> => ({
  model,
  confidence: confidence_score,
});

const chat: Form = {
  question: (body) => lastSaid((body as { messages: Message[] }).messages),
  whole(reply) {
    const { choices, ...head } = reply as Scored & { choices: { message: Message }[] };
    return { answer: textOf(choices[0]!.message.content), ...headOf(head) };
  },
  event(heard, chunk) {
    const {
      choices = [],
      model,
      confidence_score,
    } = chunk as Scored & {
      choices?: { index: number; delta?: { content?: string | null } }[];
    };
    heard.model = model ?? heard.model;
    heard.confidence = confidence_score ?? heard.confidence;
    for (const { index, delta } of choices) if (index === 0) heard.answer += delta?.content ?? "";
  },
};

/** Anthropic's Messages API. */
const messages: Form = {
  question: chat.question,
  whole(reply) {
    const { content, ...head } = reply as Scored & { content: { type: string; text?: string }[] };
    return { answer: textOf(content.filter(({ type }) => type === "text")), ...headOf(head) };
  },
  event(heard, chunk) {
    const { message, delta, confidence_score } = chunk as {
      message?: { model: string };
      delta?: { type?: string; text?: string };
      confidence_score?: number | null;
    };
    heard.model = message?.model ?? heard.model;
    heard.confidence = confidence_score ?? heard.confidence;
    if (delta?.type === "text_delta") heard.answer += delta.text ?? "";
  },
};

const responses: Form = {
  question(body) {
    const { input } = body as { input: string | Message[] };
    return typeof input === "string" ? input : lastSaid(input);
  },
  whole(reply) {
    const { output, ...head } = reply as Scored & { output: { type: string; content?: Content }[] };
    const said = output.filter(({ type }) => type === "message").map(({ content }) => textOf(content));
    return { answer: said.join("\n"), ...headOf(head) };
  },
  event(heard, chunk) {
    // The last event carries the whole response.
    const { type, response } = chunk as { type: string; response?: unknown };
    if (/^response\.(completed|incomplete)$/.test(type)) Object.assign(heard, responses.whole(response));
  },
};

/** A run of an agent on one question. */
const run: Form = {
  question: (body) => (body as { message: string }).message,
  whole(reply) {
    const { response, model } = reply as { response: string; model: string };
    return { answer: response, model, confidence: null };
  },
  event: () => {},
};

export const forms = { chat, messages, responses, run } as const;

/**
 * Passes a stream on unchanged, and calls `end` with the answer. A stream that fails, or whose reader leaves early,
 * gives no answer.
 */
export async function* overheard(
  form: Form,
  events: AsyncIterable<StreamEvent>,
  end: (heard: Heard) => void,
): AsyncGenerator<StreamEvent, void, void> {
  const heard: Heard = { answer: "", model: "", confidence: null };
  let failed = false;
  for await (const event of events) {
    failed ||= event.data !== "[DONE]" && !takeIn(form, heard, event.data);
    yield event;
  }
  if (!failed) end(heard);
}

/** Adds an event to `heard`. Returns false if the event reports a failure or cannot be read, because upstreams may send anything. */
function takeIn(form: Form, heard: Heard, data: string): boolean {
  try {
    const chunk = JSON.parse(data) as { type?: string; error?: unknown };
    if (chunk.type === "error" || chunk.error != null) return false;
    form.event(heard, chunk);
    return true;
  } catch {
    return false;
  }
}
