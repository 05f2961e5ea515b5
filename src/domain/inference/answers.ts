// Runs several choices concurrently and returns their output as one stream of pieces. All choices are aborted if one of
// them fails, if the client disconnects, or if nobody reads the pieces any more.
import { Failure } from "../../base/errors.ts";
import type { ConfidenceScore } from "../../confidence/calibration.ts";
import type { UncertainSpan } from "../../confidence/least-certain.ts";
import type { ThoughtMarks } from "../../engine/format/chat-format.ts";
import type { FinishReason, GeneratedToken, GenerateRequest, Generator, PromptToken } from "../../engine/generator.ts";
import type { NamedSource } from "./sources.ts";

/** An answer to be generated. */
export interface Choice
  extends Pick<GenerateRequest, "prompt" | "maxTokens" | "grammar" | "steer" | "shown" | "exact"> {
  /** Index of the prompt; choices of one prompt share it. */
  promptIndex: number;
  /** The question, as the client wrote it: in a chat, the user's last message. */
  question: string;
  /** How a thought is told from the answer proper; null if the client gets both as one text. */
  thought?: ThoughtForm | null;
  /** Whether the log-probs of the prompt are requested. */
  scoresPrompt?: boolean;
}

export interface ThoughtForm {
  marks: ThoughtMarks;
  /** Whether the prompt ends inside a thought. */
  isOpen: boolean;
}

/** Makes the listener of a choice. */
export type Listen = (question: string, thought?: ThoughtForm | null) => Listener;

/** What the choices of a request have in common. The seed is that of the first choice. */
export type Common = Pick<
  GenerateRequest,
  "model" | "sampling" | "stopStrings" | "ignoreEos" | "priority" | "owner" | "session"
>;

/** The score (0–100), its basis, and what else is known about the answer. */
export interface Confidence extends ConfidenceScore {
  drift: { p_value: number | null; reason: string | null };
  leastCertain: UncertainSpan | null;
  /** Null if the sources are not known. */
  sources: NamedSource[] | null;
}

/** Receives the tokens of one choice, including forced ones, and scores the answer at its end. */
export interface Listener {
  /** Called when the choice has got its slot. Its prompt is read from then on. */
  admitted?(): void;
  add(token: GeneratedToken): void;
  score(finishReason: FinishReason): Promise<Confidence | null>;
}

export interface ChoiceEnd {
  index: number;
  finishReason: Exclude<FinishReason, "aborted">;
  /** The stop string that ended the choice, if one did. */
  stopString: string | null;
  confidence: Confidence | null;
  cachedTokens: number;
}

/**
 * The pieces of a choice come in this order: the prompt if it is requested, the texts, the end. If `exact`, each text
 * comes with the tokens generated since the previous text.
 */
export type Piece =
  | { index: number; prompt: readonly PromptToken[] }
  | { index: number; text: string; tokens: readonly GeneratedToken[] }
  | { index: number; end: ChoiceEnd };

export interface Answers {
  /** Can be read only once. A reader that stops early aborts the choices. */
  pieces: AsyncGenerator<Piece, void, void>;
  /** Settles when all choices have ended, whether or not the pieces were read. */
  ended: Promise<void>;
  /** Number of tokens generated so far in all choices. */
  drawn(): number;
}

export function answer(
  generator: Generator,
  choices: readonly Choice[],
  common: Common,
  listen: Listen,
  signal: AbortSignal,
): Answers {
  const ending = new AbortController();
  const either = AbortSignal.any([signal, ending.signal]);
  const waiting: Piece[] = [];
  const counts = new Map<number, number>();
  let isOver = false;
  let news = Promise.withResolvers<void>();
  const tell = (piece: Piece): void => {
    waiting.push(piece);
    news.resolve();
  };
  const count = (index: number, tokens: number): void => void counts.set(index, tokens);

  const all = choices.map(async ({ promptIndex: _, question, thought, scoresPrompt = false, ...choice }, index) => {
    // Each choice has its own seed, so choices differ but are reproducible under the same request seed.
    const sampling = { ...common.sampling, seed: common.sampling.seed + index };
    const request = { ...common, ...choice, sampling, signal: either };
    try {
      await run(generator, index, request, scoresPrompt, listen(question, thought), tell, count);
    } catch (error) {
      ending.abort(error);
      throw error;
    }
  });
  const ended = Promise.allSettled(all).then((results) => {
    isOver = true;
    news.resolve();
    // Report the first failure: it caused the other choices to be aborted.
    if (results.some((result) => result.status === "rejected"))
      throw signal.aborted ? new Failure("cut_off") : either.reason;
  });
  ended.catch(() => {});

  async function* pieces(): AsyncGenerator<Piece, void, void> {
    try {
      while (!isOver || waiting.length > 0) {
        await news.promise;
        news = Promise.withResolvers();
        if (isOver) news.resolve();
        yield* waiting.splice(0);
      }
      await ended;
    } finally {
      ending.abort(new DOMException("The client no longer reads the answer", "AbortError"));
    }
  }
  const drawn = (): number => [...counts.values()].reduce((sum, tokens) => sum + tokens, 0);
  return { pieces: pieces(), ended, drawn };
}

async function run(
  generator: Generator,
  index: number,
  request: GenerateRequest,
  scoresPrompt: boolean,
  listener: Listener,
  tell: (piece: Piece) => void,
  count: (index: number, tokens: number) => void,
): Promise<void> {
  const onPrompt = (prompt: readonly PromptToken[]): void => tell({ index, prompt });
  const onSlot = (): void => listener.admitted?.();
  const tokens = generator.generate({ ...request, onSlot, ...(scoresPrompt && { onPrompt }) });
  let drawn = 0;
  let held: GeneratedToken[] = [];
  for (;;) {
    const next = await tokens.next();
    if (next.done) {
      const { finishReason, stopString = null, cachedTokens, completionTokens } = next.value;
      count(index, completionTokens);
      if (finishReason === "aborted") throw request.signal.reason;
      if (held.length > 0) tell({ index, text: "", tokens: held });
      const confidence = await listener.score(finishReason);
      tell({ index, end: { index, finishReason, stopString, confidence, cachedTokens } });
      return;
    }
    count(index, ++drawn);
    listener.add(next.value);
    if (request.exact) held.push(next.value);
    if (next.value.text === "") continue;
    tell({ index, text: next.value.text, tokens: held });
    held = [];
  }
}
