// The seam of writers: who names spans of passages, phrases questions for them, and answers questions from a passage alone.
import type { Passage } from "../passages.ts";
import type { Target } from "../targets.ts";

/** A question that was written for a target. */
export interface Written {
  target: Target;
  question: string;
}

export interface Writer {
  /** As the report names it. */
  name: string;
  /** Languages it was made for; empty where that is not known. */
  languages: readonly string[];
  /**
   * A teacher: it names all that its passage states, in words of its own. A small writer names some, and wanders off: its questions must
   * be found by the passage's own words.
   */
  isTeacher: boolean;
  /** Spans worth asking for, each as it stands in its passage. */
  propose(passages: readonly Passage[]): Promise<string[][]>;
  /** Questions for each target, unlike each other. */
  write(targets: readonly Target[]): Promise<string[][]>;
  /** The words that answer its question, where it knows them; null: all that the target says does. */
  answerTo: ((target: Target, question: string) => string | null) | null;
  /** How likely it finds each question that it wrote, nats a token. null: it writes sentences, and does not tell. */
  fluency: ((written: readonly Written[]) => Promise<number[]>) | null;
  /** What a reader who sees the passage alone answers; empty where it says that the passage does not. null: it does not read. */
  read: ((written: readonly Written[]) => Promise<string[]>) | null;
}

export interface SayOptions {
  maxTokens: number;
  temperature: number;
  seed: number;
}

/** What writers and gates ask of a model. Who hands it in remembers the answers, so that a run killed here asks nothing twice. */
export interface Speaker {
  /** What comes after each prompt, up to the end of the text. */
  say(prompts: readonly string[], options: SayOptions): Promise<string[]>;
  /** What it answers to each message, as a chat; empty where message and answer together are longer than it can read. */
  chat(messages: readonly string[], options: SayOptions): Promise<string[]>;
  /** Of every token of `text` after `prompt`: where it ends in the text (characters) and its log-prob, nats. */
  score(rows: readonly { prompt: string; text: string }[]): Promise<{ ends: number[]; logprobs: number[] }[]>;
}
