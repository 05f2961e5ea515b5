// The step loop of one base: continuous batching over a pool of seats. A step decodes one token of every answering seat of one
// adapter's group, and a bounded piece of the prompts that are still being read, in one batch.
//
//   waiting ──admit──► reading its prompt ──last piece──► answering ──end, stop string, length, abort──► idle (keeps its cells)
//
// Always true: a seat's cells were computed under one adapter; `cells` says what they hold; native calls happen inside a turn.
import { Failure } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { conclude, createJob, type Job, takeToken } from "./answering.ts";
import type { NativeAdapter, NativeContext, NativeSampler } from "./binding.ts";
import type { FinishReason, GeneratedToken, GenerateEnd, GenerateRequest, Tokenizer, TopLogits } from "./generator.ts";
import { commonPrefix, movesToAlign, seatBeside } from "./seats.ts";
import type { Turns } from "./turns.ts";
import { Waiting } from "./waiting.ts";

export interface BatcherOptions {
  context: NativeContext;
  tokenizer: Tokenizer;
  turns: Turns;
  seats: number;
  seatContext: number;
  /** Most tokens of a step. */
  batch: number;
  /** Most prompt tokens of a step in which others answer: what their next token may be late by. */
  prefill: number;
  queueLimit: number;
  /** Threads to decode with now: fewer while others hold some, since two pools on one core stand in each other's way. */
  threads: () => number;
  log: Log;
}

/** Steps a group keeps while other groups, or the evaluation lane, wait. */
const stepsPerTurn = 8;
/** Shorter prefixes are cheaper to read again than to look after. */
const leastReuse = 16;

/** The group's name: all requests of one adapter; "" is the base itself. */
export type AdapterKey = string;

interface Seat {
  id: number;
  job: Job | null;
  key: AdapterKey;
  owner: string;
  /** Tokens whose keys and values the sequence holds. */
  cells: number[];
  /** Tokens to decode next; from `at` on. */
  pending: readonly number[];
  at: number;
  /** Order of admission: prompts are read in that order. */
  turn: number;
  sampler: NativeSampler;
}

export class Batcher {
  private readonly options: BatcherOptions;
  private readonly seats: Seat[];
  private readonly waiting = new Waiting<Job>();
  private readonly drains = new Set<{ key: AdapterKey; resolve: () => void }>();
  private running = false;
  private admitted = 0;
  private group: AdapterKey = "";
  private groupSteps = 0;
  private adapterSet: AdapterKey = "";
  /** Moving mean of a request's seconds on its seat. */
  private meanSeconds = 1;

  constructor(options: BatcherOptions) {
    this.options = options;
    this.seats = Array.from({ length: options.seats }, (_, id) => ({
      id,
      job: null,
      key: "",
      owner: "",
      cells: [],
      pending: [],
      at: 0,
      turn: 0,
      sampler: options.context.openSampler(),
    }));
  }

  /** Throws engine_busy, inference_failed. The prompt was checked. */
  async *generate(
    request: GenerateRequest,
    key: AdapterKey,
    adapter: NativeAdapter | null,
  ): AsyncGenerator<GeneratedToken, GenerateEnd, void> {
    const job = this.submit(request, key, adapter);
    const leave = (): void => this.leave(job);
    request.signal.addEventListener("abort", leave);
    if (request.signal.aborted) leave();
    try {
      for (;;) {
        while (job.out.length > 0) yield job.out.shift()!;
        if (job.failure !== null) throw job.failure;
        if (job.end !== null) return job.end;
        await new Promise<void>((resolve) => {
          job.notify = resolve;
        });
      }
    } finally {
      request.signal.removeEventListener("abort", leave);
      leave();
    }
  }

  /** Resolves once no request of this adapter runs or waits. */
  async drain(key: AdapterKey): Promise<void> {
    if (this.busyWith(key)) await new Promise<void>((resolve) => this.drains.add({ key, resolve }));
  }

  /** Forgets what was computed under an adapter, so that it can be disposed. Inside a turn. */
  forget(key: AdapterKey): void {
    for (const seat of this.seats)
      if (seat.key === key && seat.job === null) {
        this.options.context.clear(seat.id);
        seat.cells = [];
      }
    if (this.adapterSet === key) {
      this.options.context.setAdapter(null);
      this.adapterSet = "";
    }
  }

