// A strict reader of GGUF headers, in plain TypeScript. It reads an untrusted model file before any other parser does. No
// count, length or offset is trusted until it has been checked against a limit and the file's size, and at most `headerLimit`
// bytes are read.
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { Failure } from "../../base/errors.ts";

/** An array without its items, because the engine itself reads vocabularies. Only short arrays of numbers keep the numbers. */
export interface GgufArray {
  arrayOf: string;
  length: number;
  numbers?: readonly number[];
}

export type GgufValue = string | number | bigint | boolean | GgufArray;

export interface GgufTensor {
  name: string;
  /** Elements along each axis, fastest first. */
  shape: number[];
  type: string;
  bytes: number;
  /** Position of its first byte in the file. */
  offset: number;
}

export interface GgufHeader {
  version: number;
  values: ReadonlyMap<string, GgufValue>;
  tensors: readonly GgufTensor[];
  fileBytes: number;
}

const headerLimit = 64 << 20;
const mostKeys = 4096;
const mostTensors = 65_536;
const keyLimit = 1024;
const stringLimit = 1 << 20;
const arrayLimit = 4 << 20;
/** Length of the longest array whose numbers are kept, which is enough for one number per layer. */
const keptNumbers = 1024;
const mostElements = 2n ** 53n;

/** GGUF's value types by their number; `array` and `string` are of variable length. */
const valueTypes = [
  "uint8",
  "int8",
  "uint16",
  "int16",
  "uint32",
  "int32",
  "float32",
  "bool",
  "string",
  "array",
  "uint64",
  "int64",
  "float64",
] as const;
type ValueType = (typeof valueTypes)[number];
const valueBytes: Partial<Record<ValueType, number>> = {
  uint8: 1,
  int8: 1,
  uint16: 2,
  int16: 2,
  uint32: 4,
  int32: 4,
  float32: 4,
  bool: 1,
  uint64: 8,
  int64: 8,
  float64: 8,
};

/** ggml's tensor types: number → name, elements of a block, bytes of a block. */
const tensorTypes: Record<number, [name: string, elements: number, bytes: number]> = {
  0: ["F32", 1, 4],
  1: ["F16", 1, 2],
  2: ["Q4_0", 32, 18],
  3: ["Q4_1", 32, 20],
  6: ["Q5_0", 32, 22],
  7: ["Q5_1", 32, 24],
  8: ["Q8_0", 32, 34],
  9: ["Q8_1", 32, 36],
  10: ["Q2_K", 256, 84],
  11: ["Q3_K", 256, 110],
  12: ["Q4_K", 256, 144],
  13: ["Q5_K", 256, 176],
  14: ["Q6_K", 256, 210],
  15: ["Q8_K", 256, 292],
  16: ["IQ2_XXS", 256, 66],
  17: ["IQ2_XS", 256, 74],
  18: ["IQ3_XXS", 256, 98],
  19: ["IQ1_S", 256, 50],
  20: ["IQ4_NL", 32, 18],
  21: ["IQ3_S", 256, 110],
  22: ["IQ2_S", 256, 82],
  23: ["IQ4_XS", 256, 136],
  24: ["I8", 1, 1],
  25: ["I16", 1, 2],
  26: ["I32", 1, 4],
  27: ["I64", 1, 8],
  28: ["F64", 1, 8],
  29: ["IQ1_M", 256, 56],
  30: ["BF16", 1, 2],
  34: ["TQ1_0", 256, 54],
  35: ["TQ2_0", 256, 66],
  39: ["MXFP4", 32, 17],
};

const refuse = (what: string): Failure => new Failure("model_invalid", `Not a valid GGUF file: ${what}`);

/** Reads forward through a file in pieces of 1 MiB. Every read is checked against the file's end and the header limit. */
class Reader {
  offset = 0;
  private readonly fd: number;
  private readonly end: number;
  private piece = Buffer.alloc(0);
  private pieceStart = 0;

  constructor(fd: number, fileBytes: number) {
    this.fd = fd;
    this.end = Math.min(fileBytes, headerLimit);
  }

