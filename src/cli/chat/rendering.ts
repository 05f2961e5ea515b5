// How an answer is displayed.
import { styleText } from "node:util";
import { hiddenEscaped } from "../../base/visible.ts";
import { type Rendering, unsure } from "./words.ts";

/** For programs; the text is unchanged. */
export const plain: Rendering = { word: ({ text }) => text, space: (one) => one };

/**
 * For a terminal. Control characters are escaped, so that a model cannot control the terminal. Words that the model was
 * unsure of are underlined.
 */
export const onTerminal: Rendering = {
  word({ text, probability }) {
    const shown = hiddenEscaped(text);
    const isUnsure = probability !== null && probability < unsure;
    return isUnsure ? styleText("underline", shown, { stream: process.stdout }) : shown;
  },
  space: (one) => (one === "\n" ? one : one === "\t" ? "    " : one === "\r" ? "" : " "),
};
