// Evaluates and scores so that text and numbers are the same whatever else the machine does. Greedy text depends on the shape of
// the batch (measured), so this lane has its own context of exactly `width` sequences and decodes nothing else in it. Prompts
// are read one at a time. Every answering step has `width` rows, and the rows of finished items are idle. Each step uses the number
// of threads that is fastest at the moment, because results do not depend on that number, except in a step of one token (see
// `decode`).

import { createTextStream, type TextStream } from "../format/text-stream.ts";
import type { EvaluatedAnswer, Tokenizer, TopLogits } from "../generator.ts";
import type { BatchPart, NativeAdapter, NativeContext, NativeSampler } from "./binding.ts";
import { logSumExp } from "./sampling.ts";
import { commonPrefix } from "./slots.ts";
import type { ThreadChoice } from "./thread-choice.ts";
import { Turns } from "./turns.ts";

/** Number of rows that are scored before other work gets a turn. */
const rowsPerTurn = 32;

/** Maximum number of rows of logits per scoring step. A row takes half a megabyte with a large vocabulary. */
const scoredRows = 64;

export interface FixedLaneOptions {
  context: NativeContext;
  tokenizer: Tokenizer;
  turns: Turns;
  width: number;
  slotContext: number;
  /** Maximum number of tokens per step. */
  batch: number;
  /** Number of threads for a step of one token. It never changes. */
  threads: number;
  threadChoice: ThreadChoice;
  /** Returns the maximum number of threads now, which is lower while a run holds some. */
  threadsFree: () => number;
}

interface Row {
  sequence: number;
  /** Index of the item in its group; null for padding. */
  index: number | null;
  position: number;
  next: number;
  answer: EvaluatedAnswer;
  text: TextStream;
  open: boolean;
}

/** Time that a group has taken. */
interface Clock {
  /** Seconds of the steps that have ended. */
  seconds: number;
  /** When the current step began, in ms of the monotonic clock. */
  start: number;
}

/** Returns the seconds of a group up to now, inside a step. */
const secondsOf = ({ seconds, start }: Clock): number => seconds + (performance.now() - start) / 1000;

export class FixedLane {
  private readonly options: FixedLaneOptions;
  private readonly samplers: NativeSampler[];
  /** Gives the lane to one group or to some rows at a time. */
  private readonly uses = new Turns();

  constructor(options: FixedLaneOptions) {
    this.options = options;
    this.samplers = Array.from({ length: options.width }, () => options.context.openSampler());
  }

  /**
   * Answers prompts greedily, in groups of `width`, and reports each answer from item `startAt` on. Other work gets a turn after
   * each group. Rejects with the signal's reason if it is aborted. The caller must have checked the prompts.
   */
  async evaluate(
    adapter: NativeAdapter | null,
    request: {
      prompts: readonly (readonly number[])[];
      maxTokens: number;
      startAt: number;
      signal: AbortSignal;
      onItem: (index: number, answer: EvaluatedAnswer) => void;
    },
  ): Promise<void> {
    const { width } = this.options;
    // The borders of groups do not depend on `startAt`. A restart inside a group runs the whole group and reports its items from
    // `startAt` on.
    for (let first = request.startAt - (request.startAt % width); first < request.prompts.length; first += width) {
      const prompts = request.prompts.slice(first, first + width);
      const rows = await this.alone(adapter, () => this.group(prompts, request.maxTokens, request.signal));
      for (const row of rows)
        if (row.index !== null && first + row.index >= request.startAt) request.onItem(first + row.index, row.answer);
    }
  }

  /**
   * Returns ln p of each row's tokens from promptLength on, over the whole vocabulary, in nats. A prompt that consecutive rows share
   * is read once. Shared or not, a prompt is read in the same pieces, so the numbers are the same to the last bit.
   */
  async score(
    adapter: NativeAdapter | null,
    rows: readonly { tokens: readonly number[]; promptLength: number }[],
    signal: AbortSignal,
    onRow: (index: number) => void = () => {},
  ): Promise<Float64Array[]> {
    const scores: Float64Array[] = [];
    while (scores.length < rows.length)
      await this.alone(adapter, async () => {
        const end = scores.length + rowsPerTurn;
        let read: readonly number[] = [];
        do {
          const { tokens, promptLength } = rows[scores.length]!;
          // The last token of the prompt is read with the answer, because its logits are the first ones wanted.
          const before = tokens.slice(0, promptLength - 1);
          const isRead = before.length === read.length && commonPrefix(before, read) === read.length;
          const kept = isRead ? read.length : 0;
          scores.push(await this.scoreRow(tokens, promptLength, kept, signal));
          read = before;
          onRow(scores.length - 1);
        } while (scores.length < rows.length && (scores.length < end || !this.uses.wanted));
      });
    return scores;
  }

  /** Runs work that has the lane to itself, with the adapter and empty sequences. */
  private alone<T>(adapter: NativeAdapter | null, work: () => Promise<T>): Promise<T> {
    const { context, turns, width } = this.options;
    return this.uses.run(async () => {
      await turns.run(() => {
        for (let sequence = 0; sequence < width; sequence++) context.clear(sequence);
        context.setAdapter(adapter);
      });
      // Unset the adapter, because it may be disposed before this context.
      return work().finally(() => turns.run(() => context.setAdapter(null)));
    });
  }

  dispose(): void {
    for (const sampler of this.samplers) sampler.dispose();
  }

