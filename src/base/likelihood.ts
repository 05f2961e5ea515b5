// Answers multiple-choice items by likelihood: each choice is scored as the answer to the question. The choice with the highest
// log-prob per character wins, because a longer choice is less likely merely because of its length. This is acc_norm of
// lm-evaluation-harness, which divides by Python's len() of the choice: its number of code points, without the space before the
// choice. (acc_bytes divides by UTF-8 bytes.)

export interface ChoiceScore {
  /** ln p of the choice's tokens, summed, in nats. */
  logprob: number;
  per_character: number;
}

export interface Chosen {
  index: number;
  /** Index of the best choice by the sum of log-probs alone (acc of the harness). */
  rawIndex: number;
  scores: ChoiceScore[];
}

/** Chooses an answer. `logprobs` holds, for each choice, the log-probs of its tokens. If choices score equally, the first one wins. */
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
