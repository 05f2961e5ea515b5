// The `reference_policy` block of a configuration → what a KL penalty holds the policy to.
import { invalid } from "../../base/errors.ts";
import type { AdapterShape, Trainer } from "../../engine/trainer.ts";

export interface ReferencePlan {
  /** base: without an adapter. initial: as the phase began. checkpoint: another one's adapter. null: none. */
  source: "base" | "initial" | { checkpoint: string } | null;
  /** Nats a token that the penalty's coefficient is led towards; null leaves it as it is. */
  klTarget: number | null;
}

const refused = (field: string, message: string) => invalid(["config", "reference_policy", field], message);

/** Values of the block are not null. */
export function resolveReference(block: Record<string, unknown>, klCoef: number): ReferencePlan {
  const { enabled = klCoef > 0, source = "base", kl_target: target = null, ema_decay: decay } = block;
  if (typeof enabled !== "boolean") throw refused("enabled", "must be true or false");
  if (!enabled && klCoef > 0)
    throw refused("enabled", "is false, and loss.kl_coef holds to a reference: leave one of them out");
  if (decay !== undefined || source === "ema")
    throw refused(decay === undefined ? "source" : "ema_decay", "a moving average is not built: use base or initial");
  if (target !== null && !(typeof target === "number" && target > 0)) throw refused("kl_target", "must be above 0");
  if (target !== null && klCoef === 0) throw refused("kl_target", "needs loss.kl_coef above 0 to begin with");
  return { source: enabled ? sourceOf(source) : null, klTarget: target as number | null };
}

function sourceOf(source: unknown): NonNullable<ReferencePlan["source"]> {
  if (source === "base" || source === "initial") return source;
  const named = typeof source === "string" ? /^checkpoint:(.+)$/.exec(source)?.[1] : undefined;
  if (named !== undefined) return { checkpoint: named };
  throw refused("source", "must be base, initial or checkpoint: and its id");
}

/** Name of the reference's adapter inside the trainer; null is the base. */
export interface Reference {
  adapter: string | null;
}

const referenceName = "reference";

/** `path`: its adapter as GGUF, of that shape; null is the base. */
export async function openReference(
  trainer: Trainer,
  { path, shape }: { path: string | null; shape: AdapterShape },
): Promise<Reference> {
  if (path === null) return { adapter: null };
  await trainer.createAdapter(referenceName, shape);
  await trainer.load(referenceName, path);
  return { adapter: referenceName };
}

export async function closeReference(trainer: Trainer, { adapter }: Reference): Promise<void> {
  if (adapter !== null) await trainer.dropAdapter(adapter);
}
