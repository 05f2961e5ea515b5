// What a document may cost to read. What goes beyond is refused by the limit's name: no document says more that way.

/** Lists and quotations in Markdown, lists and objects in JSON. */
export const mostDepth = 100;

/** Of a row: as many as a sheet can have. */
export const mostColumns = 16_384;

/** Pages, slides, sheets, chapters. */
export const mostPages = 5000;
