// Limits on what a document may cost to read. A document that exceeds one is refused with the limit's name; no real
// document needs more.

/** Nesting depth of lists and quotations in Markdown, and of arrays and objects in JSON. */
export const mostDepth = 100;

/** Columns of a row: as many as a spreadsheet can have. */
export const mostColumns = 16_384;

/** Number of pages, slides, sheets or chapters. */
export const mostPages = 5000;
