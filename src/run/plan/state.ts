// Input and output of the planner, both plain JSON, so that a run that was killed can read its state back and make the
// same decisions. Scores of items are in [0, 1], scores of sets in points out of 100, costs in device hours (the CPU
// counts as one device).

/** A kind of phase. */
export const arms = ["supervised", "distil", "reinforce", "represent", "scale"] as const;
export type Arm = (typeof arms)[number];

/** Arms whose phases take optimizer steps; the others edit or scale what is there. */
export const gradientArms: readonly Arm[] = ["supervised", "distil", "reinforce"];

/** Limits that the request sets on the plan; made by `limitsOf`. */
export interface PlanLimits {
  /** Points. */
  target_score: number;
  arms: Arm[];
  /** Order of arms to follow exactly; null leaves the order to the planner. */
  sequencing: Arm[] | null;
  /** Hours over all phases, checks and looks; null: no limit. */
  max_compute_hours: number | null;
  /** Steps of every gradient phase (`steps` exactly, `max_steps` at most); null leaves them to the planner. */
  steps: number | null;
  max_steps: number | null;
  /** Checkpoint without which no phase can reinforce; absent where none is needed. */
  reinforce_needs?: string;
  /** Whether the peak learning rate is pinned, so that it is not halved after a regression. */
  has_pinned_rate: boolean;
  /** Settings of the request that change nothing in the plan, and why. */
  ignored: { field: string; reason: string }[];
}

/** A dev item before any training. */
export interface ProbedItem {
  /** The fact or document that it asks for. */
  cluster: string;
  /** Score of the greedy answer without and with the passage. */
  closed_book: number;
  open_book: number;
  /** Share of eight closed-book samples that are right. */
  sampled: number;
  /** Whether the answer contains the reference but does not score as right. */
  format_only: boolean;
  /**
   * Whether independent answers agree with each other but not with the reference, which the documents do not contain.
   */
  disputed: boolean;
  /** Score of an answer that declines, where reinforcement pays for it; absent or 0 where it does not. */
  declining?: number;
}

export interface Diagnosis {
  items: ProbedItem[];
  /** Whether a data set shows how such questions are answered. If so, training can teach what no passage says. */
  has_examples: boolean;
  /**
   * Whether the profile of the base's representations found a direction that an edit could use. `profile` is the
   * finding in words for people; null where edits are not allowed.
   */
  has_usable_direction: boolean;
  /** Why the reward can judge no prompt, so that nothing can be reinforced. Absent where it can, and in older folders. */
  unjudged?: string;
  profile: string | null;
}

/** Result of a regression suite: whether each question was answered right. */
export interface GuardCheck {
  name: string;
  correct: boolean[];
  /** Points that the suite may lose against the base. */
  tolerance: number;
}

/** A checkpoint with the results of its check. The first one in the state is the base. */
export interface CheckedCheckpoint {
  id: string;
  parent: string | null;
  /** Score of every dev item, in the order of the diagnosis. */
  dev: number[];
  /** Share of eight samples that are right, by item; null where none were drawn. */
  sampled: number[] | null;
  guards: GuardCheck[];
  /** Points counted for divergence from the base beyond its limits. */
  divergence_penalty: number;
}

/** Ways in which a phase can repair a regression. */
export const remedies = ["scale", "distil", "revisit"] as const;
export type Remedy = (typeof remedies)[number];

export interface PhasePlan {
  arm: Arm;
  /** The checkpoint that the phase starts from. */
  from: string;
  steps: number;
  /** Limit on the phase's hours. The step in which they run out is still finished. */
  hours: number;
  /** Factor on the usual learning rate. */
  rate_factor: number;
  /** Scale factor of the adapter; null for all phases other than `scale`. */
  scale: number | null;
  /**
   * Seed of the phase's own draws, so that a repeated phase from the same checkpoint sees its rows in another order.
   */
  seed: number;
  /**
   * The checkpoint whose confirmed regression the phase repairs, and the remedy; null for a phase that repairs nothing.
   */
  repairs: { checkpoint: string; remedy: Remedy } | null;
  /** Dev items that a regression lost; the phase includes rows that contain their answers. */
  focus: number[];
  /** Expected gain on dev in points, and its standard deviation. */
  forecast: { gain: number; sd: number };
}

/** A phase that has run. */
export interface PhaseRecord extends PhasePlan {
  checkpoint: string;
  steps_run: number;
  /** Hours of training alone, and the phase's hours before its first step. */
  hours_run: number;
  setup_hours: number;
  /**
   * For a phase that edits: whether an edit was kept (if not, the phase's checkpoint equals its parent), and the
   * outcome in words for people.
   */
  outcome?: { is_kept: boolean; told: string };
}

