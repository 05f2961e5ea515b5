// The metric of an auto-align's target score. It is the share of right answers, as graded by evaluations, or the mean of the configured
// reward if `evaluation.metrics` names `reward`. The run scores the dev questions with it, and the appliance scores its looks at sealed
// questions.
import { invalid } from "../../base/errors.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import { optionsIn } from "./choice.ts";
import { plainItem, type RewardItem, type Verify } from "./item.ts";
import { type RewardBlock, resolveReward, usualReward } from "./plan.ts";
import { makeBuiltin } from "./verifiers.ts";

type Config = AutoAlignRequest["config"];
type Declines = (answer: string) => boolean;

export type Metric = "score" | "reward";

const field = ["config", "evaluation", "metrics"];

/** Reads the metric from the configuration. Throws a validation failure that names the field. */
export function metricOf(config: Config): Metric {
  const names = (config?.evaluation as { metrics?: unknown } | null | undefined)?.metrics ?? [];
  if (!Array.isArray(names) || !names.every((name) => typeof name === "string"))
    throw invalid(field, "must be a list of names");
  if (!names.includes("reward")) return "score";
  if (names.includes("score"))
    throw invalid(field, "names both score and reward, but the target score can only measure one of them");
  return "reward";
}

/** A question of a benchmark, dev or sealed. */
export interface MetricQuestion {
  sample_num: number;
  instruction: string;
  response: string;
  aliases: readonly string[];
}

/** Returns the weighted sum of the reward's parts, in [0, 1], before clip and normalisation. */
export type RewardScore = (answer: string, question: MetricQuestion) => number;

/** Returns null if the target counts right answers. Throws a validation failure that names the field. */
export function rewardScore(config: Config, declines: Declines): RewardScore | null {
  if (metricOf(config) === "score") return null;
  const parts = partsOf(config, declines);
  return (answer, question) => {
    const item = itemOf(question);
    // `checkMetric` has refused questions that cannot be judged, so an answer that cannot be judged counts as 0.
    const sum = parts.reduce((total, { weight, verify }) => total + weight * (verify(answer.trim(), item) ?? 0), 0);
    return Math.min(1, sum);
  };
}

/** Throws a validation failure if the reward cannot judge a question. The message does not reveal the question. */
export function checkMetric(config: Config, questions: readonly MetricQuestion[], declines: Declines): void {
  if (metricOf(config) === "score") return;
  for (const { name, verify } of partsOf(config, declines)) {
    const unjudged = questions.find((question) => verify(question.response, itemOf(question)) === null);
    if (unjudged !== undefined)
      throw invalid(
        field,
        `reward cannot score question ${unjudged.sample_num} of the benchmark: ${name} ${whyUnjudged(name)}`,
      );
  }
}

const whyUnjudged = (name: string): string =>
  name === "builtin:citation"
    ? "looks for quotations from a passage, but a benchmark's questions come without one"
    : "finds nothing to judge by in the question and its answer";

interface MetricPart {
  name: string;
  weight: number;
  verify: Verify;
}

/**
 * Returns the parts of the reward. Throws a validation failure unless all are built-in verifiers. A program or a model may judge answers
 * that are trained on, but a target must be measured in the same way at every look.
 */
function partsOf(config: Config, declines: Declines): MetricPart[] {
  const reward = (config?.reward ?? usualReward) as RewardBlock;
  const type = reward.type ?? (reward.llm_judge == null ? null : "llm_judge");
  const named = [type, reward.verifier_ref, ...Object.keys(reward.composite ?? {})];
  if (named.some((name) => /^(llm_judge|rubric|preference_model|program:)/.test(name ?? "")))
    throw invalid(field, "names reward, but a target can only measure rewards from built-in verifiers alone");
  const none = { judges: new Map(), rubrics: new Map(), preferenceModels: new Map(), programs: null };
  return resolveReward(reward, { ...none, declines }).parts.flatMap(({ weight, scorer }) =>
    scorer.kind === "builtin"
      ? [{ name: `builtin:${scorer.verifier}`, weight, verify: makeBuiltin(scorer, declines) }]
      : [],
  );
}

const itemOf = ({ instruction, response, aliases }: MetricQuestion): RewardItem =>
  plainItem({ prompt: instruction, reference: response, aliases, choices: optionsIn(instruction) });
