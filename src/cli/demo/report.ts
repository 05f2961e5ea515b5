// The demo's findings: the object of --json, and the tables for people.
import { auroc } from "../../base/statistics/ranking.ts";
import type { Replies } from "../client.ts";
import { secondsText, table } from "../output.ts";
import type { Results, Said, Status } from "./steps.ts";

export interface Findings {
  base: Results;
  aligned: Results;
  status: Status;
  model: Replies["models.get"];
  /** Number of optimizer steps, from the run's events. */
  steps: number;
  baseSaid: Said[];
  alignedSaid: Said[];
  offTopic: Said[];
  seconds: { [step: string]: number } & { total: number };
  /** Seconds of each phase of the alignment's run. */
  phases: Record<string, number>;
}

export type Report = ReturnType<typeof reportOf>;

export function reportOf(findings: Findings) {
  const { base, aligned, status, model } = findings;
  const metrics = status.performance_metrics ?? {};
  const sealed = aligned.items.filter((item) => item.split === "sealed").map((item) => item.confidence_score);
  const away = findings.offTopic.map((said) => said.confidence);
  const confidence = "confidence" in model ? model.confidence : { calibrated: false, n: 0, reason: null };
  return {
    base: scoreOf(base),
    aligned: scoreOf(aligned),
    paired: aligned.paired && {
      p_value: aligned.paired.p_value,
      gained: aligned.paired.gained,
      lost: aligned.paired.lost,
      difference: aligned.paired.difference,
      minimum_detectable: aligned.paired.minimum_detectable,
    },
    overlap: metrics.overlap ?? null,
    train: {
      tokens: metrics.train_tokens ?? null,
      tokens_per_second: metrics.tokens_per_second ?? null,
      steps: findings.steps,
      rows: metrics.rows ?? null,
    },
    seconds: { ...findings.seconds, phases: findings.phases },
    confidence: {
      auroc_off_topic: auroc(numbers(sealed), numbers(away)),
      calibrated: confidence.calibrated,
      n: confidence.n,
      reason: confidence.reason,
    },
    model_id: aligned.model_id,
    alignment_id: status.alignment_id,
    answers: findings.alignedSaid.map((said, index) => ({
      question: said.question,
      base: findings.baseSaid[index]?.answer ?? "",
      aligned: said.answer,
      confidence_score: said.confidence,
    })),
    off_topic: findings.offTopic,
  };
}

const numbers = (values: (number | null)[]): number[] => values.filter((value) => value !== null);

const scoreOf = ({ score, low, high, n }: Results) => ({ score, low, high, n });

const points = (value: number): string => value.toFixed(1);

export function textOf(report: Report): string {
  const row = (name: string, { score, low, high, n }: Report["base"]): string[] => [
    name,
    points(score),
    `${points(low)} to ${points(high)}`,
    String(n),
  ];
  const lines = [
    table([["model", "score", "95 % interval", "questions"], row("base", report.base), row("aligned", report.aligned)]),
    "",
  ];
  if (report.paired) {
    const { gained, lost, p_value, difference } = report.paired;
    lines.push(`${points(difference)} points: ${gained} questions gained, ${lost} lost, p = ${p_value.toPrecision(2)}`);
  }
  const { train, confidence } = report;
  const rate = train.tokens_per_second === null ? "" : `, ${train.tokens_per_second.toFixed(0)} tokens per second`;
  lines.push(
    `Trained ${train.tokens ?? "?"} tokens in ${train.steps} steps${rate}; benchmark rows among them: ${report.overlap}`,
  );
  if (confidence.auroc_off_topic !== null)
    lines.push(
      `Confidence separates questions about the documents from other questions: AUROC ${confidence.auroc_off_topic.toFixed(2)}` +
        (confidence.calibrated ? `, calibrated on ${confidence.n} answers` : `, not calibrated (${confidence.reason})`),
    );
  const { phases: _, ...steps } = report.seconds;
  const times = Object.entries(steps).map(([step, seconds]) => `${step.replaceAll("_", " ")} ${secondsText(seconds)}`);
  lines.push(`Time: ${times.join(", ")}`);
  return lines.join("\n");
}

export function saidText(report: Report): string {
  const sure = (value: number | null): string => (value === null ? "no confidence" : `confidence ${Math.round(value)}`);
  const short = (text: string): string => {
    const flat = text.replace(/\s+/g, " ").trim();
    return flat.length > 160 ? `${flat.slice(0, 157)}…` : flat;
  };
  const own = report.answers.flatMap((answer) => [
    answer.question,
    `  base     ${short(answer.base)}`,
    `  aligned  ${short(answer.aligned)}  [${sure(answer.confidence_score)}]`,
  ]);
  const foreign = report.off_topic.map(
    (said) => `  [${sure(said.confidence)}]  ${said.question}  ${short(said.answer)}`,
  );
  return [...own, "", "Questions about nothing in the documents:", ...foreign].join("\n");
}
