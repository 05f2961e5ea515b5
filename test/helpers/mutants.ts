// Model files with one thing wrong: a sound file's parts by their places, and what may be done to each.
import { pair, u64 } from "../engine/gguf-file.ts";
import { randomWords } from "./random.ts";

interface Pair {
  key: string;
  /** GGUF's number of the value's type; of an array that of its items. */
  type: number;
  isArray: boolean;
  /** Of the value's first byte; of an array that of its item type. */
  at: number;
  /** After the value. */
  end: number;
}

interface TensorPlace {
  name: string;
  nameAt: number;
  axes: number;
  /** Of the first axis; its type and offset follow the last. */
  shapeAt: number;
}

interface Layout {
  pairs: Pair[];
  tensors: TensorPlace[];
  /** Where the tensors' bytes begin. */
  dataAt: number;
}

const sizes: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const [u32Type, f32Type, textType, arrayType] = [4, 6, 8, 9];

/** Of a sound file. */
function layoutOf(file: Buffer): Layout {
  let at = 8;
  const pass = (bytes: number): number => {
    at += bytes;
    return at - bytes;
  };
  const u32 = (): number => file.readUInt32LE(pass(4));
  const u64 = (): number => Number(file.readBigUInt64LE(pass(8)));
  const text = (): string => {
    const start = pass(u64());
    return file.toString("utf8", start, at);
  };
  const tensorCount = u64();
  const pairCount = u64();
  const pairs = Array.from({ length: pairCount }, (): Pair => {
    const key = text();
    const outer = u32();
    const start = at;
    const type = outer === arrayType ? u32() : outer;
    const length = outer === arrayType ? u64() : 1;
    if (type === textType) for (let index = 0; index < length; index++) text();
    else at += length * sizes[type]!;
    return { key, type, isArray: outer === arrayType, at: start, end: at };
  });
  const tensors = Array.from({ length: tensorCount }, (): TensorPlace => {
    const nameAt = at + 8;
    const name = text();
    const axes = u32();
    const shapeAt = at;
    at += axes * 8 + 12;
    return { name, nameAt, axes, shapeAt };
  });
  return { pairs, tensors, dataAt: Math.ceil(at / 32) * 32 };
}

/** A copy in which a scalar of 32 bits is another. Throws where there is no such key. */
export function withNumber(file: Buffer, key: string, value: number): Buffer {
  const pair = layoutOf(file).pairs.find((one) => one.key === key);
  if (pair === undefined || pair.isArray) throw new Error(`${key} is no scalar of this file`);
  const copy = Buffer.from(file);
  if (pair.type === f32Type) copy.writeFloatLE(value, pair.at);
  else copy.writeUInt32LE(value, pair.at);
  return copy;
}

/** A copy in which a list says to have another length. */
export function withLength(file: Buffer, key: string, length: number): Buffer {
  const pair = layoutOf(file).pairs.find((one) => one.key === key)!;
  const copy = Buffer.from(file);
  copy.writeBigUInt64LE(BigInt(length), pair.at + 4);
  return copy;
}

/** A copy in which a key or tensor has another name of the same length. */
export function renamed(file: Buffer, name: string, to: string): Buffer {
  const copy = Buffer.from(file);
  copy.write(to.padEnd(name.length, "_").slice(0, name.length), file.indexOf(name));
  return copy;
}

