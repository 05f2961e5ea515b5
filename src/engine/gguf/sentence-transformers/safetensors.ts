// A strict reader of safetensors: eight bytes of length, a JSON header, then the tensors' bytes. No offset is trusted until
// it has been checked against the file's size.
import type { FileHandle } from "node:fs/promises";
import { Failure } from "../../../base/errors.ts";

export type SafetensorsType = "F32" | "F16" | "BF16";

export interface SafetensorsTensor {
  name: string;
  type: SafetensorsType;
  /** Elements along each axis, slowest first. */
  shape: number[];
  bytes: number;
  /** Position of the data, from the beginning of the file. */
  offset: number;
}

const elementBytes: Record<SafetensorsType, number> = { F32: 4, F16: 2, BF16: 2 };
/** The format allows 100 MB; headers of BERT models are far smaller. */
const headerLimit = 16 << 20;
const pieceBytes = 4 << 20;

const refuse = (what: string): Failure => new Failure("model_invalid", `Not a valid safetensors file: ${what}`);

/** Returns the tensors by name. Integer and boolean tensors, such as stored positions, are skipped. Throws model_invalid. */
export async function readSafetensorsHeader(file: FileHandle): Promise<Map<string, SafetensorsTensor>> {
  const { size } = await file.stat();
  const length = Number((await readExactly(file, 0, 8, size)).readBigUInt64LE());
  if (length > headerLimit) throw refuse(`its header has ${length} bytes; the limit is ${headerLimit}`);
  const start = 8 + length;
  let header: unknown;
  try {
    header = JSON.parse((await readExactly(file, 8, length, size)).toString("utf8"));
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw refuse("its header is not valid JSON");
  }
  if (typeof header !== "object" || header === null || Array.isArray(header))
    throw refuse("its header is not an object");
  const tensors = new Map<string, SafetensorsTensor>();
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const tensor = tensorOf(name, entry, start, size);
    if (tensor !== null) tensors.set(name, tensor);
  }
  return tensors;
}

function tensorOf(name: string, entry: unknown, start: number, size: number): SafetensorsTensor | null {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
  if (!Array.isArray(shape) || !shape.every(isCount)) throw refuse(`the shape of ${name} is not a list of sizes`);
  const [from, to] = Array.isArray(offsets) && offsets.length === 2 ? (offsets as unknown[]) : [];
  if (!isCount(from) || !isCount(to) || from > to)
    throw refuse(`the offsets of ${name} are not a pair in ascending order`);
  if (start + to > size) throw refuse(`${name} extends past the end of the file`);
  if (typeof dtype === "string" && /^(BOOL|[IU]\d+)$/.test(dtype)) return null;
  if (typeof dtype !== "string" || !(dtype in elementBytes)) throw refuse(`${name} has the unsupported type ${dtype}`);
  const type = dtype as SafetensorsType;
  const bytes = shape.reduce((product, axis) => product * axis, 1) * elementBytes[type];
  if (bytes !== to - from) throw refuse(`${name} has ${to - from} bytes, but its shape needs ${bytes}`);
  return { name, type, shape, bytes, offset: start + from };
}

async function readExactly(file: FileHandle, offset: number, length: number, size: number): Promise<Buffer> {
  if (offset + length > size) throw refuse("it ends within its header");
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
  if (bytesRead < length) throw refuse("it became shorter while it was being read");
  return buffer;
}

/** Yields the data as they are in the file. */
export async function* dataOf(file: FileHandle, { name, offset, bytes }: SafetensorsTensor): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes; at += pieceBytes) {
    const length = Math.min(pieceBytes, bytes - at);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset + at);
    if (bytesRead < length) throw refuse(`${name} became shorter while it was being read`);
    yield buffer;
  }
}

/** Yields the data as 32-bit floats. F16 and BF16 are widened exactly. */
export async function* widened(file: FileHandle, tensor: SafetensorsTensor): AsyncGenerator<Buffer> {
  for await (const piece of dataOf(file, tensor)) {
    if (tensor.type === "F32") yield piece;
    else {
      const halves = new Uint16Array(piece.buffer, piece.byteOffset, piece.length / 2);
      const wide = Float32Array.from(halves, tensor.type === "F16" ? floatOfHalf : floatOfBrain);
      yield Buffer.from(wide.buffer);
    }
  }
}

const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);

function floatOfBrain(half: number): number {
  word[0] = half << 16;
  return float[0]!;
}

/** IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction. */
function floatOfHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}
