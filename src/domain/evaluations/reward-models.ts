// Asks the models that an auto-align's reward names, during the auto-align's run. An installed judge replies with the likeliest of
// the given choices, which is deterministic. An upstream judge replies in its own words. A preference model is a cross-encoder that
// scores each pair of a prompt and an answer.

import { Failure, type FailureCode } from "../../base/errors.ts";
import { choose } from "../../base/likelihood.ts";
import { sleep } from "../../base/time.ts";
import type { ModelQuestion } from "../../contract/run-lines.ts";
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";

export interface RewardModelsParts {
  generator: Generator;
  /** Finds a model, deployed or not. Throws not_found. */
  findModel: (ownerId: string, model: string) => { ref: ModelRef };
  /** Loads the model and keeps it loaded until released. Throws what loading throws. */
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  /** A chat model's answer to one message, at temperature 0. */
  say: (
    ownerId: string,
    by: { model: string; provider: string | null; key_id: string },
    content: string,
    signal: AbortSignal,
  ) => Promise<string>;
  /** Waits between attempts, in order. If the attempt after the last wait fails too, its error is thrown. */
  waitsMs?: readonly number[];
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

/** Errors that may not recur at the next attempt. */
const passing: readonly FailureCode[] = ["engine_busy", "upstream_failed", "out_of_memory", "load_cooling"];

export function createRewardModels(parts: RewardModelsParts): AskRewardModel {
  const { generator, waitsMs = [1_000, 5_000, 25_000] } = parts;

  async function leased<T>(ownerId: string, model: string, work: (ref: ModelRef) => Promise<T>): Promise<T> {
    const { ref } = parts.findModel(ownerId, model);
    const lease = await parts.lease(ref);
    try {
      return await work(ref);
    } finally {
      await lease.release();
    }
  }

  async function ask(
    ownerId: string,
    { judge, preferenceModel, key_id }: NamedModels,
    question: ModelQuestion,
    signal: AbortSignal,
  ): Promise<string | readonly number[]> {
    if (question.of === "preference_model") {
      if (preferenceModel === null) throw new Failure("bad_request", "The request names no preference model");
      const { prompt, answers } = question;
      const ranked = await leased(ownerId, preferenceModel, (ref) =>
        generator.rank(ref, prompt, answers, { truncate: true, signal }),
      );
      return ranked.map(({ logit }) => logit);
    }
    if (judge === null) throw new Failure("bad_request", "The request names no judge");
    const { content, choices } = question;
    if (judge.provider !== null) return parts.say(ownerId, { ...judge, key_id }, content, signal);
    return leased(ownerId, judge.model, (ref) => likeliest(ref, content, choices, signal));
  }

  async function likeliest(
    ref: ModelRef,
    content: string,
    choices: readonly string[],
    signal: AbortSignal,
  ): Promise<string> {
    const tokenizer = generator.tokenizer(ref.baseId);
    const prompt = formatChat(tokenizer, [{ role: "user", content }]);
    const rows = choices.map((choice) => ({
      tokens: [...prompt, ...tokenizer.encode(choice, false)],
      promptLength: prompt.length,
    }));
    return choices[choose(choices, await generator.score(ref, rows, signal)).index]!;
  }

  return async (ownerId, named, question, signal) => {
    for (let tries = 0; ; tries++)
      try {
        return await ask(ownerId, named, question, signal);
      } catch (error) {
        const wait = waitsMs[tries];
        const mayPass = error instanceof Failure && passing.includes(error.code);
        if (signal.aborted || !mayPass || wait === undefined) throw error;
        await sleep(wait, signal);
        signal.throwIfAborted();
      }
  };
}
