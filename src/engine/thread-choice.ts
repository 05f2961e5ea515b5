// How many threads a step is fastest with, found by trying. A step has a few hundred places where its threads wait for each other,
// turning on their cores: with a small model, or beside other work, fewer are often faster (measured, 135M, 2 cores, one answer:
// 12 ms a step with one thread, 16 with two; eight answers: 66 and 45). Where others take a core, the threads that turn keep the one
// they wait for from its core, and a step takes many times as long; with a thread less it takes no longer than that thread is missed.

/** A number of threads is tried for so many steps, or for so many ms where that is less: some steps take twice as long as others. */
const trialSteps = 16;
const trialMs = 200;
/** What is far slower than another is seen at once. */
const hopelessSteps = 2;
/** A step that takes longer than this is tried with fewer threads once, and then no more for the trial's sake alone: it costs more than it
 * can win. */
const longMs = 200;
/** Of a kind's steps, until the neighbours of the best are tried again; twice as long after each time that brought nothing. */
const firstPauseMs = 10_000;
const longestPauseMs = 60_000;
/** Trying costs no more than one part in so many of the time, however long a step takes. */
const pausePerTrial = 20;
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
  /** Those that were tried at all. */
  tried: Set<number>;
  /** Since the trial began, or since the last one ended. */
  steps: number;
  ms: number;
  /** What the best took when it was chosen. */
  chosenCost: number;
  /** The best when trials began, and what they have cost. */
  before: number;
  triedMs: number;
  pauseMs: number;
}

export class ThreadChoice {
  private readonly kinds = new Map<string, Kind>();

  /** A step of a kind, with as many threads as it is fastest with now. */
  async step<T>(name: string, most: number, tokens: number, work: (threads: number) => Promise<T>): Promise<T> {
    const threads = this.next(name, most, tokens);
    const startedAt = performance.now();
    const result = await work(threads);
    this.took(name, threads, performance.now() - startedAt, tokens);
    return result;
  }

  /** For the next step of a kind, within which a token takes about the same time. `most` and `tokens` are at least 1. */
  next(name: string, most: number, tokens: number): number {
    const kind = this.kinds.get(name) ?? freshKind(most);
    this.kinds.set(name, kind);
    return kind.trials.find((threads) => threads <= most && isWorthIt(kind, threads, tokens)) ?? bestOf(kind, most);
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

/** Fewer threads than the best, on steps that take long, only where these take longer than they did, or once. */
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
  // Fewer than what is hopeless are so as well; more are not, where what they are compared with has changed.
  kind.trials = kind.trials.filter((count) => (isHopeless && threads < best ? count > threads : count !== threads));
  kind.triedMs += kind.ms;
  Object.assign(kind, { steps: 0, ms: 0, chosenCost: cost });
  if (isTrying(kind, tokens)) return;
  kind.pauseMs =
    best !== kind.before
      ? firstPauseMs
      : Math.max(Math.min(2 * kind.pauseMs, longestPauseMs), pausePerTrial * kind.triedMs);
}

/** Half as many and twice as many, where they were tried before. */
function beginTrials(kind: Kind): void {
  const best = bestOf(kind, Number.POSITIVE_INFINITY);
  const known = [...kind.costs.keys()];
  const trials = [
    ...known.filter((count) => count === Math.ceil(best / 2) && count !== best),
    ...known.filter((count) => Math.ceil(count / 2) === best && count !== best),
  ];
  // What is remembered of them is of another time.
  for (const count of trials) kind.costs.delete(count);
  kind.trials = [...trials, ...kind.trials.filter((count) => !trials.includes(count))];
  // With trials to come, the cost it was chosen for stays: what is slower than that says whether a long step is tried.
  Object.assign(kind, {
    ...{ steps: 0, ms: 0, before: best, triedMs: 0 },
    ...(trials.length === 0 ? { chosenCost: kind.costs.get(best)!.mean } : {}),
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