  /**
   * Decodes with the number of threads that is fastest. A step of a single token, however, always uses the same number, because
   * there the library splits the attention into one piece per thread and adds up the results.
   */
  private decode(kind: "read" | "answers", parts: readonly BatchPart[]): Promise<number[][]> {
    const { context, threads, threadChoice, threadsFree } = this.options;
    const decodeWith = (count: number): Promise<number[][]> => {
      context.setThreads(count);
      return context.decode(parts);
    };
    const tokens = parts.reduce((sum, part) => sum + part.tokens.length, 0);
    return tokens === 1 ? decodeWith(threads) : threadChoice.step(`lane ${kind}`, threadsFree(), tokens, decodeWith);
  }

  private async group(
    prompts: readonly (readonly number[])[],
    maxTokens: number,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    const { width, turns } = this.options;
    const clock: Clock = { seconds: 0, start: 0 };
    const timed = (work: () => Promise<void>): Promise<void> =>
      turns.run(async () => {
        signal.throwIfAborted();
        clock.start = performance.now();
        await work();
        clock.seconds = secondsOf(clock);
      });
    const rows = Array.from({ length: width }, (_, sequence) => newRow(sequence, sequence < prompts.length));
    for (const row of rows) if (row.index !== null) await this.read(row, prompts[row.index]!, maxTokens, clock, timed);
    while (rows.some((row) => row.open)) await timed(() => this.step(rows, maxTokens, clock));
    return rows;
  }

  private async read(
    row: Row,
    prompt: readonly number[],
    maxTokens: number,
    clock: Clock,
    timed: (work: () => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const { context, batch } = this.options;
    for (let at = 0; at < prompt.length; at += batch)
      await timed(async () => {
        if (at === 0) context.clear(row.sequence);
        const tokens = prompt.slice(at, at + batch);
        const last = at + tokens.length === prompt.length;
        const part = { sequence: row.sequence, position: at, tokens, logitsAt: last ? [tokens.length - 1] : [] };
        const [logits] = await this.decode("read", [part]);
        row.position = at + tokens.length;
        if (last) this.take(row, await this.samplers[row.sequence]!.top(logits![0]!), maxTokens, clock);
      });
  }

  private async step(rows: readonly Row[], maxTokens: number, clock: Clock): Promise<void> {
    const { context } = this.options;
    const parts = rows.map((row) => {
      if (row.open) return { sequence: row.sequence, position: row.position, tokens: [row.next], logitsAt: [0] };
      // An idle row decodes one token in an otherwise empty sequence, to keep the shape of the batch.
      context.clear(row.sequence);
      return { sequence: row.sequence, position: 0, tokens: [0], logitsAt: [0] };
    });
    const logits = await this.decode("answers", parts);
    const open = rows.filter((row) => row.open);
    const tops = await Promise.all(open.map((row) => this.samplers[row.sequence]!.top(logits[row.sequence]![0]!)));
    for (const [index, row] of open.entries()) {
      row.position++;
      this.take(row, tops[index]!, maxTokens, clock);
    }
  }

  private take(row: Row, top: TopLogits, maxTokens: number, clock: Clock): void {
    const { tokenizer, slotContext } = this.options;
    const token = top.tokens[0]!;
    const { answer } = row;
    answer.tokens.push(token);
    answer.steps.push({ logprob: top.logits[0]! - logSumExp(top.logits), top });
    const ends = tokenizer.eog.has(token);
    if (!ends) answer.text += row.text.push(tokenizer.bytesOf(token));
    row.next = token;
    row.open = !ends && answer.tokens.length < maxTokens && row.position < slotContext;
    if (row.open) return;
    answer.text += row.text.finish();
    answer.finishReason = ends ? "stop" : "length";
    answer.seconds = secondsOf(clock);
  }

  /** Scores one row, as in `score`. `kept`: number of its first tokens whose cells are kept from the row before. */
  private async scoreRow(
    tokens: readonly number[],
    promptLength: number,
    kept: number,
    signal: AbortSignal,
  ): Promise<Float64Array> {
    const { context, turns, batch } = this.options;
    const scores = new Float64Array(tokens.length - promptLength);
    // The last token is never decoded, because nothing follows it. Logits at position p give the probability of token p + 1.
    const end = tokens.length - 1;
    let at = await turns.run(() => {
      if (kept > 0 && context.cut(0, kept)) return kept;
      context.clear(0);
      return 0;
    });
    while (at < end) {
      const start = at;
      const before = promptLength - 1 - start;
      const size = Math.min(end - start, before > 0 ? Math.min(before, batch) : scoredRows);
      await turns.run(async () => {
        signal.throwIfAborted();
        const wanted = before > 0 ? [] : Array.from({ length: size }, (_, offset) => offset);
        const part = { sequence: 0, position: start, tokens: tokens.slice(start, start + size), logitsAt: wanted };
        const [rows] = await this.decode("read", [part]);
        await this.exactly(
          rows!,
          (offset) => tokens[start + offset + 1]!,
          (offset, value) => {
            scores[start + offset + 1 - promptLength] = value;
          },
        );
      });
      at += size;
    }
    return scores;
  }

  /** Passes the exact log-prob of each row's token to `put`. The samplers share the rows; each handles one row at a time. */
  private async exactly(
    rows: readonly number[],
    tokenOf: (offset: number) => number,
    put: (offset: number, logprob: number) => void,
  ): Promise<void> {
    const one = async (sampler: NativeSampler, first: number): Promise<void> => {
      for (let offset = first; offset < rows.length; offset += this.samplers.length)
        put(offset, (await sampler.exact(rows[offset]!, tokenOf(offset))).logprob);
    };
    await Promise.all(this.samplers.map(one));
  }
}

function newRow(sequence: number, used: boolean): Row {
  return {
    sequence,
    index: used ? sequence : null,
    position: 0,
    next: 0,
    answer: { text: "", tokens: [], steps: [], finishReason: "length", seconds: 0 },
    text: createTextStream([]),
    open: used,
  };
}
