// The step loop of one base: continuous batching over a pool of slots. A step serves the group of slots of one adapter. In one
// batch, it decodes one token of every slot that is answering, and a bounded piece of the prompts that are still being read.
//
//   waiting ──admit──► reading its prompt ──last piece──► answering ──end, stop string, length, abort──► idle (keeps its cells)
//
// Invariants: a slot's cells were computed under one adapter; `cells` lists their tokens; native calls run inside a turn.
import { setImmediate } from "node:timers/promises";
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { FinishReason, GeneratedToken, GenerateEnd, GenerateRequest, Tokenizer } from "../generator.ts";
import { conclude, createJob, type Job, scorePrompt, takeToken } from "./answering.ts";
import type { BatchPart, NativeAdapter, NativeContext, NativeGrammar, NativeSampler } from "./binding.ts";
import type { Held, OffloadedPrompts } from "./offloaded.ts";
import { commonPrefix, movesToAlign, slotBeside } from "./slots.ts";
import { ThreadChoice } from "./thread-choice.ts";
import type { Turns } from "./turns.ts";
import { Waiting } from "./waiting.ts";

export interface BatcherOptions {
  context: NativeContext;
  tokenizer: Tokenizer;
  openGrammar: (gbnf: string) => NativeGrammar;
  /** Keeps prompts that lost their slot; null if such prompts are not kept. */
  offloaded: OffloadedPrompts | null;
  turns: Turns;
  slots: number;
  slotContext: number;
  /** Maximum number of tokens per step. */
  batch: number;
  /**
   * While other slots answer, a step reads at most this many prompt tokens times the number of prompts being read. This limits how
   * long the next tokens of the answers are delayed.
   */
  prefill: number;
  queueLimit: number;
  /**
   * Returns the maximum number of threads to decode with now. There are fewer while a run holds some, because two thread pools on
   * one core slow each other down.
   */
  threads: () => number;
  log: Log;
}

/** Maximum number of steps in a row of one group while other groups wait, and of all groups while others wait for the turn. */
const stepsPerTurn = 8;
/** Prefixes shorter than this are cheaper to read again than to reuse. */
const leastReuse = 16;
/**
 * Maximum number of rows of logits per step for prompts whose log-probs are wanted. A row takes half a megabyte with a large
 * vocabulary.
 */
const scoredRows = 64;

/** Id of the adapter, which names a group of requests; "" for the base without an adapter. */
export type AdapterKey = string;

interface Slot {
  id: number;
  job: Job | null;
  key: AdapterKey;
  owner: string;
  /** The conversation that the cells belong to; null if the cells need not be kept. */
  session: string | null;
  /** Tokens whose keys and values the sequence holds. */
  cells: number[];
  /** Tokens to decode, from index `at` on. */
  pending: readonly number[];
  at: number;
  /** Place in the order of admission, in which prompts are read. */
  turn: number;
  /** The slot whose first `length` cells will be copied to this slot; null if none will be. */
  source: { slot: Slot; length: number } | null;
  sampler: NativeSampler;
}

export class Batcher {
  private readonly options: BatcherOptions;
  private readonly slots: Slot[];
  private readonly waiting = new Waiting<Job>();
  private readonly threadChoice = new ThreadChoice();
  private readonly drains = new Set<{ key: AdapterKey; resolve: () => void }>();
  private running = false;
  private admitted = 0;
  private group: AdapterKey = "";
  private groupSteps = 0;
  private adapterSet: AdapterKey = "";
  /** Whether the last step ran although the ids of its slots were not consecutive, because a move was put off. */
  private apart = false;
  /** Moving mean of the seconds for which a request holds its slot. */
  private meanSeconds = 1;

