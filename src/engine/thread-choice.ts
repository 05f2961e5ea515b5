// How many threads a step is fastest with, found by trying. A step has a few hundred places where its threads wait for each other,
// turning on their cores: with a small model, or beside other work, fewer are often faster (measured, 135M, 2 cores, one answer:
// 12 ms a step with one thread, 16 with two; eight answers: 66 and 45).

/** A number of threads is tried for so many steps, or for so many ms where that is less. */
const trialSteps = 4;
const trialMs = 200;
/** Steps until the neighbours of the best are tried again. */
const stepsBetween = 256;
/** Of the newest step in the moving mean. */
const weight = 0.25;
/** What is so much slower than another is left alone; what is so much slower than it was has company. */
const slower = 1.5;

interface Kind {
  /** What a token takes, in ms, by the number of threads. */
  costs: Map<number, number>;
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

  /** For the next step of a kind, within which a token takes about the same time. `most` is at least 1. */
  next(name: string, most: number): number {
    const fresh = (): Kind => ({ costs: new Map(), trials: halvings(most), steps: 0, ms: 0, chosenCost: 0 });
    const kind = this.kinds.get(name) ?? fresh();
    this.kinds.set(name, kind);
    return kind.trials.find((threads) => threads <= most) ?? bestOf(kind, most);
  }

  /** How long that step took with so many. */
  took(name: string, threads: number, ms: number, tokens: number): void {
    const kind = this.kinds.get(name)!;
    const before = kind.costs.get(threads) ?? ms / tokens;
    kind.costs.set(threads, before + weight * (ms / tokens - before));
    kind.steps++;
    kind.ms += ms;
    if (kind.trials.length > 0) endTrial(kind, threads);
    else if (kind.steps >= stepsBetween || kind.costs.get(threads)! > slower * kind.chosenCost) beginTrials(kind);
  }
}

function endTrial(kind: Kind, threads: number): void {
  if (kind.steps < trialSteps && kind.ms < trialMs) return;
  const best = kind.costs.get(bestOf(kind, Number.POSITIVE_INFINITY))!;
  const isHopeless = kind.costs.get(threads)! > slower * best;
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
  Object.assign(kind, { steps: 0, ms: 0, chosenCost: kind.costs.get(best)! });
}

function bestOf({ costs }: Kind, most: number): number {
  const fitting = [...costs].filter(([threads]) => threads <= most);
  return fitting.length === 0 ? most : fitting.reduce((best, one) => (one[1] < best[1] ? one : best))[0];
}

/** most, half of it, and so on to 1. */
function halvings(most: number): number[] {
  const counts = [most];
  while (counts.at(-1)! > 1) counts.push(Math.ceil(counts.at(-1)! / 2));
  return counts;
}
