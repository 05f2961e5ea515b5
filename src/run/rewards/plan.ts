// Turns the `reward` block of a configuration into the reward plan of a reinforce phase, with every default filled in. A setting for which
// answers cannot be judged here is refused, with the name of its field, before anything is trained.
import { invalid } from "../../base/errors.ts";
import { type Criterion, UnusableReference } from "./item.ts";
import { isTelling, type JudgeError, type MeasuredJudge, type PreferenceModel } from "./judged.ts";
import { type Normalisation, normalisations } from "./normalise.ts";
import type { Programs } from "./programs.ts";
import { parseVerifier, type VerifierReference } from "./verifiers.ts";

const judgedTypes = ["verifier", "llm_judge", "rubric", "preference_model"] as const;
const types = [...judgedTypes, "composite"] as const;
type JudgedType = (typeof judgedTypes)[number];

/** The block as given. null and absent mean the same. */
export interface RewardBlock {
  type?: string | null;
  verifier_ref?: string | null;
  llm_judge?: { judge_model?: unknown; judge_provider?: unknown; criteria?: unknown } | null;
  /** A document's name. Without a name, each item's own rubric is used. */
  rubric_ref?: string | null;
  preference_model_ref?: string | null;
  clip?: readonly number[] | null;
  /**
   * Weights of the parts. `verifier`, `llm_judge`, `rubric` and `preference_model` use the other fields of this block. Any other key is the
   * reference of a verifier, and there may be several such keys.
   */
  composite?: Readonly<Record<string, number>> | null;
  normalize?: string | null;
}

/** Used if a configuration has no reward. An answer must be the reference. */
export const usualReward: RewardBlock = { type: "verifier", verifier_ref: "builtin:exact" };

/** What is available to judge answers with. */
export interface Means {
  /** Returns whether an answer says that it does not know. */
  declines: (answer: string) => boolean;
  /** null if no folder of verifiers is set. */
  programs: Programs | null;
  judges: ReadonlyMap<string, MeasuredJudge>;
  rubrics: ReadonlyMap<string, readonly Criterion[]>;
  /** Rubrics by prompt; absent if no prompt has a rubric of its own. */
  itemRubrics?: ReadonlyMap<string, readonly Criterion[]>;
  preferenceModels: ReadonlyMap<string, PreferenceModel>;
}

export type Scorer =
  | VerifierReference
  | ({ kind: "llm_judge"; judge: string; criteria: string[] } & JudgeError)
  /** A `rubric` of null stands for each item's own rubric. */
  | ({ kind: "rubric"; judge: string; rubric: string | null } & JudgeError)
  | { kind: "preference_model"; model: string };

export interface RewardPart {
  name: string;
  /** The weights of all parts of a plan add up to 1. */
  weight: number;
  scorer: Scorer;
}

/** Plain data, shown in the run's record. The order is: parts, their weighted sum, clip, normalisation. */
export interface RewardPlan {
  type: (typeof types)[number];
  parts: RewardPart[];
  clip: { low: number; high: number } | null;
  normalize: Normalisation;
  warnings: string[];
}

const refused = (field: string, message: string) => invalid(["config", "reward", ...field.split(".")], message);

const settingOf = {
  verifier: "verifier_ref",
  llm_judge: "llm_judge",
  rubric: "rubric_ref",
  preference_model: "preference_model_ref",
  composite: "composite",
} as const;

/** Fills in every default. Throws a validation failure that names the field. */
export function resolveReward(block: RewardBlock, means: Means): RewardPlan {
  const type = typeOf(block);
  const parts =
    type === "composite" ? partsOf(block, means) : [{ name: type, weight: 1, scorer: scorerOf(type, block, means) }];
  const normalize = block.normalize ?? "none";
  if (!(normalisations as readonly string[]).includes(normalize))
    throw refused("normalize", `must be one of ${normalisations.join(", ")}`);
  return {
    type,
    parts,
    clip: clipOf(block.clip ?? null),
    normalize: normalize as Normalisation,
    warnings: warningsOf(block, type, parts),
  };
}

