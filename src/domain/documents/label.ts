// A file's name is a label for people. It never becomes a path, and may not pass for another when it is shown.

const maxLength = 200;
/** Control characters, and those that change the direction of what follows. */
const misleading = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu;

export function label(fileName: string): string {
  const last = fileName.split(/[\\/]/).at(-1) ?? "";
  const shown = [...last.toWellFormed().replace(misleading, "").trim()].slice(0, maxLength).join("");
  // Characters beyond the first plane count twice in the contract's length.
  return (shown.length > maxLength ? [...shown].slice(0, maxLength / 2).join("") : shown) || "unnamed";
}
