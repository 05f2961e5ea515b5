// Computes every objective in the form that the trainer takes: from log-probs, it computes coefficients per token. All functions are
// pure. An optimizer step may be cut into calls in any way, because everything is divided by what `scaleOf` counts over the whole step.
//
//   lp   log π(token) now; the only variable of differentiation          r = exp(lp − q)
//   q    log-prob under the policy that sampled it                       A  advantage
//   ref  log-prob under the reference policy                             x = lp − ref
//
//   importance_sampling  L = −r · A
//   ppo                  L = −min(r · A, clip(r, low, high) · A)        Schulman et al., 2017; dual clip: Ye et al., 2020
//   cispo                L = −stop[clip(r, 0, high)] · A · lp           MiniMax-M1, 2025
//   dro                  L = −(A · lp − β/2 · (lp − q)²)                Richemond et al., 2024, token by token
//   ratio of a sequence  r = exp(mean of lp − q over its tokens)        GSPO, Zheng et al., 2025
//   KL                   k1 = x, k2 = x²/2, k3 = exp(−x) + x − 1        Schulman's estimators
import { invalid } from "../base/errors.ts";
import type { PlanLimits } from "./plan/state.ts";

const types = ["importance_sampling", "ppo", "cispo", "dro"] as const;
/** The values of `loss.type`. With cross_entropy no phase reinforces, so it has no objective here. */
const namedTypes: readonly string[] = ["cross_entropy", ...types];
const estimators = ["k1", "k2", "k3"] as const;

/** The `loss` block of a configuration as given. An absent field takes its default. */
export interface LossBlock {
  type?: string;
  /** clip_c (for the dual clip) and kl_estimator are our own additions. */
  ppo?: { clip_low?: number; clip_high?: number; clip_c?: number };
  cispo?: { eps_max?: number };
  dro?: { beta?: number };
  kl_coef?: number;
  entropy_coef?: number;
  token_reduction?: string;
  is_ratio_level?: string;
  z_loss_coef?: number;
  kl_estimator?: string;
}

/** A loss with every default filled in, as shown in the run's record. */
export interface Objective {
  type: (typeof types)[number];
  level: "token" | "sequence";
  reduction: "mean" | "sum";
  /** Bounds of the ratio itself, not distances from 1; null if nothing is clipped. */
  bounds: { low: number; high: number } | null;
  /** c of the dual clip: if A < 0, the loss is at most −c · A. Null without a dual clip. */
  dualClip: number | null;
  beta: number | null;
  klCoef: number;
  klEstimator: (typeof estimators)[number];
  entropyCoef: number;
  zLossCoef: number;
  warnings: string[];
  /** Settings that change nothing. */
  ignored: PlanLimits["ignored"];
}

/** Fills in every default. Throws a validation failure that names the field. */
export function resolveLoss(block: LossBlock): Objective {
  const type = types.find((one) => one === (block.type ?? "ppo"));
  if (type === undefined) throw invalid(["loss", "type"], `must be one of ${namedTypes.join(", ")}`);
  const level = oneOf("is_ratio_level", block.is_ratio_level ?? "token", ["token", "sequence"] as const);
  const warnings: string[] = [];
  if (level === "sequence" && type === "dro")
    throw invalid(
      ["loss", "is_ratio_level"],
      "dro has no ratio per sequence, because its penalty is per token; use token",
    );
  let bounds: Objective["bounds"] = null;
  if (type === "ppo") {
    // A ratio averaged over a sequence hardly moves, so the defaults here are the paper's own bounds.
    const [low, high] = level === "sequence" ? [3e-4, 4e-4] : [0.2, 0.2];
    const clipLow = within("ppo.clip_low", block.ppo?.clip_low ?? low, 0, 1);
    const clipHigh = within("ppo.clip_high", block.ppo?.clip_high ?? high, 0, 10);
    if (clipHigh >= 1)
      warnings.push(`loss.ppo.clip_high ${clipHigh} looks like an absolute ratio, but it is added to 1`);
    bounds = { low: 1 - clipLow, high: 1 + clipHigh };
  }
  if (type === "cispo") bounds = { low: 0, high: above("cispo.eps_max", block.cispo?.eps_max ?? 4, 1, 100) };
  const dualClip = type === "ppo" ? (block.ppo?.clip_c ?? null) : null;
  return {
    type,
    level,
    reduction: oneOf("token_reduction", block.token_reduction ?? "mean", ["mean", "sum"] as const),
    bounds,
    dualClip: dualClip === null ? null : above("ppo.clip_c", dualClip, 1, Number.MAX_VALUE),
    beta: type === "dro" ? above("dro.beta", block.dro?.beta ?? 0.05, 0, Number.MAX_VALUE) : null,
    klCoef: within("kl_coef", block.kl_coef ?? 0, 0, 10),
    klEstimator: oneOf("kl_estimator", block.kl_estimator ?? "k2", estimators),
    entropyCoef: within("entropy_coef", block.entropy_coef ?? 0, 0, 0.1),
    zLossCoef: within("z_loss_coef", block.z_loss_coef ?? 0, 0, 1e-2),
    warnings,
    ignored: (["ppo", "cispo", "dro"] as const)
      .filter((other) => other !== type && block[other] !== undefined)
      .map((other) => ({ field: `loss.${other}`, reason: `redundant: the loss is ${type}` })),
  };
}

