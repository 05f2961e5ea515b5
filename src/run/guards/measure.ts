// Measures the guards on the base or on an adapter. The trainer answers everything, with its current weights.
import { choose as likeliest } from "../../base/likelihood.ts";
import type { Divergence } from "../../contract/run-folder.ts";
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import type { Trainer, WeightedRows } from "../../engine/train/trainer.ts";
import { answerText } from "../dev-check.ts";
import { packed } from "../rows.ts";
import { microBatches } from "../schedule.ts";
import type { Choice, FormatItem } from "./material.ts";

export interface Asked {
  trainer: Trainer;
  /** null for the base. */
  adapter: string | null;
  tokenizer: Tokenizer;
  /** Called after each call of the trainer with the progress. It may throw to end the measurement. */
  turn(done: number, total: number, unit: string): Promise<void>;
}

/** Maximum number of tokens of one call. Between two calls, the run handles stop and pause. */
const callTokens = 6144;
/** Maximum number of tokens of a paragraph that are scored, so that no call is dominated by a long one. */
const proseTokens = 256;
/** Maximum number of tokens of an answer to an instruction. */
const formatTokens = 64;
/** Number of the base's likeliest tokens whose probabilities are compared one by one. All others count as one token. */
const comparedTokens = 128;

/**
 * Returns for each item whether its first choice is the most likely one. As in evaluations, likelihood is per character. A tie counts as
 * no.
 */
export async function choose(asked: Asked, items: readonly Choice[]): Promise<boolean[]> {
  const { tokenizer } = asked;
  const rows = items.flatMap((item, index) => {
    const prompt = formatChat(tokenizer, [{ role: "user", content: item.ask }]);
    const stem = item.stem === "" ? [] : tokenizer.encode(item.stem, false);
    return item.choices.map((choice) => {
      const tokens = tokenizer.encode(item.stem === "" ? choice : ` ${choice}`, false);
      return {
        index,
        from: prompt.length + stem.length,
        tokens: [...prompt, ...stem, ...tokens],
      };
    });
  });
  const said: Float32Array[][] = items.map(() => []);
  let scored = 0;
  for (const call of callsOf(rows)) {
    const logprobs = await asked.trainer.score(
      asked.adapter,
      packed(call.map((row) => row.tokens)),
      Int32Array.from(call, (row) => row.from),
    );
    let at = 0;
    for (const row of call) {
      said[row.index]!.push(logprobs.slice(at + row.from, at + row.tokens.length));
      at += row.tokens.length;
    }
    scored += call.length;
    await asked.turn(scored, rows.length, "choices scored");
  }
  return items.map(({ choices }, index) => {
    const [right, ...others] = likeliest(choices, said[index]!).scores;
    return others.every((other) => right!.per_character > other.per_character);
  });
}

/** Returns for each instruction whether the greedy answer matches its pattern. */
export async function follow(asked: Asked, items: readonly FormatItem[]): Promise<boolean[]> {
  const { tokenizer } = asked;
  const rows = items.map(({ ask }) => ({ tokens: formatChat(tokenizer, [{ role: "user", content: ask }]) }));
  const answers: string[] = [];
  for (const call of callsOf(rows, formatTokens)) {
    const sampled = await asked.trainer.sample(asked.adapter, packed(call.map((row) => row.tokens)), {
      maxTokens: formatTokens,
      temperature: 0,
      topK: 0,
      topP: 1,
      minP: 0,
      seed: 0,
      stopTokens: [...tokenizer.eog],
    });
    for (const { tokens } of sampled) answers.push(answerText(tokenizer, tokens));
    await asked.turn(answers.length, items.length, "instructions followed");
  }
  return items.map(({ matches }, index) => matches.test(answers[index]!));
}

/**
 * The base's log-probs on prose, per call of the trainer: that of each token, and those of the likeliest tokens in its place.
 */
export interface ProseSaid {
  calls: { rows: WeightedRows; logprobs: Float32Array; likeliest: Float32Array }[];
}

