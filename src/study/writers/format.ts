// What the shipped writer reads and writes: plain text, the same to train it and to ask it, so that a base's chat template has no part
// in it. Two tasks share one adapter: to ask a question that a clause of the passage answers, and to name the clause that answers one.
// Both begin with the passage, so that what is asked of one is computed as a tree.
//
//   TITLE                 TITLE
//   PASSAGE               PASSAGE
//
//   About: CLAUSE         Question: QUESTION
//   MANNER:→ QUESTION     Answer:→ CLAUSE

/** How a question is put; one line of the material has a question of each. */
export const manners = ["Question", "In other words", "Someone asks"] as const;
export type Manner = (typeof manners)[number];

export interface Asked {
  /** Title and headings, outermost first. */
  title: string;
  text: string;
}

export const askingPrompt = (about: Asked, clause: string, manner: Manner): string =>
  `${headOf(about)}About: ${oneLine(clause)}\n${manner}:`;

export const readingPrompt = (about: Asked, question: string): string =>
  `${headOf(about)}Question: ${question}\nAnswer:`;

const headOf = ({ title, text }: Asked): string => `${title}\n${text}\n\n`;

export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

/** What follows a prompt. The end of the text is a token of its own. */
export const continuation = (text: string): string => ` ${text}`;
