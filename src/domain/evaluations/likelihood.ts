// Items of choices, answered by likelihood: the model is asked the question and each choice is scored as its answer. The one with
// the highest log-prob per character is chosen (acc_norm of lm-evaluation-harness), for long choices are less likely as such.

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
export function choose(choices: readonly string[], logprobs: readonly Float64Array[]): Chosen {
  const scores = choices.map((choice, index) => {
    const logprob = logprobs[index]!.reduce((total, value) => total + value, 0);
    return { logprob, per_character: logprob / [...choice].length };
  });
  return {
    index: best(scores.map((score) => score.per_character)),
    rawIndex: best(scores.map((score) => score.logprob)),
    scores,
  };
}

const best = (values: readonly number[]): number => values.indexOf(Math.max(...values));
