// One native call at a time per base: whoever holds the turn may decode, move cells or set adapters. First come, first served.

export class Turns {
  private readonly queue: (() => void)[] = [];
  private held = false;

  /** Whether someone else waits. */
  get wanted(): boolean {
    return this.queue.length > 0;
  }

  /** Resolves to the function that gives the turn back. */
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
