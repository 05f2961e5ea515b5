// Q8_0 against the bytes that ggml's Python package (gguf 0.19, `quantize`) makes of the same values.
import assert from "node:assert/strict";
import { test } from "node:test";
import { quantized, restored } from "../../src/engine/gguf/adapter-file.ts";

const values = Float32Array.from({ length: 64 }, (_, at) =>
  Math.fround(Math.fround(Math.sin(Math.fround(at * Math.fround(0.7)))) * Math.fround(at < 32 ? 0.03 : 2.5)),
);
const published =
  "af0b00527e6e2bd39182af02547e6d29d18f83b104567f6c27cf8e83b306577f6b25" +
  "0725cd8e84b509587f6922cb8d85b60b5a7f6820c98c85b80d5b7f671ec88b86ba0f";

test("values become the bytes that ggml makes of them, and come back within half a step", () => {
  assert.equal(Buffer.from(quantized(values)).toString("hex"), published);
  const back = restored(quantized(values));
  for (const [at, value] of values.entries()) {
    const step = (at < 32 ? 0.03 : 2.5) / 127;
    assert.ok(Math.abs(back[at]! - value) <= 0.51 * step + Math.abs(value) * 2 ** -11, `${at}: ${value} ${back[at]}`);
  }
  assert.deepEqual(restored(quantized(new Float32Array(32))), new Float32Array(32));
});
