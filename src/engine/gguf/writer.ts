// Writes a GGUF file (version 3, little-endian): a header, then the tensors, each at a multiple of the alignment.
import type { FileHandle } from "node:fs/promises";

export type GgufPair =
  | { key: string; type: "uint32" | "float32"; value: number }
  | { key: string; type: "bool"; value: boolean }
  | { key: string; type: "string"; value: string }
  | { key: string; type: "strings"; value: readonly string[] }
  | { key: string; type: "int32s"; value: readonly number[] };

export interface GgufTensorSource {
  name: string;
  /** Elements along each axis, fastest first. */
  shape: readonly number[];
  /** ggml's number for the type. */
  type: number;
  /** Bytes of the data. */
  bytes: number;
  /** The data in order, in pieces of any size. */
  read(): AsyncIterable<Uint8Array>;
}

const alignment = 32;
/** GGUF's numbers for value types. */
const numbers = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const;

export async function writeGguf(
  file: FileHandle,
  pairs: readonly GgufPair[],
  tensors: readonly GgufTensorSource[],
): Promise<void> {
  const head = [Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(pairs.length), ...pairs.map(pairBytes)];
  let offset = 0;
  for (const { name, shape, type, bytes } of tensors) {
    head.push(text(name), u32(shape.length), ...shape.map(u64), u32(type), u64(offset));
    offset += aligned(bytes);
  }
  await file.writeFile(padded(Buffer.concat(head)));
  for (const tensor of tensors) {
    let written = 0;
    for await (const piece of tensor.read()) {
      await file.writeFile(piece);
      written += piece.length;
    }
    if (written !== tensor.bytes)
      throw new RangeError(`${tensor.name} has ${written} bytes instead of ${tensor.bytes}`);
    await file.writeFile(Buffer.alloc(aligned(written) - written));
  }
}

const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;
const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(aligned(bytes.length) - bytes.length)]);

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

function pairBytes(pair: GgufPair): Buffer {
  const key = text(pair.key);
  switch (pair.type) {
    case "uint32":
      return Buffer.concat([key, u32(numbers.uint32), u32(pair.value)]);
    case "float32":
      return Buffer.concat([key, u32(numbers.float32), f32(pair.value)]);
    case "bool":
      return Buffer.concat([key, u32(numbers.bool), Buffer.of(pair.value ? 1 : 0)]);
    case "string":
      return Buffer.concat([key, u32(numbers.string), text(pair.value)]);
    case "strings":
      return Buffer.concat([key, ...arrayHead(numbers.string, pair.value.length), ...pair.value.map(text)]);
    case "int32s":
      return Buffer.concat([
        key,
        ...arrayHead(numbers.int32, pair.value.length),
        Buffer.from(Int32Array.from(pair.value).buffer),
      ]);
  }
}

const arrayHead = (type: number, length: number): Buffer[] => [u32(numbers.array), u32(type), u64(length)];
