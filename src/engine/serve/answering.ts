// The state of one request: the tokens drawn, the text that may be shown, and how it ended.
import { Failure } from "../../base/errors.ts";
import { createTextStream, type TextStream } from "../format/text-stream.ts";
import type {
  FinishReason,
  GeneratedToken,
  GenerateEnd,
  GenerateRequest,
  PromptToken,
  Tokenizer,
  TopLogits,
} from "../generator.ts";
import type { NativeAdapter, NativeGrammar, NativeSampler } from "./binding.ts";
import { createDraw, type Draw, logSumExp } from "./sampling.ts";

export interface Job extends Pick<GenerateRequest, "priority" | "owner"> {
  request: GenerateRequest;
  /** Id of the adapter; "" without one. Jobs with the same key form a group. */
  key: string;
  adapter: NativeAdapter | null;
  draw: Draw;
  text: TextStream;
  grammar: NativeGrammar | null;
  /** Whether the grammar applies to the next draw. */
  constrained: boolean;
  /** Tokens that are taken next, in place of drawn ones. */
  forced: number[];
  /** Log-probs of the prompt tokens read so far; empty unless the request has `onPrompt`. */
  scored: PromptToken[];
  /** Tokens that the reader has not yet taken. */
  out: GeneratedToken[];
  end: GenerateEnd | null;
  failure: Failure | null;
  /** Wakes the reader. */
  notify: () => void;
  /** Prompt tokens whose cells were reused instead of being read again. */
  cached: number;
  drawn: number;
  /** Whether the reader has stopped reading, or the request was aborted. */
  left: boolean;
  /** When the job took its slot, in ms of the monotonic clock. */
  startedAt: number;
}

const nobody: ReadonlySet<number> = new Set();

export function createJob(
  request: GenerateRequest,
  key: string,
  adapter: NativeAdapter | null,
  tokenizer: Tokenizer,
  openGrammar: (gbnf: string) => NativeGrammar,
): Job {
  const first = request.steer?.(null);
  return {
    request,
    key,
    adapter,
    priority: request.priority,
    owner: request.owner,
    draw: createDraw(request.sampling, request.prompt, request.ignoreEos ? tokenizer.eog : nobody),
    text: createTextStream(request.stopStrings),
    grammar: request.grammar === undefined ? null : openGrammar(request.grammar),
    constrained: first?.constrained ?? true,
    forced: [...(first?.take ?? [])],
    scored: [],
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

/**
 * Takes the next token of a job: the next of `job.forced`, or else one drawn from the logits of `row`. Adds it to `job.out`, and
 * returns it with the reason why the answer ends, if it does. `room`: whether the slot can hold another token.
 */
export async function takeToken(
  job: Job,
  row: number,
  sampler: NativeSampler,
  tokenizer: Tokenizer,
  room: boolean,
): Promise<{ token: number; ended: FinishReason | null }> {
  const { request } = job;
  const isForced = job.forced.length > 0;
  const { token, top } = isForced
    ? await including(job.forced.shift()!, row, sampler)
    : await drawn(job, row, sampler, tokenizer);
  const logZ = request.exact ? (await sampler.exact(row, token)).logZ : null;
  job.draw.accept(token);
  job.drawn++;
  const ends = tokenizer.eog.has(token);
  if (job.grammar !== null && job.constrained && !isForced && !ends) job.grammar.accept(token);
  const steering = request.steer?.(token);
  job.constrained = steering?.constrained ?? job.constrained;
  job.forced.push(...(steering?.take ?? []));
  const bytes = request.shown?.has(token) ? Buffer.from(tokenizer.pieceOf(token)) : tokenizer.bytesOf(token);
  let text = ends ? job.text.finish() : job.text.push(bytes);
  let ended: FinishReason | null = ends || job.text.stopped ? "stop" : null;
  if (ended === null && (job.drawn >= request.maxTokens || !room)) {
    text += job.text.finish();
    ended = "length";
  }
  const logit = top.logits[top.tokens.indexOf(token)]!;
  job.out.push({ token, text, logprob: logit - logSumExp(top.logits), top, logZ, isForced });
  return { token, ended };
}

async function drawn(
  job: Job,
  row: number,
  sampler: NativeSampler,
  tokenizer: Tokenizer,
): Promise<{ token: number; top: TopLogits }> {
  const top = await sampler.top(row);
  const { grammar, draw } = job;
  if (grammar === null) return { token: top.tokens[draw.pick(top, job.drawn)]!, top };
  // Before the grammar applies, the answer must not end. Once it applies, control tokens other than ends are refused, because
  // the grammar would match their text although readers do not see it.
  const allowed = job.constrained
    ? (token: number) => (tokenizer.bytesOf(token).length > 0 || tokenizer.eog.has(token)) && grammar.allows(token)
    : (token: number) => !tokenizer.eog.has(token);
  const picked = draw.pick(top, job.drawn, allowed);
  if (picked >= 0) return { token: top.tokens[picked]!, top };
  // None of the 64 kept tokens is allowed, so draw from the 64 best tokens that the grammar allows in the whole vocabulary. This
  // is rare, and slower.
  const legal = job.constrained ? await sampler.under(row, grammar) : top;
  const at = legal.tokens.length === 0 ? -1 : draw.pick(legal, job.drawn, allowed);
  if (at < 0) throw new Failure("inference_failed", "No token of the vocabulary can continue the grammar");
  return { token: legal.tokens[at]!, top: withLast(top, legal.tokens[at]!, legal.logits[at]!) };
}

/** Returns a token with the kept logits of its row. A token that is not among them replaces the last one. */
async function including(
  token: number,
  row: number,
  sampler: NativeSampler,
): Promise<{ token: number; top: TopLogits }> {
  const top = await sampler.top(row);
  if (top.tokens.includes(token)) return { token, top };
  const { logprob, logZ } = await sampler.exact(row, token);
  return { token, top: withLast(top, token, logprob + logZ) };
}

/** Returns a copy of `top` whose last token and logit are replaced by the given ones. */
function withLast(top: TopLogits, token: number, logit: number): TopLogits {
  const [tokens, logits] = [top.tokens.slice(), top.logits.slice()];
  tokens[tokens.length - 1] = token;
  logits[logits.length - 1] = logit;
  return { tokens, logits };
}

/** Adds the log-probs of prompt tokens to `job.scored`. The logits of `rows[i]` predict `tokens[i]`. */
export async function scorePrompt(
  job: Job,
  tokens: readonly number[],
  rows: readonly number[],
  sampler: NativeSampler,
): Promise<void> {
  if (job.scored.length === 0) job.scored.push({ token: job.request.prompt[0]!, step: null });
  for (const [index, token] of tokens.entries()) {
    const { top } = await including(token, rows[index]!, sampler);
    const { logprob, logZ } = await sampler.exact(rows[index]!, token);
    job.scored.push({ token, step: { top, logZ, logprob } });
  }
}

export function conclude(job: Job, ended: FinishReason | Failure): void {
  if (ended instanceof Failure) job.failure = ended;
  else
    job.end = {
      finishReason: ended,
      ...(job.text.stopString !== null && { stopString: job.text.stopString }),
      promptTokens: job.request.prompt.length,
      cachedTokens: job.cached,
      completionTokens: job.drawn,
    };
}
