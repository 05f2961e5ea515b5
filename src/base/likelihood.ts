// Items of choices, answered by likelihood: the model is asked the question and each choice is scored as its answer. The one with
// the highest log-prob per character is chosen, for long choices are less likely as such: acc_norm of lm-evaluation-harness, which
// divides by len() of the choice, its code points without the blank before it (by UTF-8 bytes is its acc_bytes).

export interface ChoiceScore {
  /** ln p of the choice's tokens, summed, in nats. */
  logprob: number;
  per_character: number;
}

export interface Chosen {
  index: number;
  /** By the sum alone (acc of the harness). */
  rawIndex: number;
  scores: ChoiceScore[];
}

/** `logprobs`: of the tokens of each choice. The first of equals is chosen. */
export function choose(choices: readonly string[], logprobs: readonly (Float64Array | Float32Array)[]): Chosen {
  const scores = choices.map((choice, index) => {
    let logprob = 0;
    for (const value of logprobs[index]!) logprob += value;
    return { logprob, per_character: logprob / [...choice].length };
  });
  return {
    index: best(scores.map((score) => score.per_character)),
    rawIndex: best(scores.map((score) => score.logprob)),
    scores,
  };
}

const best = (values: readonly number[]): number => values.indexOf(Math.max(...values));
