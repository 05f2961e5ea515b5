// What a format's reader makes of a file: its pages and their elements in reading order. Nothing is cleaned yet.

/** Text exactly as it is in the original. */
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

export interface Warning {
  code: string;
  message: string;
  /** The values in the message. */
  parameters?: Record<string, string | number>;
}

export interface Reading {
  /** Null where the format has no pages. */
  pages: Page[] | null;
  elements: Element[];
  warnings: Warning[];
}

export const wordsOf = (pieces: readonly Piece[]): string => pieces.map((piece) => piece.text).join("");

export const isBlank = (pieces: readonly Piece[]): boolean => pieces.every((piece) => piece.text.trim() === "");

/** Collects text in reading order, for formats whose files are not readable as they are. Offsets refer to this text. */
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

  /** Separates what follows from what came before, by a line feed that belongs to neither. */
  part(): void {
    if (this.#length > 0) this.take("\n");
  }
}
