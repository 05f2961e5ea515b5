/** Returns a generator (mulberry32) of numbers in [0, 1). The same seed gives the same numbers on every machine. Not for secrets. */
export function seeded(seed: number): () => number {
  const next = seededWords(seed);
  return () => next() / 2 ** 32;
}

/** As `seeded`, but the generator returns whole numbers below 2^32. */
export function seededWords(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}
