// The shipped writer's input and output: plain text, the same for training and use, so that a base's chat template has
// no part in it. The writer sees the headings and the clause but nothing else of the passage, because so small a model
// would otherwise ask about a neighbouring sentence.
//
//   TITLE
//   CLAUSE
//
//   MANNER:→ QUESTION

/** Ways of putting a question; each line of the training material has a question in each. */
export const manners = ["Question", "In other words", "Someone asks"] as const;
export type Manner = (typeof manners)[number];

/** `title`: title and headings, outermost first. */
export const askingPrompt = (title: string, clause: string, manner: Manner): string =>
  `${title}\n${oneLine(clause)}\n\n${manner}:`;

export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

/** The text that follows a prompt, without the end of text, which is a token of its own. */
export const continuation = (text: string): string => ` ${text}`;
