// Removes or escapes characters that have no visible form: control characters, line separators, and marks that change the direction of
// text. In a terminal, they can move the cursor, rename the window, or make one name look like another.

/** The inside of a character class, in a form that JSON Schema, JavaScript and Python all accept. */
export const hiddenCharacters =
  "\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff";

const hidden = new RegExp(`[${hiddenCharacters}]`, "gu");

export const withoutHidden = (text: string): string => text.replace(hidden, "");

/** Replaces each hidden character with its JSON escape, so that JSON text keeps its meaning. */
export const hiddenEscaped = (text: string): string =>
  text.replace(hidden, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** As `hiddenEscaped`, but keeps line feeds, for a text of several lines. */
export const linesEscaped = (text: string): string => text.split("\n").map(hiddenEscaped).join("\n");

const maxLength = 200;

/** Returns a safe display name for a name that comes from outside, such as a file's name. */
export function labelOf(name: string): string {
  const shown = [...withoutHidden(name.toWellFormed()).trim()].slice(0, maxLength).join("");
  // Characters beyond the first Unicode plane count twice in `length`, so half as many of them are sure to fit.
  return (shown.length > maxLength ? [...shown].slice(0, maxLength / 2).join("") : shown) || "unnamed";
}
