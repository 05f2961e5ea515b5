// A small LoRA adapter for the starter model, made here: so that tests of serving need no training.
import { writeFileSync } from "node:fs";

const alignment = 32;

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
/** GGUF's value types: 8 is text, 6 a 32-bit float. */
const textPair = (key: string, value: string): Buffer => Buffer.concat([text(key), u32(8), text(value)]);
const floatPair = (key: string, value: number): Buffer =>
  Buffer.concat([text(key), u32(6), Buffer.from(Float32Array.of(value).buffer)]);
const padded = (bytes: Buffer): Buffer =>
  Buffer.concat([bytes, Buffer.alloc((alignment - (bytes.length % alignment)) % alignment)]);

/** Values in ±scale, the same for the same seed. */
function noise(count: number, scale: number, seed: number): Buffer {
  let state = seed;
  const values = Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state / 2 ** 31 - 1) * scale;
  });
  return Buffer.from(values.buffer);
}

interface AdapterShape {
  rank: number;
  layers: number;
  /** Of the base's ffn_down: in → out. */
  width: number;
  out: number;
}

/** Of SmolLM2-135M, which has 30 layers. */
const starterShape: AdapterShape = { rank: 4, layers: 3, width: 1536, out: 576 };

/** `strength` 0 changes nothing of what the base says. */
export function writeAdapter(path: string, strength = 0.05, shape: Partial<AdapterShape> = {}): void {
  const { rank, layers, width, out } = { ...starterShape, ...shape };
  const tensors = [...Array(layers).keys()].flatMap((layer) => [
    { name: `blk.${layer}.ffn_down.weight.lora_a`, shape: [width, rank], data: noise(width * rank, 0.05, layer + 1) },
    { name: `blk.${layer}.ffn_down.weight.lora_b`, shape: [rank, out], data: noise(rank * out, strength, layer + 9) },
  ]);
  const pairs = [
    textPair("general.type", "adapter"),
    textPair("general.architecture", "llama"),
    textPair("adapter.type", "lora"),
    floatPair("adapter.lora.alpha", 8),
  ];
  let offset = 0;
  const infos = tensors.map(({ name, shape, data }) => {
    const info = Buffer.concat([text(name), u32(shape.length), ...shape.map(u64), u32(0), u64(offset)]);
    offset += padded(data).length;
    return info;
  });
  const head = Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(pairs.length), ...pairs, ...infos]);
  writeFileSync(path, Buffer.concat([padded(head), ...tensors.map(({ data }) => padded(data))]));
}
