// Decides whether the first row of a table names the columns. The document parsers mark every first row as a header, but some
// tables have no header.

/** Matches a cell that holds only a figure, with or without currency and percent signs. */
const figure = /^[\p{Sc}%\s]*(\d[\d.,]*)[\p{Sc}%\s]*$/u;
/** A year, which may name a column. */
const year = /^(?:19|20)\d\d$/;

/** Matches a comma or point that is followed by exactly three digits, and so groups digits. Any other comma or point is a decimal mark. */
const grouping = /[.,](?=\d{3}(?:[.,]|$))/g;

const figureOf = (cell: string | undefined): string | null => cell?.match(figure)?.[1] ?? null;

/**
 * Whether the first row names the columns. It does not if it has a figure in a column where most rows below have one too, because
 * it is then a row like them. A sum of money or a percentage names no column in any case. Figures that ascend along the row
 * («10 | 50 | 100»), and years, may still name columns.
 */
export function namesColumns(first: readonly string[], below: readonly (readonly string[])[]): boolean {
  const figures = first.flatMap((cell, column) => {
    const value = figureOf(cell);
    if (value === null || year.test(value)) return [];
    const alike = /[\p{Sc}%]/u.test(cell) ? below : below.filter((row) => figureOf(row[column]) !== null);
    return alike.length * 2 > below.length ? [Number.parseFloat(value.replace(grouping, "").replace(",", "."))] : [];
  });
  const ascends = figures.length > 1 && figures.every((value, at) => at === 0 || value > figures[at - 1]!);
  return figures.length === 0 || ascends;
}

const longestName = 6;

/**
 * Whether the first row is unlike those below, and has no sentence: it has no digit where most of them have one, or it alone is in
 * capitals.
 */
export function standsOut(first: readonly string[], below: readonly (readonly string[])[]): boolean {
  const most = (isSo: (row: readonly string[]) => boolean): boolean => below.filter(isSo).length * 2 > below.length;
  const isInCapitals = (row: readonly string[]): boolean =>
    /\p{Lu}/u.test(row.join("")) && !/\p{Ll}/u.test(row.join(""));
  const hasSentence = first.some((cell) => /[.!?]$/.test(cell) || cell.split(" ").length > longestName);
  const isUnlike = first.some(
    (cell, column) => !/\p{N}/u.test(cell) && most((row) => /\p{N}/u.test(row[column] ?? "")),
  );
  return !hasSentence && (isUnlike || (isInCapitals(first) && !most(isInCapitals)));
}
