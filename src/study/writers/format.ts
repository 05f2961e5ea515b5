// What the shipped writer reads and writes: plain text, the same to train it and to ask it, so that a base's chat template has no part
// in it. Three tasks share one adapter: to name spans worth asking for, to ask for one, and to answer a question from the passage
// alone. All begin with the passage, so that what is asked of one is computed as a tree.
//
//   TITLE               TITLE                                   TITLE
//   PASSAGE             PASSAGE                                 PASSAGE
//
//   Worth asking:→      words before [[SPAN]] words after       Question: QUESTION
//   SPAN                MANNER:→ QUESTION                       Answer:→ ANSWER, or the sign that
//   SPAN                                                        the passage does not say

/** How a question is put; one line of the material has a question of each. */
export const manners = ["Question", "In other words", "Someone asks"] as const;
export type Manner = (typeof manners)[number];

/** The answer where the passage has none. */
export const notStated = "∅";

export interface Asked {
  /** Title and headings, outermost first. */
  title: string;
  text: string;
}

/** Characters shown on either side of a span: enough to tell it from the same words elsewhere in the passage. */
const before = 60;
const after = 24;

/** `span`: character offsets of what is asked for in the passage's text. */
export function askingPrompt(about: Asked, span: { start: number; end: number }, manner: Manner): string {
  const { text } = about;
  const from = span.start <= before ? 0 : wordBoundary(text, span.start - before);
  const to = text.length - span.end <= after ? text.length : wordBoundary(text, span.end + after);
  const line = `${text.slice(from, span.start)}[[${text.slice(span.start, span.end)}]]${text.slice(span.end, to)}`;
  return `${headOf(about)}${line.replace(/\s+/g, " ").trim()}\n${manner}:`;
}

export const spansPrompt = (about: Asked): string => `${headOf(about)}Worth asking:`;

/** One a line. */
export const spansAnswer = (spans: readonly string[]): string => spans.join("\n");

export const readingPrompt = (about: Asked, question: string): string =>
  `${headOf(about)}Question: ${question}\nAnswer:`;

const headOf = ({ title, text }: Asked): string => `${title}\n${text}\n\n`;

/** The next place at or after `at` where a word ends. */
function wordBoundary(text: string, at: number): number {
  const found = text.slice(at).search(/\s/);
  return found < 0 ? text.length : at + found;
}

/** What follows a prompt. The end of the text is a token of its own. */
export const continuation = (text: string): string => ` ${text}`;
