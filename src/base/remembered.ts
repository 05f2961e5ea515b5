/** Wraps `make` so that its value for an object is computed once and kept as long as the object. A throw is not remembered. */
export function remembered<K extends WeakKey, V>(make: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, { value: V }>();
  return (key) => {
    const found = known.get(key) ?? { value: make(key) };
    known.set(key, found);
    return found.value;
  };
}
