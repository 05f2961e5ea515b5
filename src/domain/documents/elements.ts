// What a format's reader returns for a file: its pages, and their elements in reading order. Nothing is cleaned yet.

/** Text of the original, not cleaned. */
export interface Piece {
  text: string;
  /** Page index, from 0. */
  page: number;
  /** Offset on the page; see Place. */
  start: number;
}

export type Element =
  | { type: "heading"; level: number; pieces: Piece[] }
  | { type: "paragraph"; pieces: Piece[] }
  /** `depth`: 0 in the outermost list. `mark`: "1." if items are numbered, else null. */
  | { type: "item"; depth: number; mark: string | null; pieces: Piece[] }
  /** `first`: whether the row begins a table. */
  | { type: "row"; first: boolean; cells: Piece[][] }
  /** Lines and spaces stay as they are. */
  | { type: "code"; pieces: Piece[] };

export interface Page {
  /** Name of a sheet or a chapter. */
  label: string | null;
  characters: number;
}

/** Numbers, from 1, of the pages that have no text. */
export const pagesWithoutText = (pages: readonly Page[]): number[] =>
  pages.flatMap((page, index) => (page.characters === 0 ? [index + 1] : []));

export interface Warning {
  code: string;
  message: string;
  /** The values in the message. */
  parameters?: Record<string, string | number>;
}

export interface Reading {
  /** Null if the format has no pages, or the file does not mark them. */
  pages: Page[] | null;
  elements: Element[];
  warnings: Warning[];
}

export const wordsOf = (pieces: readonly Piece[]): string => pieces.map((piece) => piece.text).join("");

export const isBlank = (pieces: readonly Piece[]): boolean => pieces.every((piece) => piece.text.trim() === "");

/** Collects a page's text in reading order, for formats whose files are not themselves text. Offsets refer to the collected text. */
export class PageText {
  #text: string[] = [];
  #length = 0;
  readonly page: number;

  constructor(page: number) {
    this.page = page;
  }

  get characters(): number {
    return this.#length;
  }

  /** What was taken last; empty before anything was. */
  get last(): string {
    return this.#text.at(-1) ?? "";
  }

  take(text: string): Piece {
    const piece = { text, page: this.page, start: this.#length };
    this.#text.push(text);
    this.#length += text.length;
    return piece;
  }

  /** Adds a line feed, which belongs to no element, between the text so far and what follows. */
  part(): void {
    if (this.#length > 0) this.take("\n");
  }
}
