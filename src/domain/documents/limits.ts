// What a document may cost to read. What goes beyond is refused by the limit's name: no document says more that way.

/** Lists and quotations in Markdown, lists and objects in JSON. */
export const mostDepth = 100;

/** Of a row: as many as a sheet can have. */
export const mostColumns = 16_384;

/** Pages, slides, sheets, chapters. */
export const mostPages = 5000;

/**
 * Seconds of computing that a document of so many bytes has. Of computing and not by the clock: a busy machine refuses nothing that an
 * idle one reads. Measured beside other work: Markdown of short lists 16 s a megabyte, HTML 4, tables 2.
 */
export const readingSeconds = (bytes: number): number => Math.min(120, 10 + Math.ceil((30 * bytes) / 2 ** 20));

/** By the clock, for what waits and does not compute. */
export const readingTimeoutMs = 240_000;