function oneOf<T extends string>(field: string, value: string, known: readonly T[]): T {
  if (!(known as readonly string[]).includes(value))
    throw invalid(["loss", ...field.split(".")], `must be one of ${known.join(", ")}`);
  return value as T;
}

function within(field: string, value: number, least: number, most: number): number {
  if (!(value >= least && value <= most))
    throw invalid(["loss", ...field.split(".")], `must be a number from ${least} to ${most}`);
  return value;
}

function above(field: string, value: number, least: number, most: number): number {
  if (!(value > least && value <= most))
    throw invalid(["loss", ...field.split(".")], `must be a number above ${least} and at most ${most}`);
  return value;
}

/**
 * One sampled answer with its prompt. Every array has one value per token of the row. Values of masked-out tokens are never used.
 */
export interface Trajectory {
  /** lp */
  logprobs: ArrayLike<number>;
  /** q */
  sampled: ArrayLike<number>;
  /** ref; needed only with a KL coefficient above 0. */
  reference?: ArrayLike<number>;
  /** A. With a sequence ratio, the advantage of the first active token applies to the whole sequence. */
  advantages: ArrayLike<number>;
  /** 1 for a token that the policy sampled and that is trained, else 0. */
  mask: ArrayLike<number>;
}

/** Factors for the terms of one optimizer step. */
export interface Scale {
  /** For all terms except the two below. */
  token: number;
  /** For the policy term of ppo and importance_sampling with a sequence ratio, which has one value per sequence. */
  sequence: number;
  /** For the entropy bonus, which is always a mean over tokens. */
  entropy: number;
}

/** Computes the factors from counts over the whole optimizer step, before it is cut into calls. */
export function scaleOf(objective: Objective, step: Iterable<Pick<Trajectory, "mask">>): Scale {
  let tokens = 0;
  let sequences = 0;
  for (const { mask } of step) {
    let active = 0;
    for (let t = 0; t < mask.length; t++) if (mask[t] === 1) active++;
    tokens += active;
    if (active > 0) sequences++;
  }
  const per = (count: number) => (count > 0 ? 1 / count : 0);
  const entropy = per(tokens);
  if (objective.reduction === "sum") return { token: 1, sequence: 1, entropy };
  return { token: per(tokens), sequence: per(sequences), entropy };
}

/** Coefficients of one row in the form that the trainer takes, with the row's share of the loss and of the metrics. */
export interface Evaluated {
  /** Coefficients of −log-prob, −entropy and the squared log-sum; [T] each. */
  weights: Float64Array;
  entropyWeights: Float64Array;
  zWeights: Float64Array;
  /** This row's share of the step's loss, without the terms of `passLoss`. */
  loss: number;
  /** Per-token values of the policy term, before reduction: [T]. */
  losses: Float64Array;
  tokens: number;
  clipped: number;
  /** Sums over the active tokens, for `metricsOf`; `largestMismatch` is a maximum. */
  ratios: number;
  mismatch: number;
  largestMismatch: number;
  klToSampler: number;
  klToReference: number;
}

