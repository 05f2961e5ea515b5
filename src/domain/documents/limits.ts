// Limits on what a document may cost to read. A document that exceeds a limit is refused, and the message states the limit. No
// real document needs more.

/** Maximum nesting depth of lists and quotations in Markdown, and of arrays and objects in JSON. */
export const mostDepth = 100;

/** Maximum number of columns of a row, which is as many as a spreadsheet can have. */
export const mostColumns = 16_384;

/** Maximum number of pages, slides, sheets or chapters. */
export const mostPages = 5000;
