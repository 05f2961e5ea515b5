// Characters that are not shown as they are: controls, line separators, and marks that turn the direction of what follows. In a
// terminal they move the cursor, rename the window, or make one name pass for another.

/** As the inside of a class of characters, in the form that JSON Schema, JavaScript and Python read alike. */
export const hiddenCharacters =
  "\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff";

const hidden = new RegExp(`[${hiddenCharacters}]`, "gu");

export const withoutHidden = (text: string): string => text.replace(hidden, "");

/** Each by its code, as JSON has it: what JSON says stays what it says. */
export const hiddenEscaped = (text: string): string =>
  text.replace(hidden, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The same of a text of several lines, which stay lines. */
export const linesEscaped = (text: string): string => text.split("\n").map(hiddenEscaped).join("\n");

const maxLength = 200;

/** What a file, which nobody here named, is called. */
export function labelOf(name: string): string {
  const shown = [...withoutHidden(name.toWellFormed()).trim()].slice(0, maxLength).join("");
  // Characters beyond the first plane count twice in the contract's length.
  return (shown.length > maxLength ? [...shown].slice(0, maxLength / 2).join("") : shown) || "unnamed";
}
