// The data that edits are fitted to: the model's own right and wrong answers to questions of the study or the data set,
// and the reference answers beside the passages that they come from. Dev and sealed questions are not among these
// questions, because dev decides what an edit is worth.
import { containsWords } from "../../../base/text.ts";
import type { SnapshotItem } from "../../../contract/run-folder.ts";
import { formatChat } from "../../../engine/format/chat-format.ts";
import { devAnswers } from "../../choose.ts";
import type { Run } from "../../context.ts";
import { answerTokens, type DevAnswer } from "../../dev-check.ts";
import type { Prepared } from "../../rows.ts";
import { permutation } from "../../schedule.ts";
import type { OpenedBase } from "../../training.ts";
import { isRightAnswer } from "../declining.ts";
import { passagesFor } from "../passages.ts";
import { promptsOf } from "../prompts.ts";

/** A right and a wrong answer that the model gave to the same prompt, as token ids. */
export interface Contrast {
  prompt: number[];
  good: number[];
  bad: number[];
}

/** The reference answer to a question, and the question's prompt with and without the passage, as token ids. */
export interface ContextRow {
  opened: number[];
  closed: number[];
  answer: number[];
}

export interface Material {
  /** Number of questions that were asked. */
  asked: number;
  contrasts: Contrast[];
  contexts: ContextRow[];
}

/** Maximum number of questions; number of answers drawn to each, at temperature 1, without and with its passage. */
const mostAsked = 64;
const closedDraws = 6;
const openDraws = 2;
/** Both answers of each contrast go through the layers twice, which makes the 200 passes that a profile may take. */
const mostContrasts = 50;
const mostContexts = 32;

interface Asked {
  item: SnapshotItem;
  closed: number[];
  /** null where no passage was found, or where it does not fit. */
  opened: number[] | null;
}

/** Draws the material. `adapter`: the adapter whose answers are drawn; null for the base. */
export async function drawMaterial(
  run: Run,
  { trainer, model }: OpenedBase,
  { adapter, rows, seed }: { adapter: string | null; rows: Prepared["rows"]; seed: number },
): Promise<Material> {
  const asked = await askedOf(run, rows, { context: model.context, seed });
  const opened = asked.filter(({ opened: tokens }) => tokens !== null);
  const said = new Map<SnapshotItem, DevAnswer[]>(asked.map(({ item }) => [item, []]));
  const draw = async (prompts: { item: SnapshotItem; tokens: number[] }[], number: number): Promise<void> => {
    const answers = await devAnswers(
      run,
      { trainer, prompts, adapter },
      { unit: "the model's own answers", draw: { temperature: 1, seed: seed + number } },
    );
    for (const answer of answers) said.get(answer.item)!.push(answer);
  };
  for (let at = 0; at < closedDraws; at++)
    await draw(
      asked.map(({ item, closed }) => ({ item, tokens: closed })),
      at,
    );
  for (let at = 0; at < openDraws; at++)
    await draw(
      opened.map(({ item, opened: tokens }) => ({ item, tokens: tokens! })),
      closedDraws + at,
    );
  const encode = (text: string): number[] => run.tokenizer.encode(text, false);
  return {
    asked: asked.length,
    contrasts: asked.flatMap((one) => contrastOf(run, one, said.get(one.item)!, encode)).slice(0, mostContrasts),
    contexts: opened
      .slice(0, mostContexts)
      .map(({ item, closed, opened: tokens }) => ({ closed, opened: tokens!, answer: encode(item.response) })),
  };
}

async function askedOf(
  run: Run,
  rows: Prepared["rows"],
  { context, seed }: { context: number; seed: number },
): Promise<Asked[]> {
  const most = Math.min(context, run.request.recipe.rendering.max_seq_len) - answerTokens;
  const all = promptsOf(run, rows, { maxPromptTokens: most });
  const some = [...permutation(seed, 0, all.length)].slice(0, mostAsked).map((at) => all[at]!);
  const items = some.map(({ item: { prompt, reference } }, at) => ({
    ...{ sample_num: at + 1, instruction: prompt, response: reference!, cluster: prompt },
    ...{ aliases: [], competitors: [] },
  }));
  const passages = await passagesFor(run, items);
  return items.map((item, at) => {
    const content = `${passages[at]}\n\n${item.instruction}`;
    const opened = passages[at] === null ? null : formatChat(run.tokenizer, [{ role: "user", content }]);
    const isFitting = opened !== null && opened.length <= context - answerTokens;
    return { item, closed: some[at]!.tokens, opened: isFitting ? opened : null };
  });
}

/**
 * Pairs the first right answer with a wrong one; empty if either is missing. A wrong answer that contains the reference
 * is preferred, because only its form is wrong, and form is what an edit can change.
 */
function contrastOf(
  run: Run,
  { item, closed }: Asked,
  said: readonly DevAnswer[],
  encode: (text: string) => number[],
): Contrast[] {
  const spoken = said.filter(({ answer }) => answer !== "");
  const good = spoken.find((one) => isRightAnswer(run, one));
  const wrong = spoken.filter((one) => !isRightAnswer(run, one));
  const bad = wrong.find(({ answer }) => containsWords(answer, item.response)) ?? wrong[0];
  if (good === undefined || bad === undefined || good.answer === bad.answer) return [];
  return [{ prompt: closed, good: encode(good.answer), bad: encode(bad.answer) }];
}
