// How an answer looks where it is read.
import { styleText } from "node:util";
import { hiddenEscaped } from "../../base/visible.ts";
import { type Rendering, unsure } from "./words.ts";

/** As it was said, for whatever reads it. */
export const plain: Rendering = { word: ({ text }) => text, space: (one) => one };

/** Nothing that a model says steers the terminal, and what it was unsure of is underlined. */
export const onTerminal: Rendering = {
  word({ text, probability }) {
    const shown = hiddenEscaped(text);
    const isUnsure = probability !== null && probability < unsure;
    return isUnsure ? styleText("underline", shown, { stream: process.stdout }) : shown;
  },
  space: (one) => (one === "\n" ? one : one === "\t" ? "    " : one === "\r" ? "" : " "),
};
