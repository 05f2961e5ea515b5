// A training row before tokenisation.
import type { Place } from "./passages.ts";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** Only the assistant's words count in the loss. */
export interface StudyRow {
  messages: Message[];
  /** Where in the document's text the row comes from; null for a row that comes from no document. */
  source: (Place & { document_id: string }) | null;
  /** How the row was made: writer, keywords, fragment, in_place, gap, cell, reverse, pair, asked, recall, replay, prose. */
  kind: string;
  /** The same value for all rows of one target. */
  target: string;
  /** The stage that trains the row, from 0. */
  stage: number;
}
