// Writes GGUF files, sound and unsound, byte by byte.
import { writeFileSync } from "node:fs";

export const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

export const u64 = (value: number | bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};

export const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

/** GGUF's numbers of value types. */
const [typeU32, typeText] = [4, 8];

export const pair = (key: string, value: number | string): Buffer =>
  Buffer.concat([
    text(key),
    typeof value === "number" ? u32(typeU32) : u32(typeText),
    typeof value === "number" ? u32(value) : text(value),
  ]);

export interface TensorInfo {
  name: string;
  shape: (number | bigint)[];
  /** ggml's number; 0 is F32. */
  type?: number;
  offset?: number | bigint;
}

export const tensorInfo = ({ name, shape, type = 0, offset = 0 }: TensorInfo): Buffer =>
  Buffer.concat([text(name), u32(shape.length), ...shape.map(u64), u32(type), u64(offset)]);

export interface GgufParts {
  magic?: string;
  version?: number;
  pairs?: Buffer[];
  tensors?: TensorInfo[];
  /** In place of the true counts. */
  pairCount?: number | bigint;
  tensorCount?: number | bigint;
  dataBytes?: number;
}

export function gguf(parts: GgufParts): Buffer {
  const { magic = "GGUF", version = 3, pairs = [], tensors = [], dataBytes = 0 } = parts;
  const head = Buffer.concat([
    Buffer.from(magic, "latin1"),
    u32(version),
    u64(parts.tensorCount ?? tensors.length),
    u64(parts.pairCount ?? pairs.length),
    ...pairs,
    ...tensors.map(tensorInfo),
  ]);
  const padding = dataBytes > 0 ? (32 - (head.length % 32)) % 32 : 0;
  return Buffer.concat([head, Buffer.alloc(padding + dataBytes)]);
}

export function writeGguf(path: string, parts: GgufParts): string {
  writeFileSync(path, gguf(parts));
  return path;
}

/** The same file with another chat template: the text is replaced in place and padded with spaces, so that no offset moves. */
export function withTemplate(model: Buffer, template: string): Buffer {
  const key = Buffer.from("tokenizer.chat_template");
  const at = model.indexOf(key) + key.length + 4;
  const length = Number(model.readBigUInt64LE(at));
  if (Buffer.byteLength(template) > length) throw new RangeError("the template is longer than the one it replaces");
  const copy = Buffer.from(model);
  copy.fill(" ", at + 8, at + 8 + length);
  copy.write(template, at + 8);
  return copy;
}
