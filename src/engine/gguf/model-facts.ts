// What a sound header says about a model. Pure.
import { settings } from "../../base/config.ts";
import { baseBytes, batchTokens, embeddingBytes, type ModelShape, shapeOf } from "./gpu.ts";
import type { GgufHeader } from "./header.ts";
import { type ModelKind, poolingOf } from "./pooling.ts";

export interface ModelFacts extends Omit<ModelShape, "weightBytes"> {
  name: string | null;
  kind: ModelKind;
  architecture: string;
  contextLength: number;
  parameters: number;
  /** In the usual spelling: Q4_1, Q4_K_M, BF16. */
  fileType: string;
  license: string | null;
  /** Whether the output matrix is the embedding matrix. */
  tied: boolean;
  /** Bytes of the file. */
  bytes: number;
  /** Bytes of memory that serving the model needs, estimated for the given pool of slots. */
  memoryBytes: number;
  /** Why the chat template cannot be rendered; null if it can. */
  templateProblem: string | null;
}

/** The pool of slots if the caller gives none. It has the defaults of the settings. */
export const defaultSlotPool = {
  slots: settings.slots.parse(settings.slots.default),
  slotContext: settings.slotContext.parse(settings.slotContext.default),
};

/** llama.cpp's numbers for file types. */
const fileTypes: Record<number, string> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  3: "Q4_1",
  7: "Q8_0",
  8: "Q5_0",
  9: "Q5_1",
  10: "Q2_K",
  11: "Q3_K_S",
  12: "Q3_K_M",
  13: "Q3_K_L",
  14: "Q4_K_S",
  15: "Q4_K_M",
  16: "Q5_K_S",
  17: "Q5_K_M",
  18: "Q6_K",
  19: "IQ2_XXS",
  20: "IQ2_XS",
  21: "Q2_K_S",
  22: "IQ3_XS",
  23: "IQ3_XXS",
  24: "IQ1_S",
  25: "IQ4_NL",
  26: "IQ3_S",
  27: "IQ3_M",
  28: "IQ2_S",
  29: "IQ2_M",
  30: "IQ4_XS",
  31: "IQ1_M",
  32: "BF16",
  36: "TQ1_0",
  37: "TQ2_0",
  38: "MXFP4",
};

const textOf = (header: GgufHeader, key: string): string | null => {
  const value = header.values.get(key);
  return typeof value === "string" && value !== "" ? value : null;
};

const numberOf = (header: GgufHeader, key: string): number => {
  const value = header.values.get(key);
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
};

export function factsOf(
  header: GgufHeader,
  templateProblem: string | null,
  slotPool: { slots: number; slotContext: number },
): ModelFacts {
  const architecture = textOf(header, "general.architecture") ?? "unknown";
  const { weightBytes, ...shape } = shapeOf(header);
  const contextLength = numberOf(header, `${architecture}.context_length`);
  const slotContext = Math.min(slotPool.slotContext, contextLength || slotPool.slotContext);
  const { kind } = poolingOf(header);
  return {
    ...shape,
    name: textOf(header, "general.name"),
    kind,
    architecture,
    contextLength,
    parameters: header.tensors.reduce((sum, tensor) => sum + tensor.shape.reduce((a, b) => a * b, 1), 0),
    fileType: fileTypeOf(header),
    license: textOf(header, "general.license"),
    tied: !header.tensors.some((tensor) => tensor.name === "output.weight"),
    bytes: header.fileBytes,
    memoryBytes:
      kind === "text"
        ? baseBytes({ weightBytes, ...shape }, { slots: slotPool.slots, slotContext, batch: batchTokens })
        : weightBytes + embeddingBytes({ weightBytes, ...shape }, { tokens: slotContext, batch: slotContext }),
    templateProblem,
  };
}

/** The file type that the header states. If it states none that is known, the tensor type with the most bytes. */
function fileTypeOf(header: GgufHeader): string {
  const stated = header.values.get("general.file_type");
  if (typeof stated === "number" && fileTypes[stated] !== undefined) return fileTypes[stated];
  const bytes = new Map<string, number>();
  for (const tensor of header.tensors) bytes.set(tensor.type, (bytes.get(tensor.type) ?? 0) + tensor.bytes);
  return [...bytes].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "unknown";
}