  snapshot(): { seats: number; active: number; waiting: number } {
    return { seats: this.seats.length, active: this.active().length, waiting: this.waiting.size };
  }

  dispose(): void {
    for (const seat of this.seats) seat.sampler.dispose();
  }

  private active(): Seat[] {
    return this.seats.filter((seat) => seat.job !== null);
  }

  private busyWith(key: AdapterKey): boolean {
    return this.seats.some((seat) => seat.job?.key === key) || this.waiting.some((job) => job.key === key);
  }

  private submit(request: GenerateRequest, key: AdapterKey, adapter: NativeAdapter | null): Job {
    const free = this.seats.length - this.active().length;
    if (this.waiting.size >= this.options.queueLimit + free) {
      const seconds = Math.ceil((this.meanSeconds * (this.waiting.size + 1)) / this.seats.length);
      throw new Failure("engine_busy", undefined, { retryAfterSeconds: Math.min(60, Math.max(1, seconds)) });
    }
    const job = createJob(request, key, adapter, this.options.tokenizer);
    this.waiting.add(job);
    this.wake();
    return job;
  }

  private leave(job: Job): void {
    if (job.end !== null || job.failure !== null) return;
    job.left = true;
    if (this.waiting.remove(job)) this.conclude(job, "aborted");
  }

  private conclude(job: Job, ended: FinishReason | Failure): void {
    conclude(job, ended);
    job.notify();
    for (const drain of this.drains)
      if (!this.busyWith(drain.key)) {
        this.drains.delete(drain);
        drain.resolve();
      }
  }

  private wake(): void {
    if (this.running) return;
    this.running = true;
    void this.loop().finally(() => {
      this.running = false;
      if (this.waiting.size > 0 || this.active().length > 0) this.wake();
    });
  }

  private async loop(): Promise<void> {
    const { turns, context, threads } = this.options;
    while (this.waiting.size > 0 || this.active().length > 0)
      await turns.run(async () => {
        context.setThreads(threads());
        for (let steps = 0; steps < stepsPerTurn || !turns.wanted; steps++) {
          for (const seat of this.active()) if (seat.job!.left) this.free(seat, "aborted");
          this.admit();
          if (this.active().length === 0) return;
          await this.step();
        }
      });
  }

  /** Seats for those who wait. The last free seat is kept for people. */
  private admit(): void {
    for (;;) {
      const free = this.seats.filter((seat) => seat.job === null);
      if (free.length === 0) return;
      const job = this.waiting.take(free.length === 1 && this.seats.length > 1);
      if (job === null) return;
      const seat = this.seatFor(job, free);
      seat.job = job;
      seat.key = job.key;
      seat.owner = job.owner;
      seat.pending = job.request.prompt;
      seat.at = seat.cells.length;
      seat.turn = this.admitted++;
      seat.sampler.setBias(job.request.sampling.logitBias);
      job.cached = seat.at;
      job.startedAt = performance.now();
    }
  }

  /** The idle seat that holds the longest beginning of this prompt, of the same owner and adapter; else a fresh one. */
  private seatFor(job: Job, free: Seat[]): Seat {
    const { prompt } = job.request;
    let best: Seat | null = null;
    let longest = leastReuse - 1;
    for (const seat of free) {
      if (seat.key !== job.key || seat.owner !== job.owner) continue;
      // The last token is decoded in any case: its logits are wanted.
      const length = Math.min(commonPrefix(seat.cells, prompt), prompt.length - 1);
      if (length > longest) [best, longest] = [seat, length];
    }
    if (best !== null && (best.cells.length === longest || this.options.context.cut(best.id, longest))) {
      best.cells.length = longest;
      return best;
    }
    const members = this.active().filter((seat) => seat.key === job.key);
    const id = seatBeside(
      this.seats.length,
      members.map((seat) => seat.id),
      (at) => this.seats[at]!.job !== null,
    );
    const seat = this.seats[id]!;
    this.options.context.clear(seat.id);
    seat.cells = [];
    return seat;
  }

