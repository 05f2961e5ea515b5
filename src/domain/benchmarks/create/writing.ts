// Questions for planned passages by the chat model that the request names. It then answers what it wrote from the passages alone, in
// another message, and is not shown the answer there.
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
  /** Plans that are written for between two writes to the store. */
  together: number;
  write(plans: readonly ItemPlan[]): Promise<Verified[][]>;
}

/** A chat model. `say` throws what keeps it from answering. */
export const chatWriter = (say: (content: string) => Promise<string>): ItemWriter => ({
  together: 1,
  write: (plans) => Promise.all(plans.map((plan) => writeOne(plan, say))),
});

async function writeOne(plan: ItemPlan, say: (content: string) => Promise<string>): Promise<Verified[]> {
  const written = readQuiz(await say(quizPrompt(plan)), plan);
  const both = await answered(written, shownTo(plan), say);
  const verified = written.map((one, at) => ({ ...one, verified: isSameReading(both[at], one) }));
  const hops = verified.filter(({ kind, verified }) => kind === "multi_hop" && verified);
  if (hops.length === 0) return verified;
  // What one passage answers by itself takes no second step.
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
