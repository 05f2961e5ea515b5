// Halves an adapter file, for adapters that are shipped.
import { open } from "node:fs/promises";
import { readGgufHeader } from "./header.ts";
import { writeGguf } from "./writer.ts";

/** Writes the F32 adapter `from` in half precision to `to`, without what else its metadata says. */
export async function writeHalf(from: string, to: string): Promise<void> {
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
    const halved = tensors.map(({ name, shape, bytes, offset }) => ({
      name,
      shape,
      type: 1, // F16
      bytes: bytes / 2,
      async *read() {
        const { buffer } = await source.read(new Uint8Array(bytes), 0, bytes, offset);
        yield new Uint8Array(Float16Array.from(new Float32Array(buffer.buffer)).buffer);
      },
    }));
    await writeGguf(file, [...pairs, alpha], halved);
    await file.sync();
  } finally {
    await file.close();
    await source.close();
  }
}
