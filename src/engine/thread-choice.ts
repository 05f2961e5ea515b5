// How many threads a step is fastest with, found by trying. A step has a few hundred places where its threads wait for each other,
// turning on their cores: with a small model, or beside other work, fewer are often faster (measured, 135M, 2 cores, one answer:
// 12 ms a step with one thread, 16 with two; eight answers: 66 and 45).

/** A number of threads is tried for so many steps, or for so many ms where that is less: some steps take twice as long as others. */
const trialSteps = 16;
const trialMs = 200;
/** What is far slower than another is seen at once. */
const hopelessSteps = 2;
/** A step that takes longer than this is not tried with fewer threads for the trial's sake alone: it would cost more than it can win. */
const longMs = 200;
/** Steps until the neighbours of the best are tried again. */
const stepsBetween = 1024;
/** Newest steps that the moving mean is of. */
const meanSteps = 16;
/** Of another's cost: two that cost nearly the same would change places for ever. */
const clearly = 0.9;
/** What is so much slower than another is left alone; what is so much slower than it was has company. */
const slower = 1.5;

interface Kind {
  /** What a token takes, in ms, by the number of threads: the mean of so many steps. */
  costs: Map<number, { mean: number; steps: number }>;
  /** Numbers of threads to be tried, the first of them now. */
  trials: number[];
  /** Since the trial began, or since the last one ended. */
  steps: number;
  ms: number;
  /** What the best took when it was chosen. */
  chosenCost: number;
}

export class ThreadChoice {
  private readonly kinds = new Map<string, Kind>();

  /** For the next step of a kind, within which a token takes about the same time. `most` and `tokens` are at least 1. */
  next(name: string, most: number, tokens: number): number {
    const fresh = (): Kind => ({ costs: new Map(), trials: halvings(most), steps: 0, ms: 0, chosenCost: 0 });
    const kind = this.kinds.get(name) ?? fresh();
    this.kinds.set(name, kind);
    const best = bestOf(kind, most);
    const trial = kind.trials.find((threads) => threads <= most) ?? best;
    const cost = kind.costs.get(best)?.mean ?? 0;
    const hasCompany = cost > slower * kind.chosenCost;
    return trial < best && cost * tokens > longMs && !hasCompany ? best : trial;
  }

  /** How long that step took with so many. */
  took(name: string, threads: number, ms: number, tokens: number): void {
    const kind = this.kinds.get(name)!;
    const before = kind.costs.get(threads) ?? { mean: 0, steps: 0 };
    const steps = Math.min(meanSteps, before.steps + 1);
    const mean = before.mean + (ms / tokens - before.mean) / steps;
    kind.costs.set(threads, { mean, steps });
    kind.steps++;
    kind.ms += ms;
    if (kind.trials.includes(threads)) endTrial(kind, threads);
    else if (kind.trials.length === 0 && (kind.steps >= stepsBetween || mean > slower * kind.chosenCost))
      beginTrials(kind);
  }
}

function endTrial(kind: Kind, threads: number): void {
  const best = kind.costs.get(bestOf(kind, Number.POSITIVE_INFINITY))!.mean;
  const isHopeless = kind.steps >= hopelessSteps && kind.costs.get(threads)!.mean > slower * best;
  if (!isHopeless && kind.steps < trialSteps && kind.ms < trialMs) return;
  kind.trials = kind.trials.filter((count) => (isHopeless ? count > threads : count !== threads));
  Object.assign(kind, { steps: 0, ms: 0, chosenCost: best });
}

/** Half as many and twice as many, where they were tried before. */
function beginTrials(kind: Kind): void {
  const best = bestOf(kind, Number.POSITIVE_INFINITY);
  const known = [...kind.costs.keys()];
  kind.trials = [
    ...known.filter((count) => count === Math.ceil(best / 2) && count !== best),
    ...known.filter((count) => Math.ceil(count / 2) === best && count !== best),
  ];
  // What is remembered of them is of another time.
  for (const count of kind.trials) kind.costs.delete(count);
  // With trials to come, the cost it was chosen for stays: what is slower than that says whether a long step is tried.
  Object.assign(kind, {
    steps: 0,
    ms: 0,
    ...(kind.trials.length === 0 ? { chosenCost: kind.costs.get(best)!.mean } : {}),
  });
}

/** The most of those it was tried with, and fewer where they are clearly faster. */
function bestOf({ costs }: Kind, most: number): number {
  const fitting = [...costs].filter(([threads]) => threads <= most).sort(([a], [b]) => b - a);
  return fitting.length === 0
    ? most
    : fitting.reduce((best, one) => (one[1].mean < clearly * best[1].mean ? one : best))[0];
}

/** most, half of it, and so on to 1. */
function halvings(most: number): number[] {
  const counts = [most];
  while (counts.at(-1)! > 1) counts.push(Math.ceil(counts.at(-1)! / 2));
  return counts;
}
