// The offloaded prompt cache. It keeps the keys and values of prompts that lost their slot, in case the prompts are sent again.
// They are in unlinked files, which disappear with the process; the files are in memory where the machine has /dev/shm. The least
// recently used prompts are dropped first.
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

/** Maximum number of prompts kept. Each keeps a file open and is compared with the prompt of every request. */
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
  /** Borrows memory for one prompt; null if none is left. `giveBack` is called when the memory is needed for something else. */
  lend: (bytes: number, giveBack: () => void) => { release(): void } | null;
  log: Log;
}

export class OffloadedPrompts {
  private readonly options: OffloadedPromptsOptions;
  /** Least recently used first. */
  private readonly all = new Set<Offloaded>();
  private bytes = 0;
  /** Maximum number of bytes kept. It is lowered when the machine has no room for more. */
  private most: number;

  constructor(options: OffloadedPromptsOptions) {
    this.options = options;
    this.most = options.bytes;
  }

  /** The kept prompt, of the same owner and adapter, that has the longest prefix in common with this one; null if none has any. */
  find({ key, owner, cells }: Held): { offloaded: Offloaded; length: number } | null {
    let best: { offloaded: Offloaded; length: number } | null = null;
    for (const offloaded of this.all) {
      if (offloaded.key !== key || offloaded.owner !== owner) continue;
      const length = commonPrefix(offloaded.cells, cells);
      if (length > (best?.length ?? 0)) best = { offloaded, length };
    }
    return best;
  }

  /** Keeps the cells of a sequence, unless they are kept already. Call `keep` and `restore` inside a turn. */
  async keep(held: Held, sequence: number): Promise<void> {
    const known = this.find(held);
    if (known?.length === held.cells.length || this.most === 0) return;
    // The known prompt is a prefix of the one that is kept from now on.
    if (known !== null && known.length === known.offloaded.cells.length) this.drop(known.offloaded);
    const { context, log } = this.options;
    let descriptor: number | null = null;
    try {
      descriptor = openNameless();
      const bytes = await context.save(sequence, pathOf(descriptor));
      if (bytes === null) closeSync(descriptor);
      else this.add({ ...held, cells: [...held.cells] }, descriptor, bytes);
    } catch (error) {
      // There is no room for more, for example in a container's /dev/shm. The prompt has to be read again if it is sent again, and
      // from now on no more bytes are kept than at present.
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
   * Overwrites the sequence with a kept prompt, which stays in the cache. Returns false if the prompt could not be restored; the
   * caller must then clear the sequence.
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

  /** Drops the prompts that were computed under an adapter; without a key, drops all prompts. */
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
