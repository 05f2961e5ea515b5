// Does the same work for many items, several at a time.

/**
 * Returns the results in the order of the items. At most `most` calls run at a time. After the first failure no call is started; it is
 * thrown once all calls in progress have ended.
 */
export async function sideBySide<T, R>(items: readonly T[], most: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const left = inTurn(items);
  const worker = async (): Promise<void> => {
    for (const [at, item] of left) results[at] = await work(item);
  };
  const ended = await Promise.allSettled(Array.from({ length: Math.min(most, items.length) }, worker));
  for (const end of ended) if (end.status === "rejected") throw end.reason;
  return results;
}

/** All workers share this generator. When one worker's loop fails, it closes the generator, which also ends the other loops. */
function* inTurn<T>(items: readonly T[]): Generator<[number, T]> {
  yield* items.entries();
}
