// Selects the captured questions that are worth a place in a document or a benchmark. Pure.
import type { CaptureRow } from "./store.ts";

/** Why a capture is left out, in the order in which the reasons are tested. */
export const reasons = ["unsure", "sure", "short", "declined", "duplicate", "in_benchmark", "unanswered"] as const;
export type Reason = (typeof reasons)[number];

export interface Wanted {
  into: "document" | "benchmark";
  leastConfidence: number | null;
  mostConfidence: number | null;
  limit: number;
  /** Right answers given by a person, keyed by capture id. */
  responses: ReadonlyMap<string, string>;
  /** Whether an answer declines. */
  declines: (answer: string) => boolean;
  /** The owner's benchmark questions. */
  benchmarkQuestions: readonly string[];
}

export interface Filtered {
  taken: { row: CaptureRow; response: string }[];
  left: Record<Reason, number>;
}

/** Minimum number of characters of a meaningful question. */
const shortestQuestion = 8;

/** Normalises a question, so that questions that differ only in case, spaces or punctuation become equal. */
const asked = (question: string): string =>
  question
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, " ")
    .trim();

/** Selects the captures worth keeping. `rows` are in the order they were captured. */
export function filter(rows: readonly CaptureRow[], wanted: Wanted): Filtered {
  const left = Object.fromEntries(reasons.map((reason) => [reason, 0])) as Record<Reason, number>;
  const taken: Filtered["taken"] = [];
  const seen = new Set<string>();
  const inBenchmark = new Set(wanted.benchmarkQuestions.map(asked));

  function reasonAgainst(row: CaptureRow): Reason | null {
    const response = wanted.responses.get(row.id);
    const { leastConfidence: least, mostConfidence: most } = wanted;
    if (least !== null && (row.confidence ?? -1) < least) return "unsure";
    if (most !== null && (row.confidence ?? 0) > most) return "sure";
    if (row.question.trim().length < shortestQuestion || (response ?? row.answer).trim() === "") return "short";
    if (response === undefined && wanted.declines(row.answer)) return "declined";
    if (seen.has(asked(row.question))) return "duplicate";
    if (inBenchmark.has(asked(row.question))) return "in_benchmark";
    // A model's own answer is not a reference answer, so models cannot be measured against it.
    if (wanted.into === "benchmark" && response === undefined) return "unanswered";
    return null;
  }

  for (const row of rows) {
    if (taken.length === wanted.limit) break;
    const reason = reasonAgainst(row);
    if (reason !== null) {
      left[reason]++;
      continue;
    }
    seen.add(asked(row.question));
    taken.push({ row, response: wanted.responses.get(row.id) ?? row.answer });
  }
  return { taken, left };
}