  /** Moves past the next `length` bytes; returns a buffer that holds them and their position in it. */
  take(length: number): [Buffer, number] {
    if (length > this.end - this.offset)
      throw refuse(`its header is cut off or longer than ${headerLimit} bytes, at byte ${this.offset}`);
    let at = this.offset - this.pieceStart;
    if (at + length > this.piece.length) {
      const wanted = Math.min(Math.max(length, 1 << 20), this.end - this.offset);
      const piece = Buffer.allocUnsafe(wanted);
      const got = readSync(this.fd, piece, 0, wanted, this.offset);
      if (got < length) throw refuse(`it became shorter while it was being read`);
      this.piece = piece.subarray(0, got);
      this.pieceStart = this.offset;
      at = 0;
    }
    this.offset += length;
    return [this.piece, at];
  }

  u32(): number {
    const [buffer, at] = this.take(4);
    return buffer.readUInt32LE(at);
  }

  u64(): bigint {
    const [buffer, at] = this.take(8);
    return buffer.readBigUInt64LE(at);
  }

  /** Reads a 64-bit count or length, which must not exceed `most`. */
  count(most: number, what: string): number {
    const [buffer, at] = this.take(8);
    const low = buffer.readUInt32LE(at);
    if (buffer.readUInt32LE(at + 4) !== 0 || low > most)
      throw refuse(`${what} is ${buffer.readBigUInt64LE(at)}; the limit is ${most}`);
    return low;
  }

  text(most: number, what: string): string {
    const length = this.count(most, `the length of ${what}`);
    const [buffer, at] = this.take(length);
    return buffer.toString("utf8", at, at + length);
  }
}

