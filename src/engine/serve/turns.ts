// Allows one native call at a time per base. Only the holder of the turn may decode, move cells or set adapters. Callers get the
// turn in the order in which they ask for it.

export class Turns {
  private readonly queue: (() => void)[] = [];
  private held = false;

  /** Whether another caller waits for the turn. */
  get wanted(): boolean {
    return this.queue.length > 0;
  }

  /** Waits for the turn, and resolves to the function that gives it back. */
  async take(): Promise<() => void> {
    if (this.held) await new Promise<void>((resolve) => this.queue.push(resolve));
    this.held = true;
    return () => {
      const next = this.queue.shift();
      // Hand the turn over without releasing it, so that no other caller can take it in between.
      if (next) next();
      else this.held = false;
    };
  }

  async run<T>(work: () => Promise<T> | T): Promise<T> {
    const release = await this.take();
    try {
      return await work();
    } finally {
      release();
    }
  }
}