/** Returns the given type. If there is none, returns `composite` if that is set, or else the only type whose setting is given. */
function typeOf(block: RewardBlock): RewardPlan["type"] {
  const given = types.filter((type) => (block[settingOf[type]] ?? null) !== null);
  const type = block.type ?? (given.includes("composite") ? "composite" : given.length === 1 ? given[0]! : null);
  if (type === null || !(types as readonly string[]).includes(type))
    throw refused("type", `must be one of ${types.join(", ")}`);
  return type as RewardPlan["type"];
}

const largestWeight = 1e6;

function partsOf(block: RewardBlock, means: Means): RewardPart[] {
  const given = Object.entries(block.composite ?? {});
  if (given.length === 0) throw refused("composite", "needs a weight for each part");
  const wrong = given.find(([, weight]) => !(weight > 0 && weight <= largestWeight));
  if (wrong !== undefined)
    throw refused("composite", `the weight of ${wrong[0]} must be a number above 0 and at most ${largestWeight}`);
  const total = given.reduce((sum, [, weight]) => sum + weight, 0);
  return given.map(([name, weight]) => {
    const isType = (judgedTypes as readonly string[]).includes(name);
    if (!isType && !/^(?:builtin|program):/.test(name))
      throw refused(
        "composite",
        `${name} is not a known part: use ${judgedTypes.join(", ")}, builtin:NAME or program:NAME`,
      );
    const scorer = isType ? scorerOf(name as JudgedType, block, means) : verifierOf("composite", name, means);
    return { name, weight: weight / total, scorer };
  });
}

function scorerOf(type: JudgedType, block: RewardBlock, means: Means): Scorer {
  if (type === "verifier") {
    if ((block.verifier_ref ?? null) === null)
      throw refused("verifier_ref", "must name the verifier, for example builtin:exact");
    return verifierOf("verifier_ref", block.verifier_ref!, means);
  }
  if (type === "llm_judge") {
    const judge = judgeOf(block, means);
    return { kind: type, judge, criteria: criteriaOf(block), ...errorOf(judge, means) };
  }
  if (type === "rubric") {
    const rubric = block.rubric_ref ?? null;
    if (rubric !== null && !means.rubrics.has(rubric)) throw refused("rubric_ref", unknownName(rubric, means.rubrics));
    const judge = judgeOf(block, means);
    return { kind: type, judge, rubric, ...errorOf(judge, means) };
  }
  const model = block.preference_model_ref ?? null;
  if (model === null) throw refused("preference_model_ref", "must name the installed model that scores answers");
  if (!means.preferenceModels.has(model))
    throw refused("preference_model_ref", unknownName(model, means.preferenceModels));
  return { kind: type, model };
}

function unknownName(name: string, known: ReadonlyMap<string, unknown>): string {
  return `${name} does not exist; ${known.size === 0 ? "none is installed" : `known are ${[...known.keys()].join(", ")}`}`;
}

function verifierOf(field: string, reference: string, { programs }: Means): Scorer {
  const at = field === "composite" ? `${reference}: ` : "";
  let parsed: VerifierReference;
  try {
    parsed = parseVerifier(reference);
  } catch (error) {
    if (error instanceof UnusableReference) throw refused(field, `${at}${error.message}`);
    throw error;
  }
  if (parsed.kind === "builtin") return parsed;
  if (programs === null)
    throw refused(field, `${at}no folder of programs is set: set PLUMBLINE_VERIFIERS to the folder`);
  if (!programs.names.includes(parsed.program))
    throw refused(
      field,
      `${at}the verifiers' folder has no executable file ${parsed.program}; it has ${programs.names.join(", ") || "none"}`,
    );
  if (programs.refusal !== null) throw refused(field, `${at}${programs.refusal}`);
  return parsed;
}

function errorOf(judge: string, { judges }: Means): JudgeError {
  const { sensitivity, specificity } = judges.get(judge)!;
  return { sensitivity, specificity };
}

