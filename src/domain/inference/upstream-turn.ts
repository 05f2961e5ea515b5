// Converts an upstream's chat stream into the pieces of a turn.
import { Failure } from "../../base/errors.ts";
import type { StreamEvent } from "../../contract/endpoint.ts";
import type { Turn, TurnEnd, TurnPiece } from "./turn-pieces.ts";

interface Chunk {
  created: number;
  model: string;
  choices: {
    delta: {
      content?: string | null;
      reasoning_content?: string;
      tool_calls?: { index: number; id?: string; function: { name?: string; arguments?: string } }[];
    };
    finish_reason: TurnEnd["finish"] | null;
  }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
    completion_tokens_details?: { reasoning_tokens?: number };
  };
}

/** Waits for the first chunk, so that an error before it is returned as the response. */
export async function turnOfChunks(events: AsyncIterable<StreamEvent>): Promise<Turn> {
  const chunks = chunksOf(events);
  const first = await chunks.next();
  if (first.done) throw new Failure("upstream_failed", "The upstream's answer did not begin");
  const { model, created } = first.value;
  return { model, created, promptTokens: null, pieces: piecesOf(first.value, chunks) };
}

async function* chunksOf(events: AsyncIterable<StreamEvent>): AsyncGenerator<Chunk, void, void> {
  for await (const { data } of events) if (data !== "[DONE]") yield JSON.parse(data) as Chunk;
}

async function* piecesOf(
  first: Chunk,
  others: AsyncGenerator<Chunk, void, void>,
): AsyncGenerator<TurnPiece, void, void> {
  let finish: TurnEnd["finish"] = "stop";
  let last = first;
  try {
    for (let chunk: Chunk | null = first; chunk !== null; chunk = (await others.next()).value ?? null) {
      last = chunk;
      for (const { delta, finish_reason } of chunk.choices) {
        if (delta.reasoning_content) yield { thought: delta.reasoning_content };
        if (delta.content) yield { text: delta.content };
        for (const { index, id, function: called } of delta.tool_calls ?? [])
          yield {
            call: index,
            ...(id === undefined ? {} : { id }),
            ...(called.name === undefined ? {} : { name: called.name }),
            arguments: called.arguments ?? "",
          };
        finish = finish_reason ?? finish;
      }
    }
  } finally {
    // A reader that stops early ends the work.
    await others.return();
  }
  yield { end: { finish, stopString: null, usage: usageOf(last.usage), confidenceScore: null, confidence: null } };
}

const usageOf = (usage: Chunk["usage"]): TurnEnd["usage"] => ({
  promptTokens: usage?.prompt_tokens ?? 0,
  completionTokens: usage?.completion_tokens ?? 0,
  cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
  reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens ?? 0,
  truncatedTokens: 0,
});
