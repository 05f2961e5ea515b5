// Adapters that are shipped: rewritten with smaller numbers, and read back. The layout of Q8_0 is ggml's: blocks of 32 values, each a scale in
// half precision and 32 whole numbers.
import { type FileHandle, open } from "node:fs/promises";
import { type GgufTensor, readGgufHeader } from "./header.ts";
import { writeGguf } from "./writer.ts";

/** ggml's numbers for the types, and the bytes that they take for a block. */
const types = {
  F16: { number: 1, bytesOf: (count: number) => 2 * count },
  Q8_0: { number: 8, bytesOf: (count: number) => (count / block) * blockBytes },
};
const block = 32;
const blockBytes = 2 + block;

/**
 * Writes the F32 adapter `from` to `to` as F16 (half the size) or Q8_0 (about a quarter). Only the architecture and alpha of its metadata are
 * kept. For Q8_0 every row must be a multiple of 32 values long; throws RangeError otherwise.
 */
export async function shrinkAdapter(from: string, to: string, type: keyof typeof types): Promise<void> {
  const { values, tensors } = readGgufHeader(from);
  const source = await open(from);
  const file = await open(to, "w");
  try {
    const pairs = ["general.type", "general.architecture", "adapter.type"].map((key) => ({
      key,
      type: "string" as const,
      value: String(values.get(key)),
    }));
    const alpha = {
      key: "adapter.lora.alpha",
      type: "float32" as const,
      value: Number(values.get("adapter.lora.alpha")),
    };
    const { number, bytesOf } = types[type];
    const smaller = tensors.map((tensor) => ({
      name: tensor.name,
      shape: tensor.shape,
      type: number,
      bytes: bytesOf(tensor.bytes / 4),
      async *read() {
        const numbers = await readValues(source, tensor);
        if (type === "Q8_0" && tensor.shape[0]! % block !== 0)
          throw new RangeError(`${tensor.name} has rows of ${tensor.shape[0]} values`);
        yield type === "F16" ? new Uint8Array(Float16Array.from(numbers).buffer) : quantized(numbers);
      },
    }));
    await writeGguf(file, [...pairs, alpha], smaller);
    await file.sync();
  } finally {
    await file.close();
    await source.close();
  }
}

/** Reads a tensor of type F32, F16 or Q8_0. Throws RangeError for another type. */
export async function readValues(file: FileHandle, { name, type, bytes, offset }: GgufTensor): Promise<Float32Array> {
  const { buffer } = await file.read(new Uint8Array(bytes), 0, bytes, offset);
  switch (type) {
    case "F32":
      return new Float32Array(buffer.buffer);
    case "F16":
      return Float32Array.from(new Float16Array(buffer.buffer));
    case "Q8_0":
      return restored(buffer);
    default:
      throw new RangeError(`${name} is of type ${type}`);
  }
}

/** Returns the Q8_0 bytes of values [32 · n]. The scale of a block is its largest absolute value / 127. */
export function quantized(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(types.Q8_0.bytesOf(values.length));
  const view = new DataView(bytes.buffer);
  for (let from = 0, to = 0; from < values.length; from += block, to += blockBytes) {
    const some = values.subarray(from, from + block);
    const scale = Math.max(...some.map(Math.abs)) / 127;
    view.setFloat16(to, scale, true);
    for (const [at, value] of some.entries()) view.setInt8(to + 2 + at, scale === 0 ? 0 : Math.round(value / scale));
  }
  return bytes;
}

/** Returns the values of Q8_0 bytes. */
export function restored(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values = new Float32Array((bytes.length / blockBytes) * block);
  for (let from = 0, to = 0; from < bytes.length; from += blockBytes, to += block) {
    const scale = view.getFloat16(from, true);
    for (let at = 0; at < block; at++) values[to + at] = scale * view.getInt8(from + 2 + at);
  }
  return values;
}
