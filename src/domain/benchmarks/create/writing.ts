// Who writes questions for planned passages: a chat model that the request names, or the shipped writer on the starter model. Both
// then answer what they wrote from the passages alone, in another message; nobody is shown the answer there.
import { containsWords } from "../../../base/text.ts";
import type { ItemPlan, PlannedSpan } from "../../../study/items/plan.ts";
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
import type { Span } from "../../../study/spans.ts";
import { type Target, targetsOf } from "../../../study/targets.ts";
import type { Writer } from "../../../study/writers/writer.ts";

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

/** The shipped writer proposes spans of its own, asks for each, and reads. It was not made for tables. */
export const shippedItemWriter = (writer: Writer): ItemWriter => ({
  together: 4,
  async write(plans) {
    const proposed = await writer.propose(plans.map(({ passage }) => passage));
    const targets = plans.map((plan, at) => targetsFor(plan, proposed[at] ?? []));
    const asked = targets.flat();
    const questions = await writer.write(asked);
    const written = asked.flatMap((target, at) =>
      [...new Set(questions[at])].map((question) => ({ target, question })),
    );
    const read =
      (await writer.read?.(written.map(({ target, question }) => ({ passage: target.passage, question })))) ?? [];
    const items = written.map(({ target, question }, at) => {
      const one: Written = { kind: kindFor(target, plans), question, answer: target.answer };
      return { target, item: { ...one, verified: isSameReading(read[at] ?? null, one) } };
    });
    return targets.map((own) => items.filter(({ target }) => own.includes(target)).map(({ item }) => item));
  },
});

/** As many spans as are planned, those first that the writer proposed, none over another. */
function targetsFor({ passage, spans }: ItemPlan, proposed: readonly string[]): Target[] {
  const offered = proposed.flatMap((text): (Span & { unit: number })[] => {
    const start = text.trim() === "" ? -1 : passage.text.indexOf(text);
    const end = start + text.length;
    const unit = passage.units.findIndex((one) => start >= one.at && end <= one.at + one.text.length);
    return start < 0 || unit < 0 ? [] : [{ start, end, kind: "proposed", unit }];
  });
  const chosen: (Span & { unit: number })[] = [];
  for (const span of [...offered, ...spans]) {
    const isOver = chosen.some((other) => span.start < other.end && other.start < span.end);
    if (!isOver && passage.units[span.unit]!.type !== "row" && chosen.length < spans.length) chosen.push(span);
  }
  const asked = chosen.map(({ unit, ...span }) => ({ unit: passage.units[unit]!, span }));
  return targetsOf(passage, asked).slice(0, asked.length);
}

/** As planned for the span, or for one that has the same words in it. */
function kindFor({ passage, answer }: Target, plans: readonly ItemPlan[]): Written["kind"] {
  const planned = plans.find((plan) => plan.passage === passage)?.spans ?? [];
  const isOf = ({ text }: PlannedSpan): boolean => containsWords(text, answer) || containsWords(answer, text);
  return (
    planned.find(({ text }) => text === answer)?.asks ??
    planned.find(isOf)?.asks ??
    (/\p{N}/u.test(answer) ? "numeric" : "fact")
  );
}
