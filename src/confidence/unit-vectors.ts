// Compares vectors of unit length, as a sentence encoder returns them, and packs them as text.

/**
 * Packs vectors in base64, with one signed byte per value. Each vector is scaled to the full range of a byte. All vectors must have the
 * same number of values.
 */
export const packVectors = (vectors: readonly Float32Array[]): string =>
  Buffer.concat(
    vectors.map((vector) => {
      const greatest = Math.max(...vector.map(Math.abs)) || 1;
      return new Uint8Array(Int8Array.from(vector, (value) => Math.round((127 * value) / greatest)).buffer);
    }),
  ).toString("base64");

/** Unpacks vectors of `dimensions` values, and scales them to unit length again. */
export function unpackVectors(packed: string, dimensions: number): Float32Array[] {
  const bytes = Buffer.from(packed, "base64");
  const whole = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: whole.length / dimensions }, (_, at) => {
    const values = new Float32Array(whole.subarray(at * dimensions, (at + 1) * dimensions));
    const length = Math.sqrt(cosine(values, values)) || 1;
    for (let place = 0; place < dimensions; place++) values[place]! /= length;
    return values;
  });
}

/** The cosine of two vectors of unit length. */
export function cosine(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at]! * b[at]!;
  return sum;
}