const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);

/** Log-ratios are clamped at ±20 nats and have no gradient beyond. Otherwise, through exp, one token would outweigh all others. */
const ratioGuard = 20;
/** Upper clamp for the mean log-ratio of a sequence. */
const sequenceGuard = 10;
/** k3 grows with exp(−x), so its value is capped here. */
const klGuard = 10;

/** A policy term and its derivative with respect to lp (for a sequence ratio: with respect to the mean of lp). */
interface Term {
  loss: number;
  gradient: number;
  clipped: boolean;
}

function policyTerm(
  objective: Objective,
  ratio: number,
  advantage: number,
  lp: number,
  q: number,
  held: boolean,
): Term {
  const { type, bounds, dualClip, beta } = objective;
  const free = held ? 0 : -ratio * advantage;
  switch (type) {
    case "importance_sampling":
      return { loss: -ratio * advantage, gradient: free, clipped: false };
    case "cispo": {
      const weight = clamp(ratio, bounds!.low, bounds!.high) * advantage;
      return { loss: -weight * lp, gradient: -weight, clipped: ratio > bounds!.high };
    }
    case "dro": {
      const apart = lp - q;
      return {
        loss: -(advantage * lp - (beta! / 2) * apart ** 2),
        gradient: -advantage + beta! * apart,
        clipped: false,
      };
    }
    case "ppo": {
      const outside = advantage > 0 ? ratio > bounds!.high : advantage < 0 && ratio < bounds!.low;
      if (outside) return { loss: -clamp(ratio, bounds!.low, bounds!.high) * advantage, gradient: 0, clipped: true };
      if (dualClip !== null && advantage < 0 && ratio > dualClip)
        return { loss: -dualClip * advantage, gradient: 0, clipped: true };
      return { loss: -ratio * advantage, gradient: free, clipped: false };
    }
  }
}

/** Returns the value of the KL term and its derivative with respect to lp. */
function klTerm(estimator: Objective["klEstimator"], apart: number): { value: number; gradient: number } {
  const x = clamp(apart, -ratioGuard, ratioGuard);
  const inside = x === apart ? 1 : 0;
  if (estimator === "k1") return { value: x, gradient: inside };
  if (estimator === "k2") return { value: x ** 2 / 2, gradient: inside * x };
  const k3 = Math.exp(-x) + x - 1;
  return k3 > klGuard ? { value: klGuard, gradient: 0 } : { value: k3, gradient: inside * (1 - Math.exp(-x)) };
}

/**
 * Evaluates the objective for one row. Everything is normalised by `scale`, so the coefficients and losses of a step's rows can be added.
 * Throws RangeError if an array that the objective needs is missing.
 */
export function evaluate(objective: Objective, row: Trajectory, scale: Scale): Evaluated {
  const length = row.mask.length;
  const result: Evaluated = {
    weights: new Float64Array(length),
    entropyWeights: new Float64Array(length),
    zWeights: new Float64Array(length),
    loss: 0,
    losses: new Float64Array(length),
    tokens: 0,
    clipped: 0,
    ratios: 0,
    mismatch: 0,
    largestMismatch: 0,
    klToSampler: 0,
    klToReference: 0,
  };
  const active = activeOf(objective, row);
  const shared = objective.level === "sequence" && active.length > 0 ? sequenceTerm(objective, row, active) : null;
  for (const t of active) {
    const lp = row.logprobs[t]!;
    const q = row.sampled[t]!;
    const apart = clamp(lp - q, -ratioGuard, ratioGuard);
    let ratio = Math.exp(apart);
    let term: Term;
    let by = scale.token;
    if (shared === null) term = policyTerm(objective, ratio, row.advantages[t]!, lp, q, apart !== lp - q);
    else {
      ratio = shared.ratio;
      term = objective.type === "cispo" ? policyTerm(objective, ratio, shared.advantage, lp, q, false) : shared.term;
      if (objective.type !== "cispo") by = scale.sequence / active.length;
    }
    const reference = row.reference?.[t] ?? lp;
    const kl = klTerm(objective.klEstimator, lp - reference);
    result.losses[t] = term.loss;
    result.weights[t] = -(by * term.gradient + scale.token * objective.klCoef * kl.gradient);
    result.entropyWeights[t] = scale.entropy * objective.entropyCoef;
    result.zWeights[t] = scale.token * objective.zLossCoef;
    result.loss += by * term.loss + scale.token * objective.klCoef * kl.value;
    result.tokens++;
    if (term.clipped) result.clipped++;
    result.ratios += ratio;
    result.mismatch += Math.abs(lp - q);
    result.largestMismatch = Math.max(result.largestMismatch, Math.abs(lp - q));
    result.klToSampler += q - lp;
    result.klToReference += lp - reference;
  }
  return result;
}

