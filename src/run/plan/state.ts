// What the planner is given and what it answers: plain JSON both ways, so that a run that was killed reads its state back and decides the
// same again. Scores of items are in [0, 1], scores of sets in points out of 100, costs in device hours (the CPU counts as one device).

/** A kind of phase. */
export const arms = ["supervised", "distil", "reinforce", "represent", "scale"] as const;
export type Arm = (typeof arms)[number];

/** Arms whose phases take optimizer steps; the others edit or scale what is there. */
export const gradientArms: readonly Arm[] = ["supervised", "distil", "reinforce"];

/** What of the request bounds the plan. `limitsOf` makes it. */
export interface PlanLimits {
  /** Points. */
  target_score: number;
  arms: Arm[];
  /** Followed to the letter; null leaves the order to the planner. */
  sequencing: Arm[] | null;
  /** Over all phases, checks and looks; null has no limit. */
  max_compute_hours: number | null;
  /** Steps of every gradient phase, exactly and at most; null leaves them to the planner. */
  steps: number | null;
  max_steps: number | null;
  /** Whether the peak learning rate is pinned, so that no repair may halve it. */
  has_pinned_rate: boolean;
  /** Settings of the request that change nothing in the plan, and why. */
  ignored: { field: string; reason: string }[];
}

/** A dev item before any training. */
export interface ProbedItem {
  /** The fact or document that it asks for. */
  cluster: string;
  /** Greedy, without and with the passage. */
  closed_book: number;
  open_book: number;
  /** Share of eight closed-book samples that are right. */
  sampled: number;
  /** The content is right and the strict score fails. */
  format_only: boolean;
  /** Independent answers agree with each other, and not with the reference. */
  disputed: boolean;
}

export interface Diagnosis {
  items: ProbedItem[];
  /** Whether a data set shows how such questions are answered: then training can teach what no passage says. */
  has_examples: boolean;
  /** Whether the profile of the base's representations found a direction that an edit could use, and what it found, for people. */
  has_usable_direction: boolean;
  profile: string | null;
}

/** A regression suite: right or wrong by question. */
export interface GuardCheck {
  name: string;
  correct: boolean[];
  /** Points it may lose against the base. */
  tolerance: number;
}

/** A checkpoint as its check found it. The first of the state is the base. */
export interface CheckedCheckpoint {
  id: string;
  parent: string | null;
  /** Score of every dev item, in the order of the diagnosis. */
  dev: number[];
  /** Share of eight samples that are right, by item; null where none were drawn. */
  sampled: number[] | null;
  guards: GuardCheck[];
  /** Points that the divergence from the base counts beyond its limits. */
  divergence_penalty: number;
}

/** Why a phase is run that no bid asked for. */
export const remedies = ["scale", "distil", "revisit"] as const;
export type Remedy = (typeof remedies)[number];

export interface PhasePlan {
  arm: Arm;
  /** The checkpoint it starts from. */
  from: string;
  steps: number;
  /** At most, but for the step in which they are used up. */
  hours: number;
  /** Of the usual learning rate. */
  rate_factor: number;
  /** Factor of the adapter; null in all phases but those of `scale`. */
  scale: number | null;
  /** Of the phase's own draws: the same phase again, from the same checkpoint, sees its rows in another order. */
  seed: number;
  /** What it repairs: the checkpoint where a regression was confirmed. */
  repairs: { checkpoint: string; remedy: Remedy } | null;
  /** Dev items whose documents it studies first: those a regression lost. */
  focus: number[];
  /** Points that dev is expected to gain, and the standard deviation of that. */
  forecast: { gain: number; sd: number };
}

/** A phase that has run. */
export interface PhaseRecord extends PhasePlan {
  checkpoint: string;
  steps_run: number;
  /** Of training alone, and of what came before its first step. */
  hours_run: number;
  setup_hours: number;
  /** Of a phase that edits: whether an edit was kept, its checkpoint being its parent otherwise, and what came of it, for people. */
  outcome?: { is_kept: boolean; told: string };
}

/** One opening of a third of the sealed items. */
export interface LookRecord {
  checkpoint: string;
  third: number;
  scores: number[];
  clusters: string[];
}

export interface ArmCost {
  /** Steps of a phase of usual length: one unit of effort. Steps of `represent` are edits that are tried. */
  steps: number;
  /** As a probe or the arm's earlier phases forecast it. */
  hours_per_step: number;
  /** Before the first step of its first phase: data are written, rewards are tried. */
  setup_hours: number;
}

/** A phase of an earlier alignment of the same owner: points that its arm could have gained, and that it did. */
export interface PastPhase {
  arm: Arm;
  headroom: number;
  gain: number;
}

export interface PlanState {
  seed: number;
  limits: PlanLimits;
  diagnosis: Diagnosis;
  checkpoints: CheckedCheckpoint[];
  history: PhaseRecord[];
  looks: LookRecord[];
  /** Spent so far, on everything. */
  hours: number;
  costs: Record<Arm, ArmCost>;
  /** Of one check of a checkpoint, and of one look. */
  check_hours: number;
  look_hours: number;
  past: PastPhase[];
  /** Phases that had run when a pause that the planner decided was last ended by hand; 0 at first. */
  resumed_after: number;
}

export interface Bid {
  arm: Arm;
  steps: number;
  /** Expected points of dev, less what the regression suites are expected to lose; and the standard deviation of the former. */
  gain: number;
  sd: number;
  hours: number;
  /** Chance that a regression is confirmed after the phase. */
  risk: number;
  /** Expected points an hour. */
  bid: number;
}

export interface PhaseResult {
  checkpoint: string;
  arm: Arm;
  /** Points of dev that the arm could have gained. */
  headroom: number;
  /** Points of dev before and after, the paired difference with its 95 % interval, and the chance that it is a gain. */
  dev: [number, number];
  difference: number;
  low: number;
  high: number;
  chance_better: number;
  /** Points that the forecast was above the difference. */
  forecast_error: number;
  /** Points of each suite beside the base. */
  suites: { name: string; points: number }[];
}

export interface LookVerdict {
  checkpoint: string;
  n: number;
  /** Points, and the one-sided lower bound. */
  score: number;
  low: number;
  /** Points below the target that a true score must be at for this look to tell it from one that meets the target in 80 % of cases. */
  smallest_visible: number;
  reached: boolean;
  confirmed: boolean;
}

export interface DecisionCard {
  /** Decisions before this one. */
  step: number;
  because: string;
  would_change: string;
  bids: Bid[];
  /** Arms that make no bid, and why. */
  excluded: { arm: Arm; reason: string }[];
  best: { checkpoint: string; dev: { score: number; low: number; high: number; n: number }; chance_of_target: number };
  hours: { spent: number; left: number | null };
  /** What the sealed looks so far found: told, and used for nothing but the claim. */
  looks: LookVerdict[];
  /** Of the phase before; null at first. */
  result: PhaseResult | null;
  /** That were confirmed after it, and not before; `cause`: the checkpoint whose phase lost most of it. */
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
      /** Whether the look's lower bound meets the target too; null where nothing is reached. */
      confirmed: boolean | null;
      help: Help[];
    };

export interface Decision {
  next: Next;
  card: DecisionCard;
}
