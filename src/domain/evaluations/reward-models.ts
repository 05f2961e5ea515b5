// Asks the models that an auto-align's reward names, during the auto-align's run. An installed judge replies with the likeliest of
// the given choices, which is deterministic. An upstream judge replies in its own words. A preference model is a cross-encoder that
// scores each pair of a prompt and an answer.

import { Failure, type FailureCode } from "../../base/errors.ts";
import { choose } from "../../base/likelihood.ts";
import { createPatience, type PatienceParts } from "../../base/patience.ts";
import type { ModelQuestion } from "../../contract/run-lines.ts";
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import { scoredRows } from "./asking.ts";

export interface RewardModelsParts extends Omit<PatienceParts, "mayPass"> {
  generator: Generator;
  /** Finds a model, deployed or not. Throws not_found. */
  findModel: (ownerId: string, model: string) => { ref: ModelRef };
  /** Loads the model and keeps it loaded until released. Throws what loading throws. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  /** A chat model's answer to one message, at temperature 0. Waits while the model cannot answer. */
  say: (
    ownerId: string,
    by: { model: string; provider: string | null; key_id: string },
    content: string,
    options: { maxTokens: number; signal: AbortSignal },
  ) => Promise<{ text: string }>;
}

export interface NamedModels {
  judge: { model: string; provider: string | null } | null;
  preferenceModel: string | null;
  /** API key on whose behalf an upstream is called. */
  key_id: string;
}

export type AskRewardModel = (
  ownerId: string,
  named: NamedModels,
  question: ModelQuestion,
  signal: AbortSignal,
) => Promise<string | readonly number[]>;

/** Failures of installed models that pass. */
const passing: ReadonlySet<FailureCode> = new Set(["engine_busy", "load_cooling", "out_of_memory"]);

/** Maximum tokens of an upstream judge's reply. Its first word is the verdict, but some models cannot but think before. */
const longestVerdict = 1000;

export function createRewardModels(parts: RewardModelsParts): AskRewardModel {
  const { generator } = parts;
  const patience = createPatience({ ...parts, mayPass: ({ code }) => passing.has(code) });

  /** Works with a loaded model. Waits while it cannot be loaded or asked. */
  const leased = <T>(ownerId: string, model: string, signal: AbortSignal, work: (ref: ModelRef) => Promise<T>) =>
    patience(model, () => leasedOnce(ownerId, model, work), signal);

  async function leasedOnce<T>(ownerId: string, model: string, work: (ref: ModelRef) => Promise<T>): Promise<T> {
    const { ref } = parts.findModel(ownerId, model);
    const lease = await parts.lease(ref);
    try {
      return await work(ref);
    } finally {
      await lease.release();
    }
  }

  async function likeliest(
    ref: ModelRef,
    content: string,
    choices: readonly string[],
    signal: AbortSignal,
  ): Promise<string> {
    const tokenizer = generator.tokenizer(ref.baseId);
    const prompt = formatChat(tokenizer, [{ role: "user", content }]);
    const logprobs = await generator.score(ref, scoredRows(tokenizer, prompt, choices), signal);
    return choices[choose(choices, logprobs).index]!;
  }

  return async (ownerId, { judge, preferenceModel, key_id }, question, signal) => {
    if (question.of === "preference_model") {
      if (preferenceModel === null) throw new Failure("bad_request", "The request names no preference model");
      const { prompt, answers } = question;
      const ranked = await leased(ownerId, preferenceModel, signal, (ref) =>
        generator.rank(ref, prompt, answers, { truncate: true, signal }),
      );
      return ranked.map(({ logit }) => logit);
    }
    if (judge === null) throw new Failure("bad_request", "The request names no judge");
    const { content, choices } = question;
    if (judge.provider === null)
      return leased(ownerId, judge.model, signal, (ref) => likeliest(ref, content, choices, signal));
    const options = { maxTokens: longestVerdict, signal };
    return (await parts.say(ownerId, { ...judge, key_id }, content, options)).text;
  };
}