/**
 * Returns the loss of the entropy bonus and of the z term. `evaluate` leaves them out, because only the training pass
 * computes entropies and log-sums, after the coefficients are known.
 */
export function passLoss(
  { entropyWeights, zWeights }: Record<"entropyWeights" | "zWeights", ArrayLike<number>>,
  { entropies, logSums }: Record<"entropies" | "logSums", ArrayLike<number>>,
): number {
  let loss = 0;
  for (let t = 0; t < entropyWeights.length; t++)
    loss += zWeights[t]! * logSums[t]! ** 2 - entropyWeights[t]! * entropies[t]!;
  return loss;
}

/** Returns the indices of the active tokens. Throws RangeError if a needed array is missing or has the wrong length. */
function activeOf(objective: Objective, row: Trajectory): number[] {
  const active: number[] = [];
  for (let t = 0; t < row.mask.length; t++) if (row.mask[t] === 1) active.push(t);
  const needed = { logprobs: row.logprobs, advantages: row.advantages, sampled: row.sampled, reference: row.reference };
  for (const [name, values] of Object.entries(needed)) {
    const wanted = name !== "reference" || objective.klCoef > 0;
    if (wanted && values?.length !== row.mask.length)
      throw new RangeError(`${objective.type} needs ${name}: one value for each of ${row.mask.length} tokens`);
  }
  return active;
}

/** Computes the ratio of a whole sequence, from the mean log-ratio over its active tokens, and its policy term. */
function sequenceTerm(
  objective: Objective,
  row: Trajectory,
  active: number[],
): { ratio: number; advantage: number; term: Term } {
  let sum = 0;
  for (const t of active) sum += row.logprobs[t]! - row.sampled[t]!;
  const mean = sum / active.length;
  const held = clamp(mean, -ratioGuard, sequenceGuard);
  const advantage = row.advantages[active[0]!]!;
  const ratio = Math.exp(held);
  return { ratio, advantage, term: policyTerm(objective, ratio, advantage, 0, 0, held !== mean) };
}

/**
 * Metrics of a step besides its loss, which says little in reinforcement learning. They are means over the active tokens, except for
 * `tokens` and `lp_mismatch_max`. Log-prob differences are in nats.
 */
export interface ObjectiveMetrics {
  tokens: number;
  /** Share of tokens whose ratio was clipped or capped. */
  clip_frac: number;
  ratio_mean: number;
  /** mean(q − lp): how far the policy has moved from the one that sampled. */
  kl: number;
  /** mean(lp − ref); null without a reference. */
  kl_reference: number | null;
  lp_mismatch: number;
  lp_mismatch_max: number;
}

export function metricsOf(rows: readonly Evaluated[], withReference: boolean): ObjectiveMetrics {
  const sum = (of: (row: Evaluated) => number) => rows.reduce((total, row) => total + of(row), 0);
  const tokens = sum((row) => row.tokens);
  const mean = (of: (row: Evaluated) => number) => (tokens > 0 ? sum(of) / tokens : 0);
  return {
    tokens,
    clip_frac: mean((row) => row.clipped),
    ratio_mean: mean((row) => row.ratios),
    kl: mean((row) => row.klToSampler),
    kl_reference: withReference ? mean((row) => row.klToReference) : null,
    lp_mismatch: mean((row) => row.mismatch),
    lp_mismatch_max: rows.reduce((most, row) => Math.max(most, row.largestMismatch), 0),
  };
}
