// Makes the verdict, the first sentence of a report. It says whether the aligned model answers significantly more dev questions than the
// base, and which abilities it has lost. The adapter was chosen by the dev questions, so a gain on them still has to be shown on the
// sealed questions. No gain on them means no gain.
import { binomialTail } from "../base/statistics/distributions.ts";
import { significance } from "../base/statistics/paired.ts";
import type { GuardResults } from "../contract/run-folder.ts";
import type { RunVerdict } from "../contract/verdict.ts";

/** What the verdict is made from. */
export interface Found {
  /** Points on the `n` dev questions, and how many answers became right (`gained`) or wrong (`lost`); null without a benchmark. */
  dev: { n: number; base: number; aligned: number; gained: number; lost: number } | null;
  /** null if the recipe has no guards. */
  guards: GuardResults | null;
  /** What would help, in sentences, the most helpful first. */
  help: string[];
  /** Maximum divergence; undefined if the recipe has no guards. */
  limits: { max_kl: number; max_perplexity_rise: number } | undefined;
}

/** Whether `these` exceed `others` by more than chance explains: a one-sided sign test at the 5 % level. */
const isBeyondChance = (these: number, others: number): boolean =>
  these > others && binomialTail(these, these + others, 0.5) <= significance;

const points = (value: number): string => value.toFixed(1);

export function verdictOf({ dev, guards, limits, help }: Found): RunVerdict {
  const fell = fallen(guards, limits);
  const certain = fell.filter((one) => one.beyond_chance).map(({ name }) => names[name] ?? name);
  const outcome = outcomeOf(dev);
  const lost = certain.length === 0 ? "" : `; the model got worse at what the base could do: ${certain.join(", ")}`;
  return {
    outcome,
    headline: headlines[outcome] + lost,
    why: why(dev, fell, limits),
    help,
    dev: dev === null || dev.n === 0 ? null : dev,
    fell,
  };
}

/** Names of divergences in sentences. Regression suites are called by their own names. */
const names: Record<string, string> = { kl: "divergence from the base", perplexity_rise: "perplexity on other prose" };

const headlines: Record<RunVerdict["outcome"], string> = {
  gain: "Gain on the dev questions; the evaluation on the sealed questions shows the true gain",
  unproven: "No gain beyond chance: do not deploy before an evaluation shows one",
  no_gain: "No gain: do not deploy",
  unmeasured: "Not measured: do not deploy before an evaluation",
};

function outcomeOf(dev: Found["dev"]): RunVerdict["outcome"] {
  if (dev === null || dev.n === 0) return "unmeasured";
  if (dev.gained <= dev.lost) return "no_gain";
  return isBeyondChance(dev.gained, dev.lost) ? "gain" : "unproven";
}

function why(dev: Found["dev"], fell: RunVerdict["fell"], limits: Found["limits"]): string[] {
  const asked =
    dev === null || dev.n === 0
      ? "There were no dev questions to ask."
      : `On ${dev.n} dev questions the base scores ${points(dev.base)} of 100 and the aligned model ${points(dev.aligned)}: ${dev.gained} answers became correct, ${dev.lost} became wrong.`;
  const lost = fell.map(({ name, base, aligned, beyond_chance }) => {
    if (name === "kl")
      return `The divergence from the base is ${aligned.toFixed(3)} nats per token; the recipe allows ${limits!.max_kl}.`;
    if (name === "perplexity_rise")
      return `The perplexity on other prose rose by ${points(aligned)} %; the recipe allows ${limits!.max_perplexity_rise} %.`;
    const figures = `${name} went from ${points(base)} to ${points(aligned)}`;
    return beyond_chance ? `${figures}.` : `${figures}, which chance may explain too.`;
  });
  return [asked, ...lost];
}

/** Returns the gating suites that got worse, and the divergences that exceed their limits. */
function fallen(guards: GuardResults | null, limits: Found["limits"]): RunVerdict["fell"] {
  if (guards === null || limits === undefined) return [];
  const suites = guards.suites
    .filter(({ gates, base, aligned }) => gates && aligned < base)
    .map(({ name, base, aligned, lost, gained }) => ({
      name,
      base,
      aligned,
      beyond_chance: isBeyondChance(lost.length, gained.length),
    }));
  const { kl, perplexity_rise } = guards.drift;
  const divergence = [
    { name: "kl", aligned: kl, most: limits.max_kl },
    { name: "perplexity_rise", aligned: perplexity_rise, most: limits.max_perplexity_rise },
  ];
  return [
    ...suites,
    ...divergence
      .filter(({ aligned, most }) => aligned > most)
      .map(({ name, aligned }) => ({ name, base: 0, aligned, beyond_chance: true })),
  ];
}
