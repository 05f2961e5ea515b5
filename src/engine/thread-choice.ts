// How many threads a step is fastest with, found by trying. A step has a few hundred places where its threads wait for each other,
// turning on their cores: with a small model, or beside other work, fewer are often faster (measured, 135M, 2 cores, one answer:
// 12 ms a step with one thread, 16 with two; eight answers: 66 and 45).

/** Steps that a number of threads is tried for. */
const trialSteps = 4;
/** Steps until the neighbours of the best are tried again: other work comes and goes. */
const stepsBetween = 256;
/** Of the newest step in the moving mean. */
const weight = 0.25;
/** So much slower than the best: fewer threads still need no trial. */
const hopeless = 1.5;

interface Kind {
  /** What a token takes, in ms, by the number of threads. */
  costs: Map<number, number>;
  /** Numbers of threads to be tried, the first of them now. */
  trials: number[];
  /** With the same number, or without a trial. */
  steps: number;
}

export class ThreadChoice {
  private readonly kinds = new Map<string, Kind>();

  /** For the next step of a kind, within which a token takes about the same time. `most` is at least 1. */
  next(name: string, most: number): number {
    const kind = this.kinds.get(name) ?? { costs: new Map(), trials: halvings(most), steps: 0 };
    this.kinds.set(name, kind);
    return kind.trials.find((threads) => threads <= most) ?? bestOf(kind, most);
  }

  /** What a token of that step took with so many. */
  took(name: string, threads: number, ms: number): void {
    const kind = this.kinds.get(name)!;
    const before = kind.costs.get(threads) ?? ms;
    kind.costs.set(threads, before + weight * (ms - before));
    kind.steps++;
    if (kind.steps < (kind.trials.length > 0 ? trialSteps : stepsBetween)) return;
    kind.steps = 0;
    const best = bestOf(kind, Number.POSITIVE_INFINITY);
    const isHopeless = kind.costs.get(threads)! > hopeless * kind.costs.get(best)!;
    if (kind.trials.length === 0)
      kind.trials = [2 * best, Math.ceil(best / 2)].filter((count) => kind.costs.has(count));
    else kind.trials = kind.trials.filter((count) => (isHopeless ? count > threads : count !== threads));
  }
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
