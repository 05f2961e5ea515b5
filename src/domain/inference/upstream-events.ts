// Reads an upstream's answer, whole or as server-sent events.
import { Failure } from "../../base/errors.ts";
import type { UpstreamBody } from "./upstream-body.ts";
import { messageOf } from "./upstream-refusals.ts";

export interface UpstreamUsage {
  prompt_tokens?: number;
  completion_tokens?: number;
}

interface Delta {
  content?: unknown;
  reasoning_content?: unknown;
  reasoning?: unknown;
  tool_calls?: { function?: { arguments?: string } }[] | null;
}

/** What is read of an answer, or of an event of its stream. The rest is passed on as it is. */
export interface UpstreamAnswer {
  choices?: {
    message?: { tool_calls?: object[] };
    finish_reason?: string | null;
    text?: string;
    delta?: Delta | null;
  }[];
  usage?: UpstreamUsage | null;
}

/** Average length of a token in bytes of UTF-8. */
const tokenBytes = 4;

/**
 * Estimates the usage of a stream, for a client that leaves before the server reports it and for servers that never do. Most
 * servers send a chunk per token, so the answer has at least as many tokens as chunks that say something.
 */
export function createEstimate({ messages, prompt, tools }: UpstreamBody) {
  let chunks = 0;
  let bytes = 0;
  return {
    add({ choices }: UpstreamAnswer): void {
      for (const { text, delta } of choices ?? []) {
        const thought = delta?.reasoning_content || delta?.reasoning;
        const called = delta?.tool_calls?.map((call) => call.function?.arguments) ?? [];
        const size = [text, delta?.content, thought, ...called].reduce<number>((sum, said) => sum + bytesOf(said), 0);
        chunks += size > 0 ? 1 : 0;
        bytes += size;
      }
    },
    usage: (): Required<UpstreamUsage> => ({
      prompt_tokens: Math.ceil(bytesOf([messages, prompt, tools]) / tokenBytes),
      completion_tokens: Math.max(chunks, Math.ceil(bytes / tokenBytes)),
    }),
  };
}

/** Bytes of a text, or of the JSON of anything else. */
function bytesOf(said: unknown): number {
  if (said === undefined || said === null) return 0;
  return Buffer.byteLength(typeof said === "string" ? said : JSON.stringify(said));
}

/** Throws upstream_failed for an answer or an event that holds an error, which some servers send with status 200. */
export function readAnswer(name: string, json: string): UpstreamAnswer {
  const answer = JSON.parse(json) as UpstreamAnswer & { error?: unknown };
  if (answer.error) throw new Failure("upstream_failed", `The upstream ${name} failed${messageOf(json)}`);
  return answer;
}

/** Reads an answer of choices that is not a stream. Throws upstream_failed for an error, and for an answer without choices. */
export function readChoices(name: string, json: string): UpstreamAnswer {
  const answer = readAnswer(name, json);
  if (!Array.isArray(answer.choices))
    throw new Failure("upstream_failed", `The upstream ${name} sent an answer without choices`);
  return answer;
}

/** Yields the data of each event. Servers that know no streams answer with JSON, which becomes one event and the end. */
export async function* dataOf(name: string, response: Response): AsyncGenerator<string, void, void> {
  if (!/^application\/json\b/i.test(response.headers.get("content-type") ?? "")) return yield* eventData(response);
  yield JSON.stringify(asChunk(readChoices(name, await response.text())));
  yield "[DONE]";
}

/** An answer as a chunk of a stream. A choice of a completion is the same in both; a chat's has a delta for its message. */
function asChunk({ choices = [], ...answer }: UpstreamAnswer): object {
  const deltaOf = ({ tool_calls, ...message }: { tool_calls?: object[] }) => ({
    ...message,
    ...(tool_calls && { tool_calls: tool_calls.map((call, index) => ({ index, ...call })) }),
  });
  const isChat = choices.some(({ message }) => message !== undefined);
  return {
    ...answer,
    ...(isChat && { object: "chat.completion.chunk" }),
    choices: choices.map(({ message, ...choice }) => (message ? { ...choice, delta: deltaOf(message) } : choice)),
  };
}

async function* eventData(response: Response): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let held = "";
  for await (const bytes of response.body ?? []) {
    held += decoder.decode(bytes, { stream: true });
    const events = held.split(/\r?\n\r?\n/);
    held = events.pop()!;
    yield* events.flatMap(dataIn);
  }
  // Some servers end the last event with the connection.
  yield* dataIn(held);
}

function dataIn(event: string): string[] {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length === 0 ? [] : [lines.map((line) => line.slice(5).trimStart()).join("\n")];
}
