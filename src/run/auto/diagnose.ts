// Diagnoses, before anything is trained, why the base is wrong on dev. Each question gets a greedy answer and eight
// draws without its passage (`sampledShares`), and a greedy answer and three draws with it.
import { containsWords, normalised, wordsWithin } from "../../base/text.ts";
import { givingWay } from "../../base/time.ts";
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import { maxRowTokens } from "../../engine/train/trainer.ts";
import { type BaseSaid, devAnswers } from "../choose.ts";
import type { Run } from "../context.ts";
import { answerTokens, type DevAnswer, type Draw } from "../dev-check.ts";
import type { Diagnosis, ProbedItem } from "../plan/state.ts";
import type { DevPrompt } from "../rows.ts";
import type { OpenedBase } from "../training.ts";
import { isRightAnswer, scoreOfDeclining } from "./declining.ts";
import { passagesFor } from "./passages.ts";

/**
 * Number of draws of a dev item at temperature 1. Eight are enough to tell an item that is never right from one that is
 * right in a third of draws, because only 4 % of the latter are wrong in all eight.
 */
export const draws = 8;
/** Number of draws with the passage, besides the greedy answer. */
const readings = 3;

export async function diagnose(
  run: Run,
  { trainer, model }: OpenedBase,
  {
    dev,
    base,
    sampled,
    paysForDeclining: pays,
  }: { dev: readonly DevPrompt[]; base: BaseSaid; sampled: readonly number[]; paysForDeclining: boolean },
): Promise<Pick<Diagnosis, "items">> {
  const passages = await passagesFor(
    run,
    dev.map(({ item }) => item),
  );
  const longest = Math.min(model.context, maxRowTokens) - answerTokens;
  const opened: DevPrompt[] = [];
  // Long passages take a while on this thread, which must let commands and heartbeats through.
  const giveWay = givingWay();
  for (const [at, { item }] of dev.entries()) {
    opened.push({ item, tokens: openedPrompt(run.tokenizer, passages[at]!, item.instruction, longest) });
    await giveWay();
  }
  const unit = "questions asked with their passage";
  const reading = { trainer, adapter: null, prompts: opened };
  const read = await devAnswers(run, reading, { unit });
  const others: DevAnswer[][] = [];
  for (let at = 0; at < readings; at++) others.push(await devAnswers(run, reading, { unit, draw: drawOf(run, at) }));
  const isInDocuments = wordsWithin(run.snapshot.documents.map((document) => document.text).join("\n"));
  return {
    items: dev.map(({ item }, at): ProbedItem => {
      const closed = base.dev[at]!;
      const golds = [item.response, ...item.aliases];
      const said = [read[at]!, ...others.map((answers) => answers[at]!)];
      return {
        cluster: item.cluster,
        closed_book: run.points(closed),
        open_book: run.points(read[at]!),
        sampled: sampled[at]!,
        format_only: !isRightAnswer(run, closed) && golds.some((gold) => containsWords(closed.answer, gold)),
        disputed: isDisputed(run, said, golds.some(isInDocuments)),
        declining: pays ? scoreOfDeclining(run, item) : 0,
      };
    }),
  };
}

/**
 * Returns the prompt of a question under its passage. The passage loses its end if the prompt would exceed `longest` tokens, because the
 * trainer refuses longer rows.
 */
function openedPrompt(tokenizer: Tokenizer, passage: string | null, question: string, longest: number): number[] {
  const promptUnder = (text: string): number[] =>
    formatChat(tokenizer, [{ role: "user", content: text === "" ? question : `${text}\n\n${question}` }]);
  let prompt = promptUnder(passage ?? "");
  let kept = prompt.length > longest ? tokenizer.encode(passage ?? "", false) : [];
  // More than one cut can be needed, because a passage that was cut may have more tokens when it is encoded again.
  while (prompt.length > longest && kept.length > 0) {
    kept = kept.slice(0, Math.max(0, kept.length + longest - prompt.length));
    prompt = promptUnder(tokenizer.decode(kept));
  }
  return prompt;
}

/**
 * Whether the independent answers `said` all agree and are wrong, and the reference occurs nowhere in the documents.
 */
function isDisputed({ points }: Run, said: readonly DevAnswer[], isInDocuments: boolean): boolean {
  const answers = new Set(said.map(({ answer }) => normalised(answer)));
  return !isInDocuments && answers.size === 1 && said.every((one) => points(one) === 0);
}

/** Share of drawn answers that are right, for every dev item. */
export async function sampledShares(
  run: Run,
  asked: { trainer: OpenedBase["trainer"]; adapter: string | null },
  dev: readonly DevPrompt[],
): Promise<number[]> {
  const right = dev.map(() => 0);
  for (let at = 0; at < draws; at++) {
    const answers = await devAnswers(
      run,
      { ...asked, prompts: dev },
      { unit: "sampled answers", draw: drawOf(run, at) },
    );
    for (const [index, answer] of answers.entries()) right[index]! += Number(isRightAnswer(run, answer));
  }
  return right.map((count) => count / draws);
}

const drawOf = (run: Run, draw: number): Draw => ({ temperature: 1, seed: run.request.recipe.training.seed + draw });
