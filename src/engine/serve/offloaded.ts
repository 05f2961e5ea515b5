// The offloaded prompt cache. Keeps prompts that lost their slot, in case they are sent again: their keys and values as
// bytes in the machine's memory, in unlinked files that disappear with the process. The least recently used are dropped
// first.
import { closeSync, existsSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomWord } from "../../base/ids.ts";
import type { Log } from "../../base/log.ts";
import type { NativeContext } from "./binding.ts";
import { commonPrefix } from "./slots.ts";

/** What a sequence holds, and for whom. */
export interface Held {
  /** Key of the adapter that computed the cells. */
  key: string;
  owner: string;
  cells: readonly number[];
}

/** Maximum number of prompts kept: each has a file open, and is compared with every request. */
const mostPrompts = 256;

interface Offloaded extends Held {
  descriptor: number;
  bytes: number;
  release(): void;
}

export interface OffloadedPromptsOptions {
  context: NativeContext;
  /** Maximum number of bytes kept. */
  bytes: number;
  /** Borrows memory for one prompt; null when there is none left. `giveBack` is called when others need it. */
  lend: (bytes: number, giveBack: () => void) => { release(): void } | null;
  log: Log;
}

export class OffloadedPrompts {
  private readonly options: OffloadedPromptsOptions;
  /** Least recently used first. */
  private readonly all = new Set<Offloaded>();
  private bytes = 0;
  /** Maximum number of bytes kept; lowered when the machine has no room for more. */
  private most: number;

  constructor(options: OffloadedPromptsOptions) {
    this.options = options;
    this.most = options.bytes;
  }

  /** The kept prompt with the longest prefix in common with this one, of the same owner and adapter. */
  find({ key, owner, cells }: Held): { offloaded: Offloaded; length: number } | null {
    let best: { offloaded: Offloaded; length: number } | null = null;
    for (const offloaded of this.all) {
      if (offloaded.key !== key || offloaded.owner !== owner) continue;
      const length = commonPrefix(offloaded.cells, cells);
      if (length > (best?.length ?? 0)) best = { offloaded, length };
    }
    return best;
  }

  /** Saves the cells of a sequence, unless they are kept already. Call it and `restore` inside a turn. */
  async keep(held: Held, sequence: number): Promise<void> {
    const known = this.find(held);
    if (known?.length === held.cells.length || this.most === 0) return;
    // It is a prefix of the prompt that is kept from now on.
    if (known !== null && known.length === known.offloaded.cells.length) this.drop(known.offloaded);
    const { context, log } = this.options;
    let descriptor: number | null = null;
    try {
      descriptor = openNameless();
      const bytes = await context.save(sequence, pathOf(descriptor));
      if (bytes === null) closeSync(descriptor);
      else this.add({ ...held, cells: [...held.cells] }, descriptor, bytes);
    } catch (error) {
      // There is no room for more, for example in a container's /dev/shm: the prompt will be read again, and from now on no
      // more bytes are kept than at present.
      log("warn", "prompt_not_offloaded", { error, keptBytes: this.bytes });
      if (descriptor !== null) closeSync(descriptor);
      this.most = this.bytes;
    }
  }

  private add(held: Held, descriptor: number, bytes: number): void {
    const oldest = this.all.values();
    const isFull = (): boolean => this.bytes + bytes > this.most || this.all.size >= mostPrompts;
    for (let next = oldest.next(); !next.done && isFull(); next = oldest.next()) this.drop(next.value);
    const grant = bytes > this.most ? null : this.options.lend(bytes, () => this.drop(offloaded));
    const offloaded: Offloaded = { ...held, descriptor, bytes, release: () => grant?.release() };
    if (grant === null) closeSync(descriptor);
    else {
      this.all.add(offloaded);
      this.bytes += bytes;
    }
  }

  /**
   * Overwrites the sequence with a prompt, which stays kept. false: it was not restored, and the sequence must be cleared.
   */
  async restore(offloaded: Offloaded, sequence: number): Promise<boolean> {
    if (!this.all.has(offloaded)) return false;
    this.all.delete(offloaded);
    this.all.add(offloaded);
    try {
      return await this.options.context.restore(sequence, pathOf(offloaded.descriptor));
    } catch (error) {
      this.options.log("warn", "prompt_not_restored", { error });
      this.drop(offloaded);
      this.options.context.clear(sequence);
      return false;
    }
  }

  /** Drops what was computed under an adapter, or everything. */
  forget(key?: string): void {
    for (const offloaded of [...this.all]) if (key === undefined || offloaded.key === key) this.drop(offloaded);
  }

  private drop(offloaded: Offloaded): void {
    if (!this.all.delete(offloaded)) return;
    this.bytes -= offloaded.bytes;
    closeSync(offloaded.descriptor);
    offloaded.release();
  }
}

const pathOf = (descriptor: number): string => `/proc/self/fd/${descriptor}`;

/** Opens an unlinked file, because the library can only write to files. It is in memory where the machine has /dev/shm. */
function openNameless(): number {
  const path = join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), `plumbline-prompt-${randomWord()}`);
  const descriptor = openSync(path, "wx", 0o600);
  rmSync(path);
  return descriptor;
}
