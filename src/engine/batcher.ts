// The step loop of one base: continuous batching over a pool of seats. A step decodes one token of every answering seat of one
// adapter's group, and a bounded piece of the prompts that are still being read, in one batch.
//
//   waiting ──admit──► reading its prompt ──last piece──► answering ──end, stop string, length, abort──► idle (keeps its cells)
//
// Always true: a seat's cells were computed under one adapter; `cells` says what they hold; native calls happen inside a turn.
import { setImmediate } from "node:timers/promises";
import { Failure } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { conclude, createJob, type Job, scorePrompt, takeToken } from "./answering.ts";
import type { BatchPart, NativeAdapter, NativeContext, NativeGrammar, NativeSampler } from "./binding.ts";
import type { FinishReason, GeneratedToken, GenerateEnd, GenerateRequest, Tokenizer } from "./generator.ts";
import type { Held, ParkedPrompts } from "./parked.ts";
import { commonPrefix, movesToAlign, seatBeside } from "./seats.ts";
import { ThreadChoice } from "./thread-choice.ts";
import type { Turns } from "./turns.ts";
import { Waiting } from "./waiting.ts";

export interface BatcherOptions {
  context: NativeContext;
  tokenizer: Tokenizer;
  openGrammar: (gbnf: string) => NativeGrammar;
  /** Where prompts go that lose their seat, or null. */
  parked: ParkedPrompts | null;
  turns: Turns;
  seats: number;
  seatContext: number;
  /** Most tokens of a step. */
  batch: number;
  /** Most tokens that a step in which others answer reads for each prompt: what their next token may be late by. */
  prefill: number;
  queueLimit: number;
  /** Most threads to decode with now: fewer while others hold some, since two pools on one core stand in each other's way. */
  threads: () => number;
  log: Log;
}

/** Steps a group keeps while other groups, or the evaluation lane, wait. */
const stepsPerTurn = 8;
/** Shorter prefixes are cheaper to read again than to look after. */
const leastReuse = 16;
/** Most rows of logits of a step, for prompts whose log-probs are wanted: a row of a large vocabulary is half a megabyte. */
const scoredRows = 64;

/** The group's name: all requests of one adapter; "" is the base itself. */
export type AdapterKey = string;

interface Seat {
  id: number;
  job: Job | null;
  key: AdapterKey;
  owner: string;
  /** The conversation that its cells belong to, or null. */
  session: string | null;
  /** Tokens whose keys and values the sequence holds. */
  cells: number[];
  /** Tokens to decode next; from `at` on. */
  pending: readonly number[];
  at: number;
  /** Order of admission: prompts are read in that order. */
  turn: number;
  /** The seat whose first cells this one waits for, so many of them. */
  source: { seat: Seat; length: number } | null;
  sampler: NativeSampler;
}

export class Batcher {
  private readonly options: BatcherOptions;
  private readonly seats: Seat[];
  private readonly waiting = new Waiting<Job>();
  private readonly threadChoice = new ThreadChoice();
  private readonly drains = new Set<{ key: AdapterKey; resolve: () => void }>();
  private running = false;
  private admitted = 0;
  private group: AdapterKey = "";
  private groupSteps = 0;
  private adapterSet: AdapterKey = "";
  /** Whether the last step's seats stood apart. */
  private apart = false;
  /** Moving mean of a request's seconds on its seat. */
  private meanSeconds = 1;