  private free(seat: Seat, ended: FinishReason | Failure): void {
    const job = seat.job!;
    seat.job = null;
    this.meanSeconds = 0.9 * this.meanSeconds + (0.1 * (performance.now() - job.startedAt)) / 1000;
    this.conclude(job, ended);
  }

  private async step(): Promise<void> {
    const key = this.nextGroup();
    const { context } = this.options;
    try {
      await this.align(key);
      const members = this.active().filter((seat) => seat.key === key);
      if (this.adapterSet !== key) {
        context.setAdapter(members[0]!.job!.adapter);
        this.adapterSet = key;
      }
      const sizes = this.share(members);
      const parts = members.map((seat) => {
        const size = sizes.get(seat)!;
        return {
          sequence: seat.id,
          position: seat.cells.length,
          tokens: seat.pending.slice(seat.at, seat.at + size),
          logitsAt: seat.at + size === seat.pending.length ? [size - 1] : [],
        };
      });
      const rows = await context.decode(parts);
      for (const [index, seat] of members.entries()) {
        seat.cells.push(...parts[index]!.tokens);
        seat.at += parts[index]!.tokens.length;
      }
      const drawing = [...members.entries()].filter(([index]) => rows[index]!.length > 0);
      const tops = await Promise.all(drawing.map(([index, seat]) => seat.sampler.top(rows[index]![0]!)));
      for (const [place, [, seat]] of drawing.entries()) this.deliver(seat, tops[place]!);
    } catch (cause) {
      this.failGroup(key, cause);
    }
  }

  /** The group in turn: it stays while it is alone, and for some steps when others wait. */
  private nextGroup(): AdapterKey {
    const keys = [...new Set(this.active().map((seat) => seat.key))].sort();
    if (keys.includes(this.group) && (keys.length === 1 || this.groupSteps < stepsPerTurn)) this.groupSteps++;
    else {
      this.group = keys.find((key) => key > this.group) ?? keys[0]!;
      this.groupSteps = 1;
    }
    return this.group;
  }

  private async align(key: AdapterKey): Promise<void> {
    const members = this.active().filter((seat) => seat.key === key);
    const moves = movesToAlign(
      this.seats.length,
      members.map((seat) => seat.id),
      (id) => this.seats[id]!.job !== null,
    );
    for (const [from, to] of moves) {
      const [mover, other] = [this.seats[from]!, this.seats[to]!];
      await this.options.context.move(from, to);
      other.cells = [];
      [this.seats[from], this.seats[to]] = [other, mover];
      [other.id, mover.id] = [from, to];
    }
  }

  /** Tokens of each seat in this step: one for who answers, the rest of the budget for prompts in the order they came. */
  private share(members: readonly Seat[]): Map<Seat, number> {
    const { batch, prefill } = this.options;
    const reading = members.filter((seat) => seat.pending.length - seat.at > 1).sort((a, b) => a.turn - b.turn);
    let budget = Math.min(reading.length < members.length ? prefill : batch, batch - members.length);
    const sizes = new Map<Seat, number>(members.map((seat) => [seat, 1]));
    for (const seat of reading) {
      // At least one token each, so that the ids of the batch stay a run.
      const size = Math.max(1, Math.min(seat.pending.length - seat.at, budget));
      sizes.set(seat, size);
      budget -= size;
    }
    return sizes;
  }

  private deliver(seat: Seat, top: TopLogits): void {
    const { tokenizer, seatContext } = this.options;
    const job = seat.job!;
    const { token, ended } = takeToken(job, top, tokenizer, seat.cells.length < seatContext);
    seat.pending = [token];
    seat.at = 0;
    if (ended === null) job.notify();
    else this.free(seat, ended);
  }

  private failGroup(key: AdapterKey, cause: unknown): void {
    this.options.log("error", "decode_failed", { key, error: cause });
    for (const seat of this.active().filter((seat) => seat.key === key)) {
      this.options.context.clear(seat.id);
      seat.cells = [];
      this.free(seat, new Failure("inference_failed", undefined, { cause }));
    }
  }
}
