// The chat model that the request names writes questions and answers for planned passages. Then, in a new message, it
// answers the questions from the passages alone, without seeing its earlier answers.
import type { ItemPlan } from "../../../study/items/plan.ts";
import {
  isSameReading,
  quizPrompt,
  readAnswers,
  readQuiz,
  shownTo,
  type Verified,
  verifyPrompt,
  type Written,
} from "../../../study/items/written.ts";
import type { Passage } from "../../../study/passages.ts";

export interface ItemWriter {
  /** Number of plans for which questions are written before they are stored. */
  together: number;
  write(plans: readonly ItemPlan[]): Promise<Verified[][]>;
  /**
   * Looks for an answer to an unanswerable question in the `found` passages. The question stays verified only if they do not answer
   * it. Skips the plan's own passages, which were shown before.
   */
  search(item: Verified, plan: ItemPlan, found: readonly Passage[]): Promise<Verified>;
}

/** Creates a writer that asks a chat model. `say` throws if the model cannot answer. */
export const chatWriter = (say: (content: string) => Promise<string>): ItemWriter => ({
  together: 1,
  write: (plans) => Promise.all(plans.map((plan) => writeOne(plan, say))),
  async search(item, plan, found) {
    const shown = new Set(shownTo(plan).map(({ text }) => text));
    const passages = found.filter(({ text }) => !shown.has(text));
    const [answer] = passages.length === 0 ? [null] : await answered([item], passages, say);
    return { ...item, verified: item.verified && isSameReading(answer, item), searched: true };
  },
});

/** Whether other passages must still be searched for an answer. */
export const isToSearch = ({ kind, verified, searched }: Verified): boolean =>
  kind === "unanswerable" && verified && searched !== true;

async function writeOne(plan: ItemPlan, say: (content: string) => Promise<string>): Promise<Verified[]> {
  const written = readQuiz(await say(quizPrompt(plan)), plan);
  const both = await answered(written, shownTo(plan), say);
  const verified = written.map((one, at) => ({ ...one, verified: isSameReading(both[at], one) }));
  const hops = verified.filter(({ kind, verified }) => kind === "multi_hop" && verified);
  if (hops.length === 0) return verified;
  // Drop multi-hop questions that one passage answers by itself.
  const alone = await Promise.all(shownTo(plan).map((passage) => answered(hops, [passage], say)));
  const direct = new Set(hops.filter((one, at) => alone.some((answers) => isSameReading(answers[at], one))));
  return verified.filter((one) => !direct.has(one));
}

const answered = async (
  written: readonly Written[],
  passages: readonly Passage[],
  say: (content: string) => Promise<string>,
): Promise<ReturnType<typeof readAnswers>> => {
  if (written.length === 0) return [];
  const questions = written.map(({ question }) => question);
  return readAnswers(await say(verifyPrompt(passages, questions)), questions.length);
};
