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
  /** Name of the writer in the report. */
  name: string;
  /**
   * Whether the writer covers everything that a passage states, in its own words, as a teacher does. A small writer covers less and
   * often strays from the passage, so its questions must find the passage by the passage's own words.
   */
  isTeacher: boolean;
  /** For each passage, the spans worth asking for, verbatim from the passage. */
  propose(passages: readonly Passage[]): Promise<string[][]>;
  /** Questions for each target, unlike each other. */
  write(targets: readonly Target[]): Promise<string[][]>;
  /** The words that answer a question of this writer. Null if unknown; the target's whole answer is then used. */
  answerTo: ((target: Target, question: string) => string | null) | null;
  /** Mean log-likelihood of each question of this writer, in nats per token; null for a writer that cannot score its questions. */
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
 * The calls to a model that writers and gates make. The run that provides a speaker caches the replies, so that no call is repeated
 * after the run was killed.
 */
export interface Speaker {
  /** The continuation of each prompt, up to the end-of-text token. */
  say(prompts: readonly string[], options: SayOptions): Promise<string[]>;
  /** The reply to each message, as a chat; empty if message and reply together exceed the context. */
  chat(messages: readonly string[], options: SayOptions): Promise<string[]>;
  /**
   * For each row, and each token of `text` after `prompt`: the offset in characters at which the token ends in the text, and its
   * log-probability in nats.
   */
  score(rows: readonly { prompt: string; text: string }[]): Promise<{ ends: number[]; logprobs: number[] }[]>;
}
