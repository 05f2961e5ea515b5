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
  /** How it was made: writer, keywords, fragment, in_place, gap, cell, reverse, pair, asked, recall, replay, prose. */
  kind: string;
  /** Rows of one target share this. */
  target: string;
  /** The stage that trains it, from 0. */
  stage: number;
}
