// Whether a run was worth it, in the first sentence of its report: what the aligned model answers, beyond chance, that
// the base does not, and what it can no longer do. The dev questions chose the adapter, so a gain on them is only a
// promise; no gain on them means no gain.
import { binomialTail } from "../base/statistics/distributions.ts";
import { significance } from "../base/statistics/paired.ts";
import type { GuardResults } from "../contract/run-folder.ts";
import type { RunVerdict } from "../contract/verdict.ts";

/** Input of the verdict. */
export interface Found {
  /** Points on the dev questions, and how many answers became right or wrong; null without a benchmark. */
  dev: { n: number; base: number; aligned: number; gained: number; lost: number } | null;
  /** null where the recipe has no guards. */
  guards: GuardResults | null;
  /** What would help, in sentences, the most helpful first. */
  help: string[];
  /** What may be lost; undefined where the recipe has no guards. */
  limits: { max_kl: number; max_perplexity_rise: number } | undefined;
}

/** Whether so many of one kind among all changes would be chance in at most 1 of 20 cases. */
const isBeyondChance = (these: number, others: number): boolean =>
  these > others && binomialTail(these, these + others, 0.5) <= significance;

const points = (value: number): string => value.toFixed(1);

export function verdictOf({ dev, guards, limits, help }: Found): RunVerdict {
  const fell = fallen(guards, limits);
  const certain = fell.filter((one) => one.beyond_chance).map(({ name }) => name);
  const outcome = outcomeOf(dev);
  const lost = certain.length === 0 ? "" : `; the model got worse at what the base could do: ${certain.join(", ")}`;
  return {
    outcome,
    headline: headlines[outcome] + lost,
    why: why(dev, fell),
    help,
    dev: dev === null || dev.n === 0 ? null : dev,
    fell,
  };
}

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

function why(dev: Found["dev"], fell: RunVerdict["fell"]): string[] {
  const asked =
    dev === null || dev.n === 0
      ? "There were no dev questions to ask."
      : `On ${dev.n} dev questions the base scores ${points(dev.base)} of 100 and the aligned model ${points(dev.aligned)}: ${dev.gained} answers became correct, ${dev.lost} became wrong.`;
  const lost = fell.map(({ name, base, aligned, beyond_chance }) => {
    const figures = `${name} went from ${points(base)} to ${points(aligned)}`;
    return beyond_chance ? `${figures}.` : `${figures}, which chance may explain too.`;
  });
  return [asked, ...lost];
}

/** Gating suites that got worse, and divergence limits that are exceeded. */
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
