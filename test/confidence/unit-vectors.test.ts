// Vectors as text, and back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { packVectors, unpackVectors } from "../../src/confidence/unit-vectors.ts";

test("packed vectors come back with their direction, and of unit length", () => {
  const [there, zero] = unpackVectors(packVectors([Float32Array.of(0.3, -0.4), Float32Array.of(0, 0)]), 2);
  assert.ok(Math.abs(there![0]! - 0.6) < 0.005 && Math.abs(there![1]! + 0.8) < 0.005);
  assert.deepEqual([...zero!], [0, 0]);
});
