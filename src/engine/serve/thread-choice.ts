// Finds by trial the number of threads with which a step is fastest. A step has a few hundred points at which its threads wait for
// each other by spinning. With a small model, or beside other work, fewer threads are therefore often faster. Measured (135M
// parameters, 2 cores): a step of one answer takes 12 ms with one thread and 16 with two; a step of eight answers takes 66 and
// 45 ms. When other work takes a core, spinning threads keep the thread that they wait for from running, and a step takes many
// times as long. With one thread fewer, a step only loses the work of that thread.

/** A trial lasts this many steps, or this many ms if that is less. One step is too few: some take twice as long as others. */
const trialSteps = 16;
const trialMs = 200;
/** A trial that is far slower than the best count ends after this many steps. */
const hopelessSteps = 2;
/**
 * Steps longer than this (ms) are tried with fewer threads only once, unless they become slower, because such a trial costs more
 * than it can gain.
 */
const longMs = 200;
/** Time in the steps of a kind after which half and twice the best count are tried again. It doubles after trials without a gain. */
const firstPauseMs = 10_000;
const longestPauseMs = 60_000;
/**
 * After trials without a gain, the pause is at least this many times as long as the trials took. This bounds the cost of trials for
 * steps of any length.
 */
const pausePerTrial = 20;
/** Number of steps over which the moving mean is taken. */
const meanSteps = 16;
/**
 * Fewer threads are chosen only if they cost less than this share of what more threads cost. Otherwise near-equal counts would
 * alternate for ever.
 */
const clearly = 0.9;
/**
 * A trial that costs this many times as much as the best count is given up. New trials begin when the best count costs this many
 * times as much as it did when it was chosen.
 */
const slower = 1.5;

interface Kind {
  /** Cost of a token in ms by number of threads: the moving mean, and the number of steps in the mean (at most `meanSteps`). */
  costs: Map<number, { mean: number; steps: number }>;
  /** Thread counts still to be tried, in order. */
  trials: number[];
  /** Thread counts that have been tried. */
  tried: Set<number>;
  /** Steps and ms since the current trial began, or since the last one ended. */
  steps: number;
  ms: number;
  /** Cost of the best count when it was chosen. */
  chosenCost: number;
  /** The best count when trials began, and the ms that trials have taken since. */
  before: number;
  triedMs: number;
  pauseMs: number;
}

export class ThreadChoice {
  private readonly kinds = new Map<string, Kind>();

  /** Runs a step of a kind with the number of threads that is fastest at present, and measures it. */
  async step<T>(name: string, most: number, tokens: number, work: (threads: number) => Promise<T>): Promise<T> {
    const threads = this.next(name, most, tokens);
    const startedAt = performance.now();
    const result = await work(threads);
    this.took(name, threads, performance.now() - startedAt, tokens);
    return result;
  }

  /**
   * Returns the number of threads for the next step of a kind. All tokens of a kind take about the same time. `most` and `tokens` are
   * at least 1.
   */
  next(name: string, most: number, tokens: number): number {
    const kind = this.kinds.get(name) ?? freshKind(most);
    this.kinds.set(name, kind);
    return kind.trials.find((threads) => threads <= most && isWorthIt(kind, threads, tokens)) ?? bestOf(kind, most);
  }

  /** Records how long a step took with that many threads. */
  took(name: string, threads: number, ms: number, tokens: number): void {
    const kind = this.kinds.get(name)!;
    const before = kind.costs.get(threads) ?? { mean: 0, steps: 0 };
    const steps = Math.min(meanSteps, before.steps + 1);
    const mean = before.mean + (ms / tokens - before.mean) / steps;
    kind.costs.set(threads, { mean, steps });
    kind.steps++;
    kind.ms += ms;
    if (kind.trials.includes(threads)) endTrial(kind, threads, tokens);
    else if (isTrying(kind, tokens)) return;
    else if (kind.ms >= kind.pauseMs || mean > slower * kind.chosenCost) beginTrials(kind);
  }
}

const freshKind = (most: number): Kind => ({
  costs: new Map(),
  trials: halvings(most),
  tried: new Set(),
  ...{ steps: 0, ms: 0, chosenCost: 0, before: most, triedMs: 0, pauseMs: firstPauseMs },
});

/** Whether to try a count. Fewer threads than the best are tried in long steps only once, or when the steps have become slower. */
function isWorthIt(kind: Kind, threads: number, tokens: number): boolean {
  const best = bestOf(kind, Number.POSITIVE_INFINITY);
  const cost = kind.costs.get(best)?.mean ?? 0;
  if (threads >= best || !kind.tried.has(threads)) return true;
  return cost * tokens <= longMs || cost > slower * kind.chosenCost;
}

const isTrying = (kind: Kind, tokens: number): boolean =>
  kind.trials.some((threads) => isWorthIt(kind, threads, tokens));

function endTrial(kind: Kind, threads: number, tokens: number): void {
  const best = bestOf(kind, Number.POSITIVE_INFINITY);
  const cost = kind.costs.get(best)!.mean;
  const isLong = kind.ms >= trialMs;
  const isHopeless = (isLong || kind.steps >= hopelessSteps) && kind.costs.get(threads)!.mean > slower * cost;
  if (!isHopeless && !isLong && kind.steps < trialSteps) return;
  kind.tried.add(threads);
  // If fewer threads than the best are hopeless, still fewer are hopeless too. Higher counts stay queued, because the best count,
  // with which they were compared, may have changed.
  kind.trials = kind.trials.filter((count) => (isHopeless && threads < best ? count > threads : count !== threads));
  kind.triedMs += kind.ms;
  Object.assign(kind, { steps: 0, ms: 0, chosenCost: cost });
  if (isTrying(kind, tokens)) return;
  kind.pauseMs =
    best !== kind.before
      ? firstPauseMs
      : Math.max(Math.min(2 * kind.pauseMs, longestPauseMs), pausePerTrial * kind.triedMs);
}

/** Queues half and twice the best count for trials, if these have been used before. */
function beginTrials(kind: Kind): void {
  const best = bestOf(kind, Number.POSITIVE_INFINITY);
  const known = [...kind.costs.keys()];
  const trials = [
    ...known.filter((count) => count === Math.ceil(best / 2) && count !== best),
    ...known.filter((count) => Math.ceil(count / 2) === best && count !== best),
  ];
  // Their recorded costs are out of date.
  for (const count of trials) kind.costs.delete(count);
  kind.trials = [...trials, ...kind.trials.filter((count) => !trials.includes(count))];
  // Keep chosenCost while trials are to come, because isWorthIt compares with it to decide whether to try a long step.
  Object.assign(kind, {
    ...{ steps: 0, ms: 0, before: best, triedMs: 0 },
    ...(trials.length === 0 ? { chosenCost: kind.costs.get(best)!.mean } : {}),
  });
}

/** The largest count up to `most` with a known cost, or a smaller one that is clearly faster; `most` if no cost is known. */
function bestOf({ costs }: Kind, most: number): number {
  const fitting = [...costs].filter(([threads]) => threads <= most).sort(([a], [b]) => b - a);
  return fitting.length === 0
    ? most
    : fitting.reduce((best, one) => (one[1].mean < clearly * best[1].mean ? one : best))[0];
}

/** `most`, half of it (rounded up), and so on to 1. */
function halvings(most: number): number[] {
  const counts = [most];
  while (counts.at(-1)! > 1) counts.push(Math.ceil(counts.at(-1)! / 2));
  return counts;
}