function opened(path: string): number {
  try {
    return openSync(path, "r");
  } catch (error) {
    throw refuse(`it cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Reads and checks the header of a file. Throws model_invalid with what is wrong. Blocks while it reads up to 64 MiB. */
export function readGgufHeader(path: string): GgufHeader {
  const fd = opened(path);
  try {
    const fileBytes = fstatSync(fd).size;
    const reader = new Reader(fd, fileBytes);
    const [magic, at] = reader.take(4);
    if (magic.toString("latin1", at, at + 4) !== "GGUF") throw refuse("the magic bytes are missing");
    const version = reader.u32();
    if (version !== 2 && version !== 3)
      throw refuse(version > 0xffff ? "it is big-endian" : `version ${version} is not 2 or 3`);
    const tensorCount = reader.count(mostTensors, "the number of tensors");
    const keyCount = reader.count(mostKeys, "the number of keys");
    const values = readValues(reader, keyCount);
    const tensors = readTensors(reader, tensorCount, alignmentOf(values), fileBytes);
    return { version, values, tensors, fileBytes };
  } finally {
    closeSync(fd);
  }
}

function readValues(reader: Reader, count: number): Map<string, GgufValue> {
  const values = new Map<string, GgufValue>();
  for (let index = 0; index < count; index++) {
    const key = reader.text(keyLimit, `key ${index}`);
    if (values.has(key)) throw refuse(`key ${JSON.stringify(key)} occurs twice`);
    values.set(key, readValue(reader, valueTypeOf(reader.u32(), key), key));
  }
  return values;
}

function valueTypeOf(number: number, key: string): ValueType {
  const type = valueTypes[number];
  if (type === undefined) throw refuse(`${JSON.stringify(key)} has the unknown type ${number}`);
  return type;
}

function readValue(reader: Reader, type: ValueType, key: string): GgufValue {
  if (type === "string") return reader.text(stringLimit, JSON.stringify(key));
  if (type === "array") return readArray(reader, key);
  const [buffer, at] = reader.take(valueBytes[type]!);
  const value = scalarOf(type, buffer, at, key);
  if (typeof value === "number" && !Number.isFinite(value)) throw refuse(`${JSON.stringify(key)} is ${value}`);
  return value;
}

function scalarOf(type: ValueType, buffer: Buffer, at: number, key: string): number | bigint | boolean {
  switch (type) {
    case "uint8":
      return buffer.readUInt8(at);
    case "int8":
      return buffer.readInt8(at);
    case "uint16":
      return buffer.readUInt16LE(at);
    case "int16":
      return buffer.readInt16LE(at);
    case "uint32":
      return buffer.readUInt32LE(at);
    case "int32":
      return buffer.readInt32LE(at);
    case "float32":
      return buffer.readFloatLE(at);
    case "float64":
      return buffer.readDoubleLE(at);
    case "bool":
      if (buffer[at]! > 1) throw refuse(`${JSON.stringify(key)} is neither true nor false`);
      return buffer[at] === 1;
    case "uint64":
      return buffer.readBigUInt64LE(at);
    case "int64":
      return buffer.readBigInt64LE(at);
    default:
      throw new Error(`${type} has a variable length`);
  }
}

function readArray(reader: Reader, key: string): GgufArray {
  const type = valueTypeOf(reader.u32(), key);
  if (type === "array") throw refuse(`${JSON.stringify(key)} contains nested arrays`);
  const length = reader.count(arrayLimit, `the length of ${JSON.stringify(key)}`);
  if (type === "string") {
    for (let index = 0; index < length; index++)
      reader.take(reader.count(stringLimit, `a string of ${JSON.stringify(key)}`));
    return { arrayOf: type, length };
  }
  const [buffer, at] = reader.take(length * valueBytes[type]!);
  const isFloat = type === "float32" || type === "float64";
  if (!isFloat && length > keptNumbers) return { arrayOf: type, length };
  const numbers: number[] = [];
  for (let index = 0; index < length; index++) {
    const value = Number(scalarOf(type, buffer, at + index * valueBytes[type]!, key));
    if (!Number.isFinite(value)) throw refuse(`item ${index} of ${JSON.stringify(key)} is ${value}`);
    if (length <= keptNumbers) numbers.push(value);
  }
  return length > keptNumbers ? { arrayOf: type, length } : { arrayOf: type, length, numbers };
}

function alignmentOf(values: Map<string, GgufValue>): number {
  const alignment = values.get("general.alignment") ?? 32;
  if (typeof alignment !== "number" || alignment < 8 || alignment > 1 << 20 || (alignment & (alignment - 1)) !== 0)
    throw refuse("its alignment is not a power of two from 8 to 2^20");
  return alignment;
}

function readTensors(reader: Reader, count: number, alignment: number, fileBytes: number): GgufTensor[] {
  const tensors: GgufTensor[] = [];
  const offsets: bigint[] = [];
  const names = new Set<string>();
  for (let index = 0; index < count; index++) {
    const name = reader.text(keyLimit, `the name of tensor ${index}`);
    if (names.has(name)) throw refuse(`tensor ${JSON.stringify(name)} occurs twice`);
    names.add(name);
    const axes = reader.u32();
    if (axes < 1 || axes > 4) throw refuse(`tensor ${JSON.stringify(name)} has ${axes} axes`);
    const shape = Array.from({ length: axes }, () => reader.u64());
    const { type, bytes } = tensorBytes(name, shape, reader.u32());
    offsets.push(reader.u64());
    tensors.push({ name, type, shape: shape.map(Number), bytes: Number(bytes), offset: 0 });
  }
  const start = BigInt(Math.ceil(reader.offset / alignment) * alignment);
  checkPlaces(tensors, offsets, start, alignment, BigInt(fileBytes));
  return tensors.map((tensor, index) => ({ ...tensor, offset: Number(start + offsets[index]!) }));
}

function tensorBytes(name: string, shape: bigint[], number: number): { type: string; bytes: bigint } {
  const row = tensorTypes[number];
  if (row === undefined) throw refuse(`tensor ${JSON.stringify(name)} has the unknown type ${number}`);
  const [type, blockElements, blockBytes] = row;
  const elements = shape.reduce((product, axis) => product * axis, 1n);
  if (shape.some((axis) => axis < 1n) || elements > mostElements)
    throw refuse(`tensor ${JSON.stringify(name)} has the shape [${shape.join(", ")}]`);
  if (shape[0]! % BigInt(blockElements) !== 0n)
    throw refuse(
      `a row of tensor ${JSON.stringify(name)} is not a multiple of the ${blockElements} elements in a block of ${type}`,
    );
  return { type, bytes: (elements / BigInt(blockElements)) * BigInt(blockBytes) };
}

/** Checks that every tensor is aligned, lies inside the file and overlaps no other. */
function checkPlaces(tensors: GgufTensor[], offsets: bigint[], start: bigint, alignment: number, end: bigint): void {
  const order = [...offsets.keys()].sort((a, b) => (offsets[a]! < offsets[b]! ? -1 : 1));
  let free = 0n;
  for (const index of order) {
    const [name, offset] = [JSON.stringify(tensors[index]!.name), offsets[index]!];
    const after = offset + BigInt(tensors[index]!.bytes);
    if (offset % BigInt(alignment) !== 0n) throw refuse(`tensor ${name} is not aligned`);
    if (offset < free) throw refuse(`tensor ${name} overlaps another tensor`);
    if (start + after > end) throw refuse(`tensor ${name} extends past the end of the file`);
    free = after;
  }
}