  constructor(options: BatcherOptions) {
    this.options = options;
    this.slots = Array.from({ length: options.slots }, (_, id) => ({
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

  /**
   * Yields the tokens of a request and returns how it ended. Throws engine_busy, inference_failed, or validation for a grammar that
   * the library rejects. The caller must have checked the prompt.
   */
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

  /** Resolves once no request of this adapter is running or waiting. */
  async drain(key: AdapterKey): Promise<void> {
    if (this.busyWith(key)) await new Promise<void>((resolve) => this.drains.add({ key, resolve }));
  }

  /** Clears everything that was computed under an adapter, so that the adapter can be disposed. Call it inside a turn, after `drain`. */
  forget(key: AdapterKey): void {
    for (const slot of this.slots)
      if (slot.key === key && slot.job === null) {
        this.options.context.clear(slot.id);
        slot.cells = [];
      }
    this.options.offloaded?.forget(key);
    if (this.adapterSet === key) {
      this.options.context.setAdapter(null);
      this.adapterSet = "";
    }
  }

  snapshot(): { slots: number; active: number; waiting: number } {
    return { slots: this.slots.length, active: this.active().length, waiting: this.waiting.size };
  }

  dispose(): void {
    for (const slot of this.slots) slot.sampler.dispose();
    this.options.offloaded?.forget();
  }

  private active(): Slot[] {
    return this.slots.filter((slot) => slot.job !== null);
  }

  private busyWith(key: AdapterKey): boolean {
    return this.slots.some((slot) => slot.job?.key === key) || this.waiting.some((job) => job.key === key);
  }

  private submit(request: GenerateRequest, key: AdapterKey, adapter: NativeAdapter | null): Job {
    const free = this.slots.length - this.active().length;
    if (this.waiting.size >= this.options.queueLimit + free) {
      const seconds = Math.ceil((this.meanSeconds * (this.waiting.size + 1)) / this.slots.length);
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
          for (const slot of this.active()) if (slot.job!.left) this.free(slot, "aborted");
          await this.takeCopies();
          await this.admit();
          if (this.active().length === 0) return;
          await this.step();
          // Let the tokens be written to clients now. While a step has the cores, each write takes several times as long and
          // delays the step.
          await setImmediate();
        }
      });
  }

  /** Gives free slots to waiting jobs. If there are several slots, the last free one is kept for interactive requests. */
  private async admit(): Promise<void> {
    for (;;) {
      const free = this.slots.filter((slot) => slot.job === null);
      if (free.length === 0) return;
      const job = this.waiting.take(free.length === 1 && this.slots.length > 1);
      if (job === null) return;
      await this.place(job, free).catch((cause) => this.refuse(job, cause));
    }
  }

  /** Ends a job with a failure because its slot could not be prepared. The other jobs go on. */
  private refuse(job: Job, cause: unknown): void {
    this.options.log("error", "admission_failed", { error: cause });
    const failure = new Failure("inference_failed", undefined, { cause });
    const slot = this.slots.find((each) => each.job === job);
    if (slot === undefined) this.conclude(job, failure);
    else {
      this.options.context.clear(slot.id);
      slot.cells = [];
      this.free(slot, failure);
    }
  }

  /**
   * Gives a job the idle slot that holds the longest prefix of its prompt, of the same owner and adapter. If a longer prefix is
   * held elsewhere, or none is held at all, the job gets a fresh slot. The prefix is then restored from an offloaded prompt, or
   * copied later from a busy slot that holds it or is reading it. If it cannot be restored, the next longest prefix is copied.
   */
  private async place(job: Job, free: Slot[]): Promise<void> {
    const { prompt, sampling, session = null } = job.request;
    const idle = this.longestPrefix(job, free);
    const busy = this.longestPrefix(job, this.active());
    const offloaded = this.offloadedPrefix(job);
    const best = Math.max(idle?.length ?? 0, busy?.length ?? 0, offloaded?.length ?? 0);
    const slot = idle?.length === best ? idle.slot : this.freshSlot(job, idle?.slot ?? null);
    const before: Held = { key: slot.key, owner: slot.owner, cells: slot.cells };
    // Assign the job before the first await, because code that runs in the meantime must find the job on its slot.
    slot.job = job;
    slot.key = job.key;
    slot.owner = job.owner;
    slot.session = session;
    job.startedAt = performance.now();
    job.request.onSlot?.();
    this.forgetOlder(slot);
    const kept = idle?.slot === slot && idle.length === best ? idle.length : 0;
    if (before.cells.length >= leastReuse && kept < before.cells.length / 2)
      await this.options.offloaded?.keep(before, slot.id);
    if (kept > 0 && this.cutTo(slot, before.cells, kept)) slot.cells = prompt.slice(0, kept);
    else if (offloaded?.length === best && (await this.reload(slot, offloaded))) slot.cells = prompt.slice(0, best);
    else {
      this.options.context.clear(slot.id);
      slot.cells = [];
      const isIdleBest = idle !== null && idle.slot !== slot && idle.length >= (busy?.length ?? 0);
      if (isIdleBest) await this.copy(idle.slot, slot, idle.length);
      else slot.source = busy;
    }
    slot.pending = prompt;
    slot.at = job.cached = slot.cells.length;
    slot.turn = this.admitted++;
    slot.sampler.setBias(sampling.logitBias);
  }

  /** Removes all but the first `kept` cells of a slot. Returns false if the model cannot remove part of a sequence. */
  private cutTo(slot: Slot, { length }: readonly number[], kept: number): boolean {
    return length === kept || this.options.context.cut(slot.id, kept);
  }

  private offloadedPrefix({ key, owner, request }: Job): ReturnType<OffloadedPrompts["find"]> {
    const { prompt, onPrompt } = request;
    const found = onPrompt === undefined ? this.options.offloaded?.find({ key, owner, cells: prompt }) : null;
    // The last token is always decoded, because its logits are needed.
    const length = Math.min(found?.length ?? 0, prompt.length - 1);
    return found && length >= leastReuse ? { ...found, length } : null;
  }

  private async reload(slot: Slot, found: NonNullable<ReturnType<OffloadedPrompts["find"]>>): Promise<boolean> {
    const { offloaded, length } = found;
    return (await this.options.offloaded!.restore(offloaded, slot.id)) && this.cutTo(slot, offloaded.cells, length);
  }

  /**
   * Returns a free slot, next to the job's group if possible. A slot that holds a conversation is taken only if there is no other,
   * and so is `shorter`, which holds a shorter prefix of the prompt.
   */
  private freshSlot(job: Job, shorter: Slot | null): Slot {
    const members = this.active().filter((slot) => slot.key === job.key);
    const ids = members.map((slot) => slot.id);
    const isTaken = (id: number): boolean => this.slots[id]!.job !== null;
    const free = slotBeside(this.slots.length, ids, (id) => isTaken(id) || this.isKept(id) || id === shorter?.id);
    if (free >= 0) return this.slots[free]!;
    if (shorter !== null && !this.isKept(shorter.id)) return shorter;
    // All free slots hold conversations, so take the slot whose last job was admitted longest ago.
    return this.slots.filter((slot) => slot.job === null).sort((a, b) => a.turn - b.turn)[0]!;
  }

  /** Marks the older idle slots of a slot's conversation as no longer to be kept. */
  private forgetOlder({ id, session, owner }: Slot): void {
    if (session === null) return;
    for (const slot of this.slots)
      if (slot.id !== id && slot.job === null && slot.session === session && slot.owner === owner) slot.session = null;
  }

  private isKept(id: number): boolean {
    const { session, cells } = this.slots[id]!;
    return session !== null && cells.length > 0;
  }

  private longestPrefix(job: Job, among: readonly Slot[]): { slot: Slot; length: number } | null {
    const { prompt, onPrompt } = job.request;
    if (onPrompt !== undefined) return null;
    let best: { slot: Slot; length: number } | null = null;
    for (const slot of among) {
      if (slot.key !== job.key || slot.owner !== job.owner) continue;
      let length = commonPrefix(slot.cells, prompt);
      // Add the tokens that a busy slot is about to decode: the rest of its prompt, or the last token of its answer.
      if (slot.job !== null && length === slot.cells.length && slot.source === null)
        length += commonPrefix(slot.pending.slice(slot.at), prompt.slice(length));
      // The last token is always decoded, because its logits are needed.
      length = Math.min(length, prompt.length - 1);
      if (length >= leastReuse && length > (best?.length ?? 0)) best = { slot, length };
    }
    return best;
  }

  /** Copies cells to each slot that waits for those of another slot, once that slot has computed them or its job has ended. */
  private async takeCopies(): Promise<void> {
    for (const slot of this.active()) {
      if (slot.source === null) continue;
      const { slot: source, length } = slot.source;
      if (source.job !== null && source.cells.length < length) continue;
      slot.source = null;
      await this.copy(source, slot, length).catch((cause) => this.refuse(slot.job!, cause));
    }
  }

  private async copy(source: Slot, slot: Slot, length: number): Promise<void> {
    const { context } = this.options;
    const { prompt } = slot.job!.request;
    const held = Math.min(length, commonPrefix(source.cells, prompt));
    await context.copy(source.id, slot.id);
    if (source.cells.length === held || context.cut(slot.id, held)) slot.cells = prompt.slice(0, held);
    else context.clear(slot.id);
    slot.at = slot.job!.cached = slot.cells.length;
  }

  private free(slot: Slot, ended: FinishReason | Failure): void {
    const job = slot.job!;
    slot.job = null;
    slot.source = null;
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
      const parts = members.map((slot) => {
        const size = sizes.get(slot)!;
        const last = slot.at + size === slot.pending.length;
        const all = slot.job!.request.onPrompt !== undefined && slot.job!.drawn === 0;
        return {
          sequence: slot.id,
          position: slot.cells.length,
          tokens: slot.pending.slice(slot.at, slot.at + size),
          logitsAt: all ? Array.from({ length: size }, (_, at) => at) : last ? [size - 1] : [],
        };
      });
      const rows = await this.decode(parts);
      for (const [index, slot] of members.entries()) {
        slot.cells.push(...parts[index]!.tokens);
        slot.at += parts[index]!.tokens.length;
      }
      const drawing = [...members.entries()].filter(([index]) => rows[index]!.length > 0);
      await Promise.all(drawing.map(([index, slot]) => this.advance(slot, rows[index]!)));
    } catch (cause) {
      this.failGroup(key, cause);
    }
  }

  private async decode(parts: readonly BatchPart[]): Promise<number[][]> {
    const { context, threads } = this.options;
    const tokens = parts.reduce((sum, part) => sum + part.tokens.length, 0);
    // Steps are timed by kind: a token of an answer costs less the more answers share the step, whereas a prompt token costs about
    // the same in any step.
    const kind = tokens === parts.length ? `${tokens} answers` : "prompts";
    return this.threadChoice.step(kind, threads(), tokens, (chosen) => {
      context.setThreads(chosen);
      return context.decode(parts);
    });
  }

  /** The slots of a group that take part in the group's next step. */
  private reading(key: AdapterKey): Slot[] {
    return this.active().filter((slot) => slot.key === key && slot.source === null);
  }

  /** Chooses the group to run next. The current group goes on while it is the only one, and for up to `stepsPerTurn` steps otherwise. */
  private nextGroup(): AdapterKey {
    const keys = [...new Set(this.active().map((slot) => slot.key))].sort();
    if (keys.includes(this.group) && (keys.length === 1 || this.groupSteps < stepsPerTurn)) this.groupSteps++;
    else {
      this.group = keys.find((key) => key > this.group) ?? keys[0]!;
      this.groupSteps = 1;
    }
    return this.group;
  }

  private async align(key: AdapterKey): Promise<void> {
    const ids = this.reading(key).map((slot) => slot.id);
    const isTaken = (id: number): boolean => this.slots[id]!.job !== null;
    const around = movesToAlign(this.slots.length, ids, (id) => isTaken(id) || this.isKept(id));
    // If there is no other way, a kept conversation is overwritten. Reading it again costs time once, whereas a batch in two pieces
    // costs time at every step.
    const moves = around.length > 0 ? around : movesToAlign(this.slots.length, ids, isTaken);
    // A move is put off by one step, because a client often sends its next request as soon as it has an answer, and then gets the
    // freed slot back.
    this.apart = moves.length > 0 && !this.apart;
    if (this.apart) return;
    for (const [from, to] of moves) {
      const [mover, other] = [this.slots[from]!, this.slots[to]!];
      if (other.cells.length >= leastReuse) await this.options.offloaded?.keep(other, to);
      await this.options.context.move(from, to);
      other.cells = [];
      [this.slots[from], this.slots[to]] = [other, mover];
      [other.id, mover.id] = [from, to];
    }
  }

  /**
   * Returns how many tokens each slot decodes in this step. Each answering slot gets one, and the prompts share the rest of the
   * budget in order of admission. The budget grows with the number of prompts being read, so that a single new prompt hardly delays
   * the answers, and a few answers do not hold up many prompts.
   */
  private share(members: readonly Slot[]): Map<Slot, number> {
    const { batch, prefill } = this.options;
    const reading = members.filter((slot) => slot.pending.length - slot.at > 1).sort((a, b) => a.turn - b.turn);
    const most = reading.length < members.length ? prefill * reading.length : batch;
    let budget = Math.min(most, batch - members.length);
    const sizes = new Map<Slot, number>(members.map((slot) => [slot, 1]));
    let rows = scoredRows;
    for (const slot of reading) {
      const isScored = slot.job!.request.onPrompt !== undefined;
      // Every slot gets at least one token, so that the sequence ids of the batch stay consecutive.
      const size = Math.max(1, Math.min(slot.pending.length - slot.at, budget, isScored ? rows : budget));
      sizes.set(slot, size);
      budget -= size;
      if (isScored) rows -= size;
    }
    return sizes;
  }

  /** Uses a slot's logits: records the log-probs of its prompt if they are wanted, and draws a token once the prompt has been read. */
  private async advance(slot: Slot, rows: readonly number[]): Promise<void> {
    const { tokenizer, slotContext } = this.options;
    const { sampler } = slot;
    const job = slot.job!;
    const { prompt, onPrompt, maxTokens } = job.request;
    const read = slot.cells.length;
    try {
      if (onPrompt !== undefined && job.drawn === 0) {
        await scorePrompt(job, prompt.slice(read - rows.length + 1, read + 1), rows, sampler);
        if (read < prompt.length) return;
        onPrompt(job.scored);
        job.scored = [];
      }
      if (maxTokens === 0) return this.free(slot, "length");
      const { token, ended } = await takeToken(job, rows.at(-1)!, sampler, tokenizer, read < slotContext);
      slot.pending = [token];
      slot.at = 0;
      if (ended === null) job.notify();
      else this.free(slot, ended);
    } catch (cause) {
      // Only this answer fails, for example because no token continues its grammar. The other slots of the step go on.
      this.options.log("error", "draw_failed", { error: cause });
      this.free(slot, new Failure("inference_failed", undefined, { cause }));
    }
  }

  private failGroup(key: AdapterKey, cause: unknown): void {
    this.options.log("error", "decode_failed", { key, error: cause });
    for (const slot of this.active().filter((slot) => slot.key === key)) {
      this.options.context.clear(slot.id);
      slot.cells = [];
      this.free(slot, new Failure("inference_failed", undefined, { cause }));
    }
  }
}
