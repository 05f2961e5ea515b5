// What a model makes of a whole text, as its header says: an answer, a vector, or a score of relevance.
import type { GgufHeader } from "./gguf-header.ts";

/** text: continues texts, and gives vectors as well; embedding: gives vectors only; rerank: scores a document for a query. */
export type ModelKind = "text" | "embedding" | "rerank";

export interface Pooling {
  kind: ModelKind;
  /** How the states of the tokens become one. */
  by: "mean" | "cls" | "last" | "rank";
  /** Whether all of a text must be read in one batch, as every token sees every other. */
  isEncoder: boolean;
}

/** llama.cpp's numbers of poolings. */
const poolings: Record<number, Pooling["by"]> = { 1: "mean", 2: "cls", 3: "last", 4: "rank" };

export function poolingOf(header: GgufHeader): Pooling {
  const architecture = String(header.values.get("general.architecture") ?? "");
  const isEncoder = header.values.get(`${architecture}.attention.causal`) === false;
  const by = poolings[Number(header.values.get(`${architecture}.pooling_type`) ?? 0)];
  if (by === "rank") return { kind: "rerank", by, isEncoder };
  return { kind: isEncoder || by !== undefined ? "embedding" : "text", by: by ?? "mean", isEncoder };
}

/** What the library is told where the header says nothing: without it, it would give the last token's state. */
export function poolingOverrides(header: GgufHeader): [key: string, value: number, type: 0][] {
  const architecture = String(header.values.get("general.architecture") ?? "");
  const key = `${architecture}.pooling_type`;
  return Number(header.values.get(key) ?? 0) === 0 ? [[key, 1, 0]] : [];
}
