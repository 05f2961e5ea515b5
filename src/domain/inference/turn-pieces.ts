// An answer in pieces, as the endpoints get it whose format is not that of chat/completions.
import type { Behind } from "./shapes.ts";

export interface TurnUsage {
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  reasoningTokens: number;
  truncatedTokens: number;
}

export interface TurnEnd {
  finish: "stop" | "length" | "tool_calls";
  /** The stop string that ended the answer, if one did. */
  stopString: string | null;
  usage: TurnUsage;
  confidenceScore: number | null;
  confidence: Behind | null;
}

export type TurnPiece =
  | { thought: string }
  | { text: string }
  /** `name` and `id` with the first piece of a call only. */
  | { call: number; id?: string; name?: string; arguments: string }
  | { end: TurnEnd };

export interface Turn {
  model: string;
  /** Unix seconds. */
  created: number;
  /** Null if an upstream has not reported it yet. */
  promptTokens: number | null;
  pieces: AsyncGenerator<TurnPiece, void, void>;
}