  constructor(options: BatcherOptions) {
    this.options = options;
    this.seats = Array.from({ length: options.seats }, (_, id) => ({
      id,
      job: null,
      key: "",
      owner: "",
      session: null,
      cells: [],
      pending: [],
      at: 0,
      turn: 0,
      source: null,
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
    this.options.parked?.forget(key);
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
    this.options.parked?.forget();
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
    const job = createJob(request, key, adapter, this.options.tokenizer, this.options.openGrammar);
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
    const { turns } = this.options;
    while (this.waiting.size > 0 || this.active().length > 0)
      await turns.run(async () => {
        for (let steps = 0; steps < stepsPerTurn || !turns.wanted; steps++) {
          for (const seat of this.active()) if (seat.job!.left) this.free(seat, "aborted");
          await this.takeCopies();
          await this.admit();
          if (this.active().length === 0) return;
          await this.step();
          // What was drawn is written now: once the next step has the cores, each write takes several times as long, and holds it up.
          await setImmediate();
        }
      });
  }

  /** Seats for those who wait. The last free seat is kept for people. */
  private async admit(): Promise<void> {
    for (;;) {
      const free = this.seats.filter((seat) => seat.job === null);
      if (free.length === 0) return;
      const job = this.waiting.take(free.length === 1 && this.seats.length > 1);
      if (job === null) return;
      await this.place(job, free).catch((cause) => this.refuse(job, cause));
    }
  }

  /** A job whose seat could not be made ready: the others go on. */
  private refuse(job: Job, cause: unknown): void {
    this.options.log("error", "admission_failed", { error: cause });
    const failure = new Failure("inference_failed", undefined, { cause });
    const seat = this.seats.find((each) => each.job === job);
    if (seat === undefined) this.conclude(job, failure);
    else {
      this.options.context.clear(seat.id);
      seat.cells = [];
      this.free(seat, failure);
    }
  }

  /**
   * On the idle seat that holds the longest beginning of this prompt, of the same owner and adapter; else on a fresh one, which
   * gets such a beginning from where it was parked, or waits for a copy where a busy seat holds or reads it.
   */
  private async place(job: Job, free: Seat[]): Promise<void> {
    const { prompt, sampling, session = null } = job.request;
    const idle = this.longestPrefix(job, free);
    const busy = this.longestPrefix(job, this.active());
    const parked = this.parkedPrefix(job);
    const best = Math.max(idle?.length ?? 0, busy?.length ?? 0, parked?.length ?? 0);
    const seat = idle?.length === best ? idle.seat : this.freshSeat(job);
    const before: Held = { key: seat.key, owner: seat.owner, cells: seat.cells };
    // The job's own before anything is waited for: whoever asks in the meantime must find it.
    seat.job = job;
    seat.key = job.key;
    seat.owner = job.owner;
    seat.session = session;
    job.startedAt = performance.now();
    this.forgetOlder(seat);
    const kept = idle?.seat === seat ? idle.length : 0;
    if (before.cells.length >= leastReuse && kept < before.cells.length / 2)
      await this.options.parked?.keep(before, seat.id);
    if (kept > 0 && this.cutTo(seat, before.cells, kept)) seat.cells = prompt.slice(0, kept);
    else if (parked?.length === best && (await this.unpark(seat, parked))) seat.cells = prompt.slice(0, best);
    else {
      this.options.context.clear(seat.id);
      seat.cells = [];
      seat.source = busy;
    }
    seat.pending = prompt;
    seat.at = job.cached = seat.cells.length;
    seat.turn = this.admitted++;
    seat.sampler.setBias(sampling.logitBias);
  }

  /** Forgets all but the first cells of those that a seat holds. */
  private cutTo(seat: Seat, { length }: readonly number[], kept: number): boolean {
    return length === kept || this.options.context.cut(seat.id, kept);
  }

  private parkedPrefix({ key, owner, request }: Job): ReturnType<ParkedPrompts["find"]> {
    const { prompt, onPrompt } = request;
    const found = onPrompt === undefined ? this.options.parked?.find({ key, owner, cells: prompt }) : null;
    // The last token is decoded in any case: its logits are wanted.
    const length = Math.min(found?.length ?? 0, prompt.length - 1);
    return found && length >= leastReuse ? { ...found, length } : null;
  }

  private async unpark(seat: Seat, found: NonNullable<ReturnType<ParkedPrompts["find"]>>): Promise<boolean> {
    const { parked, length } = found;
    return (await this.options.parked!.restore(parked, seat.id)) && this.cutTo(seat, parked.cells, length);
  }

  /** Beside its group where it can be, and not in the place of a conversation that goes on while there is another. */
  private freshSeat(job: Job): Seat {
    const members = this.active().filter((seat) => seat.key === job.key);
    const ids = members.map((seat) => seat.id);
    const isTaken = (id: number): boolean => this.seats[id]!.job !== null;
    const free = seatBeside(this.seats.length, ids, (id) => isTaken(id) || this.isKept(id));
    if (free >= 0) return this.seats[free]!;
    // All hold conversations: the one that was quiet for longest makes room.
    return this.seats.filter((seat) => seat.job === null).sort((a, b) => a.turn - b.turn)[0]!;
  }

  /** A conversation that begins anew elsewhere leaves nothing behind that is worth keeping. */
  private forgetOlder({ id, session, owner }: Seat): void {
    if (session === null) return;
    for (const seat of this.seats)
      if (seat.id !== id && seat.job === null && seat.session === session && seat.owner === owner) seat.session = null;
  }

  private isKept(id: number): boolean {
    const { session, cells } = this.seats[id]!;
    return session !== null && cells.length > 0;
  }

  private longestPrefix(job: Job, among: readonly Seat[]): { seat: Seat; length: number } | null {
    const { prompt, onPrompt } = job.request;
    if (onPrompt !== undefined) return null;
    let best: { seat: Seat; length: number } | null = null;
    for (const seat of among) {
      if (seat.key !== job.key || seat.owner !== job.owner) continue;
      let length = commonPrefix(seat.cells, prompt);
      // What a busy seat is still to read. A cell of an answer comes as late as the answer does, and is not waited for.
      if (seat.job !== null && length === seat.cells.length && seat.source === null)
        length += commonPrefix(seat.pending.slice(seat.at), prompt.slice(length));
      // The last token is decoded in any case: its logits are wanted.
      length = Math.min(length, prompt.length - 1);
      if (length >= leastReuse && length > (best?.length ?? 0)) best = { seat, length };
    }
    return best;
  }

  /** Cells for the seats that wait for another's: once it has them, or will not get them any more. */
  private async takeCopies(): Promise<void> {
    for (const seat of this.active()) {
      if (seat.source === null) continue;
      const { seat: source, length } = seat.source;
      if (source.job !== null && source.cells.length < length) continue;
      seat.source = null;
      await this.copy(source, seat, length).catch((cause) => this.refuse(seat.job!, cause));
    }
  }

  private async copy(source: Seat, seat: Seat, length: number): Promise<void> {
    const { context } = this.options;
    const { prompt } = seat.job!.request;
    const held = Math.min(length, commonPrefix(source.cells, prompt));
    await context.copy(source.id, seat.id);
    if (source.cells.length === held || context.cut(seat.id, held)) seat.cells = prompt.slice(0, held);
    else context.clear(seat.id);
    seat.at = seat.job!.cached = seat.cells.length;
  }

  private free(seat: Seat, ended: FinishReason | Failure): void {
    const job = seat.job!;
    seat.job = null;
    seat.source = null;
    this.meanSeconds = 0.9 * this.meanSeconds + (0.1 * (performance.now() - job.startedAt)) / 1000;
    this.conclude(job, ended);
  }

  private async step(): Promise<void> {
    const key = this.nextGroup();
    const { context } = this.options;
    try {
      await this.align(key);
      const members = this.reading(key);
      if (this.adapterSet !== key) {
        context.setAdapter(members[0]!.job!.adapter);
        this.adapterSet = key;
      }
      const sizes = this.share(members);
      const parts = members.map((seat) => {
        const size = sizes.get(seat)!;
        const last = seat.at + size === seat.pending.length;
        const all = seat.job!.request.onPrompt !== undefined && seat.job!.drawn === 0;
        return {
          sequence: seat.id,
          position: seat.cells.length,
          tokens: seat.pending.slice(seat.at, seat.at + size),
          logitsAt: all ? Array.from({ length: size }, (_, at) => at) : last ? [size - 1] : [],
        };
      });
      const rows = await this.decode(parts);
      for (const [index, seat] of members.entries()) {
        seat.cells.push(...parts[index]!.tokens);
        seat.at += parts[index]!.tokens.length;
      }
      const drawing = [...members.entries()].filter(([index]) => rows[index]!.length > 0);
      await Promise.all(drawing.map(([index, seat]) => this.advance(seat, rows[index]!)));
    } catch (cause) {
      this.failGroup(key, cause);
    }
  }

  private async decode(parts: readonly BatchPart[]): Promise<number[][]> {
    const { context, threads } = this.options;
    const tokens = parts.reduce((sum, part) => sum + part.tokens.length, 0);
    // The more answers at once, the less each costs; of prompts a token costs about the same, whatever is read.
    const kind = tokens === parts.length ? `${tokens} answers` : "prompts";
    return this.threadChoice.step(kind, threads(), tokens, (chosen) => {
      context.setThreads(chosen);
      return context.decode(parts);
    });
  }

  /** Seats of a group that take part in its next step. */
  private reading(key: AdapterKey): Seat[] {
    return this.active().filter((seat) => seat.key === key && seat.source === null);
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
    const ids = this.reading(key).map((seat) => seat.id);
    const isTaken = (id: number): boolean => this.seats[id]!.job !== null;
    const around = movesToAlign(this.seats.length, ids, (id) => isTaken(id) || this.isKept(id));
    // A batch in two pieces costs every step; a conversation read anew costs once.
    const moves = around.length > 0 ? around : movesToAlign(this.seats.length, ids, isTaken);
    // Whoever was answered often asks again at once, and gets the seat that is free: one step waits for that.
    this.apart = moves.length > 0 && !this.apart;
    if (this.apart) return;
    for (const [from, to] of moves) {
      const [mover, other] = [this.seats[from]!, this.seats[to]!];
      if (other.cells.length >= leastReuse) await this.options.parked?.keep(other, to);
      await this.options.context.move(from, to);
      other.cells = [];
      [this.seats[from], this.seats[to]] = [other, mover];
      [other.id, mover.id] = [from, to];
    }
  }

  /**
   * Tokens of each seat in this step: one for who answers, the rest of the budget for prompts in the order they came. The more
   * wait for their first token, the more is read: one new prompt hardly holds up those who answer, and many wait for few.
   */
  private share(members: readonly Seat[]): Map<Seat, number> {
    const { batch, prefill } = this.options;
    const reading = members.filter((seat) => seat.pending.length - seat.at > 1).sort((a, b) => a.turn - b.turn);
    const most = reading.length < members.length ? prefill * reading.length : batch;
    let budget = Math.min(most, batch - members.length);
    const sizes = new Map<Seat, number>(members.map((seat) => [seat, 1]));
    let rows = scoredRows;
    for (const seat of reading) {
      const isScored = seat.job!.request.onPrompt !== undefined;
      // At least one token each, so that the ids of the batch stay a run.
      const size = Math.max(1, Math.min(seat.pending.length - seat.at, budget, isScored ? rows : budget));
      sizes.set(seat, size);
      budget -= size;
      if (isScored) rows -= size;
    }
    return sizes;
  }

  /** What the rows of a step say: log-probs of the prompt where they are wanted, and the next token once it is read. */
  private async advance(seat: Seat, rows: readonly number[]): Promise<void> {
    const { tokenizer, seatContext } = this.options;
    const { sampler } = seat;
    const job = seat.job!;
    const { prompt, onPrompt, maxTokens } = job.request;
    const read = seat.cells.length;
    try {
      if (onPrompt !== undefined && job.drawn === 0) {
        await scorePrompt(job, prompt.slice(read - rows.length + 1, read + 1), rows, sampler);
        if (read < prompt.length) return;
        onPrompt(job.scored);
        job.scored = [];
      }
      if (maxTokens === 0) return this.free(seat, "length");
      const { token, ended } = await takeToken(job, rows.at(-1)!, sampler, tokenizer, read < seatContext);
      seat.pending = [token];
      seat.at = 0;
      if (ended === null) job.notify();
      else this.free(seat, ended);
    } catch (cause) {
      // One answer's own trouble, such as a grammar that no token continues: the others of the step go on.
      this.options.log("error", "draw_failed", { error: cause });
      this.free(seat, new Failure("inference_failed", undefined, { cause }));
    }
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
