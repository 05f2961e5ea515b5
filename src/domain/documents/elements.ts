// What a reader of some format makes of a file: its pages, and what stands on them in reading order. Nothing is cleaned yet.

/** Text that stands in the original as it is here. */
export interface Piece {
  text: string;
  /** From 0. */
  page: number;
  /** See Place. */
  start: number;
}

export type Element =
  | { type: "heading"; level: number; pieces: Piece[] }
  | { type: "paragraph"; pieces: Piece[] }
  /** `depth`: 0 in the outermost list. `mark`: «1.» where items are counted, else null. */
  | { type: "item"; depth: number; mark: string | null; pieces: Piece[] }
  /** `first`: begins a table. */
  | { type: "row"; first: boolean; cells: Piece[][] }
  /** Lines and spaces stay as they are. */
  | { type: "code"; pieces: Piece[] };

export interface Page {
  /** Of a sheet or a chapter. */
  label: string | null;
  characters: number;
}

export interface Warning {
  code: string;
  message: string;
}

export interface Reading {
  /** Null where the format has no pages. */
  pages: Page[] | null;
  elements: Element[];
  warnings: Warning[];
}

export const wordsOf = (pieces: readonly Piece[]): string => pieces.map((piece) => piece.text).join("");

export const isBlank = (pieces: readonly Piece[]): boolean => pieces.every((piece) => piece.text.trim() === "");

/** Text in reading order as it is gathered, for formats whose own files say nothing to a person: offsets count in it. */
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

  take(text: string): Piece {
    const piece = { text, page: this.page, start: this.#length };
    this.#text.push(text);
    this.#length += text.length;
    return piece;
  }

  /** Parts what follows from what stood before: a line feed, which belongs to neither. */
  part(): void {
    if (this.#length > 0) this.take("\n");
  }
}
