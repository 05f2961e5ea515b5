// The reference to which a KL penalty holds the policy. Reads the `reference_policy` block of a configuration, and
// opens and updates the reference in the trainer.
import { invalid } from "../../base/errors.ts";
import type { AdapterShape, Trainer } from "../../engine/train/trainer.ts";
import { mustReinforce } from "../plan/limits.ts";
import type { PlanLimits } from "../plan/state.ts";
import { adapterName, type Training } from "../training.ts";

export interface ReferencePlan {
  /**
   * base: no adapter. initial: the policy as it was when the phase began. checkpoint: that checkpoint's adapter.
   * emaDecay: a moving average of the policy. null: no reference.
   */
  source: "base" | "initial" | { checkpoint: string } | { emaDecay: number } | null;
  /**
   * Target KL in nats per token, towards which the penalty's coefficient is adjusted; null leaves the coefficient as it
   * is.
   */
  klTarget: number | null;
  /** Settings that change nothing. */
  ignored: PlanLimits["ignored"];
}

const refused = (field: string, message: string) => invalid(["config", "reference_policy", field], message);

/**
 * Reads the block, whose values are not null. If `ema_decay` is given, the moving average is the default source. Throws
 * a validation failure that names the field.
 */
export function resolveReference(block: Record<string, unknown>, klCoef: number): ReferencePlan {
  const { enabled = klCoef > 0, kl_target: target = null, ema_decay: decay } = block;
  const { source = decay === undefined ? "base" : "ema" } = block;
  if (typeof enabled !== "boolean") throw refused("enabled", "must be true or false");
  if (!enabled && klCoef > 0)
    throw refused("enabled", "is false, but loss.kl_coef needs a reference policy: remove one of the two");
  if (decay !== undefined && source !== "ema")
    throw refused(
      "ema_decay",
      "applies to a moving average, but source is a different one: set source to ema, or omit ema_decay",
    );
  if (target !== null && !(typeof target === "number" && target > 0)) throw refused("kl_target", "must be above 0");
  if (target !== null && klCoef === 0) throw refused("kl_target", "needs a loss.kl_coef above 0 as the starting value");
  const held = sourceOf(source, decay);
  const unused = enabled ? [] : (["source", "ema_decay"] as const).filter((field) => block[field] !== undefined);
  return {
    source: enabled ? held : null,
    klTarget: target as number | null,
    ignored: unused.map((field) => ({
      field: `reference_policy.${field}`,
      reason: "redundant: without loss.kl_coef nothing is held to a reference",
    })),
  };
}

/**
 * Averages over about a hundred steps. That is more than a usual phase has, so the reference trails the policy
 * throughout the phase.
 */
const usualDecay = 0.99;

function sourceOf(source: unknown, decay: unknown = usualDecay): NonNullable<ReferencePlan["source"]> {
  if (source === "base" || source === "initial") return source;
  if (source === "ema") {
    if (typeof decay === "number" && decay >= 0 && decay < 1) return { emaDecay: decay };
    throw refused("ema_decay", "must be at least 0 and below 1");
  }
  const named = typeof source === "string" ? /^checkpoint:(base|phase-[1-9]\d{0,5})$/.exec(source)?.[1] : undefined;
  if (named !== undefined) return { checkpoint: named };
  throw refused("source", "must be base, initial, ema, or checkpoint: followed by base, phase-1, phase-2 and so on");
}

/**
 * Returns the checkpoint without which reinforcement has no reference; null if it needs none. Throws a validation
 * failure if a given sequence reinforces before it can exist, or if no other arm can make it.
 */
export function checkpointNeeded(
  { source }: ReferencePlan,
  limits: Pick<PlanLimits, "sequencing" | "arms">,
): string | null {
  if (source === null || typeof source === "string" || "emaDecay" in source) return null;
  const { checkpoint } = source;
  const phases = checkpoint === "base" ? 0 : Number(checkpoint.slice("phase-".length));
  const { sequencing } = limits;
  if (sequencing !== null && phases > sequencing.indexOf("reinforce"))
    throw refused("source", `names ${checkpoint}, but the sequence reinforces before that phase has run`);
  if (sequencing === null && phases > 0 && mustReinforce(limits))
    throw refused("source", `names ${checkpoint}, but no allowed arm can make a checkpoint before reinforcement`);
  return checkpoint;
}

export interface Reference {
  /** Name of the reference's adapter in the trainer; null for the base. */
  adapter: string | null;
  /** Share of its own value that a moving average keeps at every step; null for a fixed reference. */
  decay: number | null;
}

const referenceName = "reference";

/** Opens a fixed reference. `path`: its adapter as a GGUF file of the given shape; null for the base. */
export async function openReference(
  trainer: Trainer,
  { path, shape }: { path: string | null; shape: AdapterShape },
): Promise<Reference> {
  if (path === null) return { adapter: null, decay: null };
  await trainer.createAdapter(referenceName, shape);
  await trainer.load(referenceName, path);
  return { adapter: referenceName, decay: null };
}

/**
 * Opens a moving average of the policy. It starts from the average in the checkpoint that the phase resumes from, or
 * else from the adapter that the phase began with.
 */
export async function openAverage(
  training: Training,
  { path }: { path: string | null },
  decay: number,
): Promise<Reference> {
  const { trainer, checkpoints, shape, state } = training;
  // It is created with the policy's seed, so that without a path both start with the same A and with B = 0.
  await trainer.createAdapter(referenceName, shape);
  const found = await checkpoints.at(state.step);
  const from = found === null ? path : found.averageFolder;
  if (from !== null) await trainer.load(referenceName, from);
  training.average = referenceName;
  return { adapter: referenceName, decay };
}

/** Updates a moving average after a step of the policy. Does nothing for a fixed reference. */
export async function followPolicy(trainer: Trainer, { adapter, decay }: Reference): Promise<void> {
  if (adapter !== null && decay !== null) await trainer.averageAdapter(adapter, adapterName, decay);
}

export async function closeReference(training: Training, { adapter }: Reference): Promise<void> {
  training.average = null;
  if (adapter !== null) await training.trainer.dropAdapter(adapter);
}

/**
 * Horizon of an adaptive KL penalty, in sequences: the larger it is, the more slowly the coefficient follows the
 * target.
 */
const horizon = 10_000;

/**
 * Adapts the coefficient of the KL penalty (Ziegler et al., 2019). It rises while the policy is further from its
 * reference than the target, and falls while the policy is closer. `kl`: measured KL in nats per token.
 */
export function followTarget(
  { klTarget }: ReferencePlan,
  { reinforce }: Training["state"],
  kl: number | null,
  answers: number,
): void {
  if (klTarget === null || kl === null) return;
  const error = Math.min(0.2, Math.max(-0.2, kl / klTarget - 1));
  reinforce!.klCoef *= 1 + (error * answers) / horizon;
}
