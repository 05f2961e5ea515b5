// One request on its way: what it has drawn, what of it may be shown, and how it ended.
import { Failure } from "../base/errors.ts";
import type { NativeAdapter } from "./binding.ts";
import type { FinishReason, GeneratedToken, GenerateEnd, GenerateRequest, Tokenizer, TopLogits } from "./generator.ts";
import { createDraw, type Draw, logSumExp } from "./sampling.ts";
import { createTextStream, type TextStream } from "./text-stream.ts";

export interface Job extends Pick<GenerateRequest, "priority" | "owner"> {
  request: GenerateRequest;
  /** The adapter's group. */
  key: string;
  adapter: NativeAdapter | null;
  draw: Draw;
  text: TextStream;
  /** Drawn and not yet read. */
  out: GeneratedToken[];
  end: GenerateEnd | null;
  failure: Failure | null;
  /** Wakes the reader. */
  notify: () => void;
  /** Prompt tokens that were not read again. */
  cached: number;
  drawn: number;
  /** The reader has gone. */
  left: boolean;
  /** Milliseconds of the monotonic clock. */
  startedAt: number;
}

const nobody: ReadonlySet<number> = new Set();

export function createJob(
  request: GenerateRequest,
  key: string,
  adapter: NativeAdapter | null,
  tokenizer: Tokenizer,
): Job {
  return {
    request,
    key,
    adapter,
    priority: request.priority,
    owner: request.owner,
    draw: createDraw(request.sampling, request.prompt, request.ignoreEos ? tokenizer.eog : nobody),
    text: createTextStream(request.stopStrings),
    out: [],
    end: null,
    failure: null,
    notify: () => {},
    cached: 0,
    drawn: 0,
    left: false,
    startedAt: 0,
  };
}

/** Draws the next token of a job. room: whether its seat can hold one more. */
export function takeToken(
  job: Job,
  top: TopLogits,
  tokenizer: Tokenizer,
  room: boolean,
): { token: number; ended: FinishReason | null } {
  const picked = job.draw.pick(top, job.drawn);
  const token = top.tokens[picked]!;
  job.draw.accept(token);
  job.drawn++;
  const ends = tokenizer.eog.has(token);
  let text = ends ? job.text.finish() : job.text.push(tokenizer.bytesOf(token));
  let ended: FinishReason | null = ends || job.text.stopped ? "stop" : null;
  if (ended === null && (job.drawn >= job.request.maxTokens || !room)) {
    text += job.text.finish();
    ended = "length";
  }
  job.out.push({ token, text, logprob: top.logits[picked]! - logSumExp(top.logits), top });
  return { token, ended };
}

export function conclude(job: Job, ended: FinishReason | Failure): void {
  if (ended instanceof Failure) job.failure = ended;
  else
    job.end = {
      finishReason: ended,
      promptTokens: job.request.prompt.length,
      cachedTokens: job.cached,
      completionTokens: job.drawn,
    };
}