/** A look, in which one third of the sealed items was opened and scored. */
export interface LookRecord {
  checkpoint: string;
  third: number;
  scores: number[];
  clusters: string[];
}

export interface ArmCost {
  /** Steps in a phase of usual length, which is one unit of effort. A step of `represent` is one edit tried. */
  steps: number;
  /** As forecast by a probe of the base before the first decision. */
  hours_per_step: number;
  /** Hours before the first step of the arm's first phase, for example to profile the representations. */
  setup_hours: number;
}

/**
 * A phase of an earlier auto-align by the same owner on the same base: the points that its arm could have gained, and
 * those that it did gain.
 */
export interface PastPhase {
  arm: Arm;
  headroom: number;
  gain: number;
}

/** Number of phases and of looks before a pause that was ended by hand. */
export interface Resume {
  phases: number;
  looks: number;
}

export interface PlanState {
  seed: number;
  limits: PlanLimits;
  diagnosis: Diagnosis;
  checkpoints: CheckedCheckpoint[];
  history: PhaseRecord[];
  looks: LookRecord[];
  /** Hours spent so far, on everything. */
  hours: number;
  costs: Record<Arm, ArmCost>;
  /**
   * Hours that a check is forecast to take: as long as the base took for the same, or as the longest check so far. And the hours of one
   * look.
   */
  check_hours: number;
  look_hours: number;
  past: PastPhase[];
  /**
   * The pauses decided by the planner that were ended by hand, in order. A decision counts only those before it, so that
   * it is made again in the same way after a later resume.
   */
  resumes: Resume[];
}

export interface Bid {
  arm: Arm;
  steps: number;
  /**
   * Expected points gained on dev, less the expected increase of the penalty for suites and divergence. `sd` is the
   * standard deviation of the gain on dev, uncapped.
   */
  gain: number;
  sd: number;
  hours: number;
  /** Probability that a regression is confirmed after the phase. */
  risk: number;
  /** Expected points per hour. A positive gain is first multiplied by 1 − risk. */
  bid: number;
}

export interface PhaseResult {
  checkpoint: string;
  arm: Arm;
  /** Points of dev that the arm could have gained. */
  headroom: number;
  /**
   * Points of dev before and after, the paired difference with its 95 % interval, and the probability that it is a
   * gain.
   */
  dev: [number, number];
  difference: number;
  low: number;
  high: number;
  chance_better: number;
  /** Forecast gain less the measured difference, in points. */
  forecast_error: number;
  /** Points of each suite relative to the base. */
  suites: { name: string; points: number }[];
}

export interface LookVerdict {
  checkpoint: string;
  n: number;
  /** Points, with the one-sided lower bound. */
  score: number;
  low: number;
  /**
   * How far below the target, in points, a true score must lie for this look to distinguish it, in 80 % of cases, from
   * one that meets the target.
   */
  smallest_visible: number;
  reached: boolean;
  confirmed: boolean;
}

export type CardCode =
  | "reached"
  | "likely"
  | "worth_a_look"
  | "repair"
  | "sequenced"
  | "best"
  | "only"
  | "sequence_ended"
  | "hours_spent"
  | "looks_spent"
  | "nothing_left";

export interface DecisionCard {
  /** Number of phases and looks before this decision. */
  step: number;
  /** Code of the sentences; absent where they report something that the card has no field for. */
  code?: CardCode;
  because: string;
  would_change: string;
  bids: Bid[];
  /** Arms that make no bid, and why. */
  excluded: { arm: Arm; reason: string }[];
  best: { checkpoint: string; dev: { score: number; low: number; high: number; n: number }; chance_of_target: number };
  hours: { spent: number; left: number | null };
  /**
   * Results of the sealed looks so far. Decisions use only which checkpoints met or missed the target, and how many
   * looks there were.
   */
  looks: LookVerdict[];
  /** Result of the preceding phase; null at first. */
  result: PhaseResult | null;
  /**
   * Regressions confirmed after that phase and not before; `cause` is the checkpoint whose phase lost most of the
   * questions.
   */
  regressions: { checkpoint: string; suite: string; points: number; cause: string }[];
}

/** What would help, and how many points of dev it could be worth. */
export interface Help {
  kind: "hours" | "documents" | "larger_base" | "review_items" | "larger_benchmark" | "fewer_limits";
  points: number;
  text: string;
}

export type Next =
  | { kind: "phase"; phase: PhasePlan }
  | { kind: "look"; checkpoint: string; third: number }
  | {
      kind: "end";
      status: "REACHED" | "BUDGET_SPENT" | "PAUSED";
      checkpoint: string;
      /** Whether the look's lower bound also meets the target; null when the target was not reached. */
      confirmed: boolean | null;
      help: Help[];
    };

export interface Decision {
  next: Next;
  card: DecisionCard;
}
