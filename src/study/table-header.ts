// Whether a table's first row names its columns. The readers of documents mark every first row, and some tables have no
// such row.

/** A figure alone, with at most a currency or a percent sign. */
const figure = /^[\p{Sc}%\s]*(\d[\d.,]*)[\p{Sc}%\s]*$/u;
/** Columns may be named by years. */
const year = /^(?:19|20)\d\d$/;

/** Marks that group three digits: a comma or a point with exactly three behind it; a single other one is a decimal mark. */
const grouping = /[.,](?=\d{3}(?:[.,]|$))/g;

const figureOf = (cell: string | undefined): string | null => cell?.match(figure)?.[1] ?? null;

/**
 * False if the row has a figure where most rows below have one: it is then a row like them. Figures that ascend along the
 * row, or years, may name columns («10 | 50 | 100»).
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
