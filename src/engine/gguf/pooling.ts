// What a model returns for a text, according to its header: a continuation, a vector, or a relevance score.
import type { GgufHeader } from "./header.ts";

/** text: generates text, and can give vectors too; embedding: gives vectors only; rerank: scores a document for a query. */
export type ModelKind = "text" | "embedding" | "rerank";

export interface Pooling {
  kind: ModelKind;
  /** How the states of the tokens are combined into one. */
  by: "mean" | "cls" | "last" | "rank";
  /** Whether a text must be read in one batch, because every token attends to every other. */
  isEncoder: boolean;
}

/** llama.cpp's numbers for pooling types. */
const poolings: Record<number, Pooling["by"]> = { 1: "mean", 2: "cls", 3: "last", 4: "rank" };

export function poolingOf(header: GgufHeader): Pooling {
  const architecture = String(header.values.get("general.architecture") ?? "");
  const isEncoder = header.values.get(`${architecture}.attention.causal`) === false;
  const by = poolings[Number(header.values.get(`${architecture}.pooling_type`) ?? 0)];
  if (by === "rank") return { kind: "rerank", by, isEncoder };
  return { kind: isEncoder || by !== undefined ? "embedding" : "text", by: by ?? "mean", isEncoder };
}

/** Overrides that set mean pooling if the header states none, because the library would otherwise give the last token's state. */
export function poolingOverrides(header: GgufHeader): [key: string, value: number, type: 0][] {
  const architecture = String(header.values.get("general.architecture") ?? "");
  const key = `${architecture}.pooling_type`;
  return Number(header.values.get(key) ?? 0) === 0 ? [[key, 1, 0]] : [];
}
