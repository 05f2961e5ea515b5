// What an auto-align request allows: which arms, in which order, with how many steps. A value that cannot be followed
// is refused here, with the field's name, before anything is trained.
import { invalid } from "../../base/errors.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import { type Arm, arms, gradientArms, type PlanLimits } from "./state.ts";

type Config = NonNullable<AutoAlignRequest["config"]>;

/** An arm that this run cannot use. */
export interface Unavailable {
  arm: Arm;
  reason: string;
}

const isArm = (name: string): name is Arm => (arms as readonly string[]).includes(name);

export function limitsOf(request: AutoAlignRequest, unavailable: readonly Unavailable[] = []): PlanLimits {
  const { config, target_score, max_compute_hours = null } = request;
  const method = request.method ?? "auto";
  const reasons = reasonsAgainst(unavailable, config?.loss?.type);
  const asked = representArms(request.representations ?? "auto", methodArms(method));
  const allowed = asked.filter((arm) => !reasons.has(arm));
  const sequencing = request.sequencing == null ? null : armsIn(request.sequencing, ["sequencing"]);
  for (const arm of sequencing ?? [])
    if (!allowed.includes(arm))
      throw invalid(["sequencing"], `${arm} is ${reasons.get(arm) ?? "excluded by method or representations"}`);
  if (method !== "scale" && allowed.every((arm) => arm === "scale"))
    throw invalid(
      ["method"],
      reasons.size === 0
        ? "and representations leave no arm that can change the model"
        : `no allowed arm can train: ${[...reasons].map((one) => one.join(" is ")).join("; ")}`,
    );
  const steps = wholeAt(config?.training, "steps");
  const max_steps = wholeAt(config?.training, "max_steps");
  return {
    target_score,
    arms: sequencing === null ? allowed : allowed.filter((arm) => sequencing.includes(arm)),
    sequencing,
    max_compute_hours,
    steps: steps !== null && max_steps !== null ? Math.min(steps, max_steps) : steps,
    max_steps,
    has_pinned_rate: pinnedRate(config?.optimizer),
    ignored: ignoredOf(request, sequencing ?? allowed),
  };
}

/** Whether reinforcement cannot be left out: a sequence has it, or no other allowed arm trains. */
export const mustReinforce = ({ sequencing, arms }: Pick<PlanLimits, "sequencing" | "arms">): boolean =>
  sequencing === null ? arms.every((arm) => arm === "reinforce" || arm === "scale") : sequencing.includes("reinforce");

/** Settings that have no effect on phases of the arms in use, each with the reason. */
function ignoredOf({ method, sequencing, config }: AutoAlignRequest, used: readonly Arm[]): PlanLimits["ignored"] {
  const ignored: PlanLimits["ignored"] = [];
  const redundant = (field: string, why: string): void => void ignored.push({ field, reason: `redundant: ${why}` });
  const { loss, training } = config ?? {};
  if (sequencing != null && (method ?? "auto") !== "auto") redundant("method", "sequencing sets the phases");
  if (loss?.type != null && loss.type !== "cross_entropy" && !used.includes("reinforce"))
    redundant("loss.type", "no phase uses reinforcement");
  const [steps, most] = [wholeAt(training, "steps"), wholeAt(training, "max_steps")];
  if (gradientArms.some((arm) => used.includes(arm))) {
    if (steps !== null && most !== null && steps > most) redundant("training.steps", "training.max_steps is lower");
  } else {
    if (steps !== null) redundant("training.steps", "no phase takes optimizer steps");
    if (most !== null) redundant("training.max_steps", "no phase takes optimizer steps");
  }
  return ignored;
}

/**
 * The arms that `method` allows: all for `auto`, otherwise those named, joined by +, and `scale`. Throws a validation
 * failure.
 */
function methodArms(method: string): Arm[] {
  if (method === "auto") return [...arms];
  const named = armsIn(
    method.split("+").map((name) => name.trim()),
    ["method"],
  );
  // Scaling is always allowed, because it trains nothing and undoes harm whichever arm caused it.
  return arms.filter((arm) => named.includes(arm) || arm === "scale");
}

function armsIn(names: readonly string[], field: string[]): Arm[] {
  return names.map((name) => {
    if (!isArm(name)) throw invalid(field, `${JSON.stringify(name)} is not one of ${arms.join(", ")}`);
    return name;
  });
}

/** Kinds of edit, as `representations` names them; steering uses the difference of means. */
export const editKinds = ["ablation", "difference_of_means", "context_ridge"] as const;
export type EditKind = (typeof editKinds)[number];

/**
 * Values of `representations`. Every value but `none` allows the arm `represent`, whose phases try only the kinds of edit
 * that the value names.
 */
const handlings: readonly string[] = ["auto", "none", ...editKinds];

function representArms(handling: string, asked: Arm[]): Arm[] {
  if (!handlings.includes(handling)) throw invalid(["representations"], `must be one of ${handlings.join(", ")}`);
  if (handling === "none") return asked.filter((arm) => arm !== "represent");
  return asked;
}

function reasonsAgainst(unavailable: readonly Unavailable[], loss: unknown): Map<Arm, string> {
  const reasons = new Map(unavailable.map(({ arm, reason }) => [arm, `not available: ${reason}`]));
  if (loss === "cross_entropy") reasons.set("reinforce", "excluded: loss.type sets a supervised objective");
  return reasons;
}

function wholeAt(block: Config["training"], name: string): number | null {
  const value = block?.[name] ?? null;
  if (value === null) return null;
  if (typeof value !== "number" || !Number.isInteger(value) || value < 1)
    throw invalid(["config", "training", name], "must be a whole number above 0");
  return value;
}

function pinnedRate(block: Config["optimizer"]): boolean {
  const rate = block?.learning_rate ?? null;
  if (rate === null) return false;
  if (typeof rate !== "number" || !(rate > 0 && rate <= 0.1))
    throw invalid(["config", "optimizer", "learning_rate"], "must be above 0 and at most 0.1");
  return true;
}
