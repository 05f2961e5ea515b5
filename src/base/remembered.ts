/** Wraps `make` so that its value for an object is computed once and kept while the object exists. If `make` throws, nothing is kept. */
export function remembered<K extends WeakKey, V>(make: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, { value: V }>();
  return (key) => {
    const found = known.get(key) ?? { value: make(key) };
    known.set(key, found);
    return found.value;
  };
}
