// Formats the input and output of the shipped writer. They are plain text, in the same form in training and in use, without the
// base's chat template. The writer sees the headings and the clause but nothing else of the passage, because so small a model would
// otherwise ask about a neighbouring sentence.
//
//   TITLE
//   CLAUSE
//
//   MANNER:→ QUESTION

/** Ways of putting a question. Each line of the training material has a question in each of these manners. */
export const manners = ["Question", "In other words", "Someone asks"] as const;
export type Manner = (typeof manners)[number];

/** `title`: title and headings, outermost first. */
export const askingPrompt = (title: string, clause: string, manner: Manner): string =>
  `${title}\n${oneLine(clause)}\n\n${manner}:`;

export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

/** The text that follows a prompt, without the end-of-text token. */
export const continuation = (text: string): string => ` ${text}`;
