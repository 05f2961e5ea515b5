// What the shipped writer reads and writes: plain text, the same to train it and to ask it, so that a base's chat template has no part
// in it. It sees the headings and the clause, and nothing of the passage round it: so small a model asks for the sentence beside it otherwise.
//
//   TITLE
//   CLAUSE
//
//   MANNER:→ QUESTION

/** How a question is put; one line of the material has a question of each. */
export const manners = ["Question", "In other words", "Someone asks"] as const;
export type Manner = (typeof manners)[number];

/** `title`: title and headings, outermost first. */
export const askingPrompt = (title: string, clause: string, manner: Manner): string =>
  `${title}\n${oneLine(clause)}\n\n${manner}:`;

export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

/** What follows a prompt. The end of the text is a token of its own. */
export const continuation = (text: string): string => ` ${text}`;
