// A resource that is too large to keep open: it is opened for its first user and closed after its last.

/**
 * Returns a function that runs work with the resource. Work that comes while the resource is open uses the same one. Throws
 * what `open` throws.
 */
export function shared<R extends { close(): Promise<void> }>(
  open: () => Promise<R>,
): <T>(work: (resource: R) => Promise<T>) => Promise<T> {
  let users = 0;
  let opened: Promise<R> | null = null;
  let closed: Promise<unknown> = Promise.resolve();
  return async (work) => {
    users++;
    // The memory of the one before is needed to open the next.
    opened ??= closed.then(open);
    const mine = opened;
    try {
      return await work(await mine);
    } finally {
      if (--users === 0) {
        opened = null;
        const closing = mine.then((resource) => resource.close());
        closed = closing.catch(() => {});
        await closing;
      }
    }
  };
}