/** Asks the base about prose. The result serves for comparison with every adapter. */
export async function proseSaid(
  { trainer, tokenizer, turn }: Omit<Asked, "adapter">,
  prose: readonly string[],
): Promise<ProseSaid> {
  const rows = prose.map((text) => ({ tokens: tokenizer.encode(text, false).slice(0, proseTokens) }));
  const topK = Math.min(comparedTokens, tokenizer.vocabulary);
  const calls: ProseSaid["calls"] = [];
  const planned = callsOf(rows.filter((row) => row.tokens.length > 1));
  for (const call of planned) {
    const weighted = everyToken(call.map((row) => row.tokens));
    const { logprobs, top } = await trainer.forward(null, weighted, topK);
    const isAsked = (at: number): boolean => weighted.weights[Math.floor(at / topK)] !== 0;
    const soft = {
      targets: top.tokens.map((token, at) => (isAsked(at) ? token : 0)),
      weights: Float32Array.from(top.tokens, (_, at) => Number(isAsked(at))),
    };
    calls.push({ rows: { ...weighted, soft }, logprobs, likeliest: top.logprobs });
    await turn(calls.length, planned.length, "prose passages, base");
  }
  return { calls };
}

export async function divergence(asked: Asked & { adapter: string }, { calls }: ProseSaid): Promise<Divergence> {
  const sums = { tokens: 0, base: 0, own: 0, kl: 0, covered: 0 };
  for (const [index, { rows, logprobs, likeliest: base }] of calls.entries()) {
    const own = await asked.trainer.forward(asked.adapter, rows);
    await asked.turn(index + 1, calls.length, "prose passages");
    const topK = base.length / rows.tokens.length;
    for (let t = 0; t < rows.tokens.length; t++) {
      if (rows.weights[t] === 0) continue;
      const theirs = base.subarray(t * topK, (t + 1) * topK);
      sums.kl += groupedKl(theirs, own.softLogprobs!.subarray(t * topK, (t + 1) * topK));
      sums.covered += theirs.reduce((total, logprob) => total + Math.exp(logprob), 0);
      sums.base -= logprobs[t]!;
      sums.own -= own.logprobs[t]!;
      sums.tokens++;
    }
  }
  const { tokens } = sums;
  return {
    tokens,
    base_perplexity: Math.exp(sums.base / tokens),
    perplexity: Math.exp(sums.own / tokens),
    perplexity_rise: 100 * (Math.exp((sums.own - sums.base) / tokens) - 1),
    kl: sums.kl / tokens,
    covered: sums.covered / tokens,
  };
}

/** Returns KL(p‖q) in nats from the log-probs of some tokens. All other tokens count as one more token. */
export function groupedKl(p: ArrayLike<number>, q: ArrayLike<number>): number {
  // A smaller remaining probability is only single-precision error, because the given tokens are then nearly the whole vocabulary.
  const least = 1e-7;
  let sum = 0;
  let restP = 1;
  let restQ = 1;
  for (let k = 0; k < p.length; k++) {
    const likely = Math.exp(p[k]!);
    sum += likely * (p[k]! - q[k]!);
    restP -= likely;
    restQ -= Math.exp(q[k]!);
  }
  return restP > least ? sum + restP * Math.log(restP / Math.max(restQ, least)) : sum;
}

function callsOf<T extends { tokens: readonly number[] }>(rows: readonly T[], answer = 0): T[][] {
  const calls = microBatches([...rows.keys()], (index) => rows[index]!.tokens.length + answer, callTokens);
  return calls.map((call) => call.map((index) => rows[index]!));
}

/** Gives every token weight 1, except the first of each row, which has weight 0. */
function everyToken(rows: readonly (readonly number[])[]): WeightedRows {
  return { ...packed(rows), weights: Float32Array.from(rows.flatMap((row) => row.map((_, at) => (at === 0 ? 0 : 1)))) };
}