const oddNumbers = [0, 1, 2, 3, 5, 7, 64, 255, 512, 513, 65_535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
const oddFloats = [0, -1, 1e38, -1e38, 1e-45, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];

type Random = (below: number) => number;
const oneOf = <T>(random: Random, list: readonly T[]): T => list[random(list.length)]!;

type Change = (copy: Buffer, layout: Layout, random: Random) => string;

const changes: Change[] = [
  (copy, { pairs }, random) => {
    const pair = oneOf(
      random,
      pairs.filter(({ type, isArray }) => type === u32Type && !isArray),
    );
    const value = oneOf(random, oddNumbers);
    copy.writeUInt32LE(value, pair.at);
    return `${pair.key} = ${value}`;
  },
  (copy, { pairs }, random) => {
    const pair = oneOf(
      random,
      pairs.filter(({ type, isArray }) => type === f32Type && !isArray),
    );
    const value = oneOf(random, oddFloats);
    copy.writeFloatLE(value, pair.at);
    return `${pair.key} = ${value}`;
  },
  (copy, { pairs }, random) => {
    const pair = oneOf(random, pairs);
    const at = pair.at + random(Math.min(64, pair.end - pair.at));
    copy[at] = random(256);
    return `byte ${at} of ${pair.key}`;
  },
  (copy, { pairs }, random) => {
    const pair = oneOf(
      random,
      pairs.filter(({ isArray }) => isArray),
    );
    const at = pair.at + 12 + random(pair.end - pair.at - 12);
    copy[at] = random(256);
    return `byte ${at} in the list ${pair.key}`;
  },
  (copy, { tensors }, random) => {
    const tensor = oneOf(random, tensors);
    const axis = random(tensor.axes);
    const value = oneOf(random, oddNumbers);
    copy.writeBigUInt64LE(BigInt(value), tensor.shapeAt + 8 * axis);
    return `axis ${axis} of ${tensor.name} = ${value}`;
  },
  (copy, { tensors }, random) => {
    const tensor = oneOf(random, tensors);
    const value = random(42);
    copy.writeUInt32LE(value, tensor.shapeAt + 8 * tensor.axes);
    return `type of ${tensor.name} = ${value}`;
  },
  (copy, { tensors }, random) => {
    const tensor = oneOf(random, tensors);
    const value = 32 * random(1 << 14);
    copy.writeBigUInt64LE(BigInt(value), tensor.shapeAt + 8 * tensor.axes + 4);
    return `offset of ${tensor.name} = ${value}`;
  },
  (copy, { tensors }, random) => {
    const tensor = oneOf(random, tensors);
    copy[tensor.nameAt + random(tensor.name.length)] = 97 + random(26);
    return `name of ${tensor.name}`;
  },
  (copy, { dataAt }, random) => {
    const at = dataAt + random(copy.length - dataAt - 64);
    for (let index = 0; index < 64; index++) copy[at + index] = random(256);
    return `64 bytes of weights at ${at}`;
  },
  (copy, { dataAt }, random) => {
    const at = dataAt + 4 * random((copy.length - dataAt) / 4 - 1);
    copy.writeFloatLE(oneOf(random, oddFloats), at);
    return `a weight at ${at}`;
  },
];

export interface Mutant {
  what: string;
  content: Buffer;
}

/** The mutant of this number, of one of these files by their names; the same each time. */
export function mutantOf(number: number, sources: readonly { name: string; content: Buffer }[]): Mutant {
  const next = randomWords(number);
  const random: Random = (below) => next() % below;
  // The first draws after a small seed are alike.
  for (let skipped = 0; skipped < 8; skipped++) random(2);
  const source = oneOf(random, sources);
  if (random(20) === 0) {
    const length = random(source.content.length);
    return { what: `${source.name} cut at ${length}`, content: source.content.subarray(0, length) };
  }
  const content = Buffer.from(source.content);
  const layout = layoutOf(source.content);
  const done = Array.from({ length: 1 + (random(4) === 0 ? 1 : 0) }, () =>
    oneOf(random, changes)(content, layout, random),
  );
  return { what: `${source.name}: ${done.join(", ")}`, content };
}

/** A sound file that had no chat template, with one. */
export function withChatTemplate(file: Buffer, template: string): Buffer {
  const { tensors, dataAt } = layoutOf(file);
  const begin = tensors[0]!.nameAt - 8;
  const last = tensors.at(-1)!;
  const end = last.shapeAt + last.axes * 8 + 12;
  const head = Buffer.concat([
    file.subarray(0, 16),
    u64(file.readBigUInt64LE(16) + 1n),
    file.subarray(24, begin),
    pair("tokenizer.chat_template", template),
    file.subarray(begin, end),
  ]);
  return Buffer.concat([head, Buffer.alloc((32 - (head.length % 32)) % 32), file.subarray(dataAt)]);
}