/** Returns the parts of the reward that need a judge. Throws a validation failure if the type is unknown or cannot be inferred. */
export function judgedParts(block: RewardBlock): ("llm_judge" | "rubric")[] {
  const type = typeOf(block);
  const names = type === "composite" ? Object.keys(block.composite ?? {}) : [type];
  return (["llm_judge", "rubric"] as const).filter((name) => names.includes(name));
}

/** Returns the name of the given judge, or of the only one installed. Throws a validation failure if it cannot judge. */
function judgeOf({ llm_judge }: RewardBlock, { judges }: Means): string {
  const field = "llm_judge.judge_model";
  const named = llm_judge?.judge_model ?? (judges.size === 1 ? [...judges.keys()][0]! : null);
  if (named === null) throw refused(field, judges.size === 0 ? "no judge is installed" : unnamed(judges));
  if (typeof named !== "string") throw refused(field, "must be a model's name");
  const judge = judges.get(named);
  if (judge === undefined) throw refused(field, unknownName(named, judges));
  if (!isTelling(judge))
    throw refused(
      field,
      `${named} cannot tell good answers from bad ones: sensitivity ${judge.sensitivity} and specificity ${judge.specificity} must add up to more than 1`,
    );
  return named;
}

const unnamed = (judges: ReadonlyMap<string, unknown>): string => `must name one of ${[...judges.keys()].join(", ")}`;

const mostCriteria = 50;

/** Reads the criteria. Each is answered with yes or no, because a judge's marks from 1 to 10 follow style more than substance. */
export function criteriaOf({ llm_judge }: RewardBlock): string[] {
  const given = llm_judge?.criteria ?? null;
  const criteria: unknown[] = Array.isArray(given) ? given : given === null ? [] : [given];
  const isText = (one: unknown): one is string => typeof one === "string" && one.trim() !== "";
  if (criteria.length === 0 || criteria.length > mostCriteria || !criteria.every(isText))
    throw refused(
      "llm_judge.criteria",
      `must be a string, or a list of 1 to ${mostCriteria} criteria, each a yes-or-no question`,
    );
  return criteria;
}

/** Reads the bounds to which the weighted sum, which is between 0 and 1, is clipped. */
function clipOf(clip: readonly number[] | null): RewardPlan["clip"] {
  if (clip === null) return null;
  const [low, high] = clip;
  if (clip.length !== 2 || !(low! < high!)) throw refused("clip", "must be two numbers, the lower one first");
  if (low! >= 1 || high! <= 0)
    throw refused("clip", "leaves no difference between answers: before clipping, rewards lie between 0 and 1");
  return { low: low!, high: high! };
}

const knownFields = ["type", ...Object.values(settingOf), "clip", "normalize"];
const knownOfJudge = ["judge_model", "judge_provider", "criteria"];

/** Returns warnings about settings that were given but are not used. */
function warningsOf(block: RewardBlock, type: RewardPlan["type"], parts: readonly RewardPart[]): string[] {
  const used = new Set<string>([settingOf[type]]);
  for (const { name, scorer } of parts) {
    if (Object.hasOwn(settingOf, name)) used.add(settingOf[name as JudgedType]);
    if (scorer.kind === "rubric") used.add("llm_judge");
  }
  const given = (object: object): string[] =>
    Object.entries(object).flatMap(([field, value]) => ((value ?? null) === null ? [] : [field]));
  const idle = Object.values(settingOf).filter((field) => given(block).includes(field) && !used.has(field));
  const unknown = [
    ...given(block).filter((field) => !knownFields.includes(field)),
    ...given(block.llm_judge ?? {})
      .filter((field) => !knownOfJudge.includes(field))
      .map((field) => `llm_judge.${field}`),
  ];
  return [
    ...idle.map((field) => `reward.${field} is not used by the type ${type}`),
    ...unknown.map((field) => `reward.${field} is not a known setting and has no effect`),
  ];
}
