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
 * it is then a row like them. Figures that ascend along the row («10 | 50 | 100»), and years, may still name columns.
 */
export function namesColumns(first: readonly string[], below: readonly (readonly string[])[]): boolean {
  const figures = first.flatMap((cell, column) => {
    const value = figureOf(cell);
    if (value === null || year.test(value)) return [];
    const alike = below.filter((row) => figureOf(row[column]) !== null);
    return alike.length * 2 > below.length ? [Number.parseFloat(value.replace(grouping, "").replace(",", "."))] : [];
  });
  const ascends = figures.length > 1 && figures.every((value, at) => at === 0 || value > figures[at - 1]!);
  return figures.length === 0 || ascends;
}
