// Selects the captured answers that are evidence for an auto-align, and suggests its target score and hours. Pure.
import { findOverlap } from "../../../study/leakage.ts";
import { type Filtered, filter } from "../filter.ts";
import type { EvidenceRow, Project } from "./store.ts";

/** An answer with a rating or a confidence score below this counts as poor. */
export const poor = 50;
/** Minimum number of captured answers for a proposal. Fewer say little about a model that answers all day. */
export const leastEvidence = 10;

export interface Evidence {
  taken: EvidenceRow[];
  left: Pick<Filtered["left"], "short" | "duplicate" | "in_benchmark">;
}

/**
 * Selects the rows that are evidence, and counts those left out by reason. `rows` are in the order in which they were captured.
 * `benchmarkQuestions` are those of all the owner's benchmarks, sealed items included.
 */
export function evidenceOf(rows: readonly EvidenceRow[], benchmarkQuestions: readonly string[]): Evidence {
  const { taken, left } = filter(rows, {
    into: "document",
    leastConfidence: null,
    mostConfidence: null,
    limit: rows.length,
    responses: new Map(),
    // Answers that decline are kept, because declining although the documents say more is a reason to train.
    declines: () => false,
    benchmarkQuestions,
  });
  const found = new Map(rows.map((row) => [row.id, row]));
  const sound = taken.map(({ row }) => found.get(row.id)!);
  // filter() removes only questions with the same words. The rule for training rows also removes those that are nearly the same.
  const met = leaking(
    sound.map(({ question }) => ({ question, answer: "" })),
    benchmarkQuestions,
  );
  return {
    taken: sound.filter((_, at) => !met.has(at)),
    left: { short: left.short, duplicate: left.duplicate, in_benchmark: left.in_benchmark + met.size },
  };
}

/** Indexes of the pairs that overlap a benchmark's question, by the rule for training rows (findOverlap). */
export function leaking(
  pairs: readonly { question: string; answer: string }[],
  benchmarkQuestions: readonly string[],
): Set<number> {
  const rows = pairs.map(({ question, answer }) => ({
    messages: [
      { role: "user" as const, content: question },
      { role: "assistant" as const, content: answer },
    ],
  }));
  return new Set(findOverlap(benchmarkQuestions, rows).items.map(({ row }) => row));
}

export interface Counts {
  captures: number;
  low_rated: number;
  interventions: number;
  unsure: number;
}

export const countsOf = (rows: readonly EvidenceRow[]): Counts => ({
  captures: rows.length,
  low_rated: rows.filter(({ rating }) => rating !== null && rating < poor).length,
  interventions: rows.filter(({ intervention }) => intervention === 1).length,
  unsure: rows.filter(({ confidence }) => confidence !== null && confidence < poor).length,
});

export function becauseOf({ captures, low_rated, interventions, unsure }: Counts): string {
  if (captures === 0) return "No captured answer supports this proposal any more.";
  const reasons = [
    [low_rated, `rated below ${poor}`],
    [interventions, "where a person stepped in"],
    [unsure, `with a confidence score below ${poor}`],
  ] as const;
  const told = reasons.filter(([n]) => n > 0).map(([n, reason]) => `${n} ${reason}`);
  return `Since the project's last alignment, its models gave ${captures} captured answers that were not good enough: ${told.join(", ")}.`;
}

/** Target for a project that has neither a score nor an earlier target. */
const usualTarget = 80;
/** Points by which the target exceeds the newest model's score, unless the last target was higher. */
const step = 5;
const mostTarget = 99;

export function suggestedFor({ score, target, hours }: Project): {
  target_score: number;
  max_compute_hours: number | null;
} {
  const wanted = score === null ? (target ?? usualTarget) : Math.max(target ?? 0, Math.ceil(score) + step);
  return {
    target_score: Math.min(mostTarget, wanted),
    // Twice the hours of the last run, rounded up to quarters of an hour.
    max_compute_hours: hours === null ? null : Math.max(1, Math.ceil(8 * hours)) / 4,
  };
}
