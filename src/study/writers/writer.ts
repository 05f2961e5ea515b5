// The interface of writers, which propose spans of passages, phrase questions for them, and answer questions from a
// passage alone.
import type { Passage } from "../passages.ts";
import type { Target } from "../targets.ts";

/** A question that was written for a target. */
export interface Written {
  target: Target;
  question: string;
}

export interface Writer {
  /** Its name in the report. */
  name: string;
  /** Languages it was made for; empty if unknown. */
  languages: readonly string[];
  /**
   * Whether it is a teacher, which covers everything that a passage states, in its own words. A small writer covers
   * some of it and strays, so its questions must find the passage by the passage's own words.
   */
  isTeacher: boolean;
  /** Spans worth asking for, each verbatim from its passage. */
  propose(passages: readonly Passage[]): Promise<string[][]>;
  /** Questions for each target, unlike each other. */
  write(targets: readonly Target[]): Promise<string[][]>;
  /** The words that answer its question; null if it does not know them, and then the target's whole answer is used. */
  answerTo: ((target: Target, question: string) => string | null) | null;
  /** Mean log-likelihood of each question that it wrote, nats a token; null for a writer that cannot tell. */
  fluency: ((written: readonly Written[]) => Promise<number[]>) | null;
  /**
   * The answers of a reader who sees the passage alone; empty if the passage has no answer. Null for a writer that does
   * not read.
   */
  read: ((written: readonly Written[]) => Promise<string[]>) | null;
}

export interface SayOptions {
  maxTokens: number;
  temperature: number;
  seed: number;
}

/**
 * The model calls that writers and gates make. The caller that provides it caches the replies, so that a run killed
 * here asks nothing twice.
 */
export interface Speaker {
  /** The continuation of each prompt, up to the end of the text. */
  say(prompts: readonly string[], options: SayOptions): Promise<string[]>;
  /** The reply to each message, as a chat; empty if message and reply together exceed the context. */
  chat(messages: readonly string[], options: SayOptions): Promise<string[]>;
  /**
   * For every token of `text` after `prompt`: the offset in the text where it ends (characters), and its
   * log-probability, nats.
   */
  score(rows: readonly { prompt: string; text: string }[]): Promise<{ ends: number[]; logprobs: number[] }[]>;
}
