// Shapes of published models, taken from their configurations, for measuring without the model files.
import type { MadeUpModel } from "../../engine/train/trainer.ts";

export const shapes = {
  "smollm2-135m": {
    architecture: "llama",
    layers: 30,
    embedding: 576,
    heads: 9,
    kvHeads: 3,
    headValues: 64,
    feedForward: 1536,
    vocabulary: 49_152,
    context: 8192,
    tied: true,
  },
  "llama-1b": {
    architecture: "llama",
    layers: 16,
    embedding: 2048,
    heads: 32,
    kvHeads: 8,
    headValues: 64,
    feedForward: 8192,
    vocabulary: 128_256,
    context: 131_072,
    tied: true,
  },
  "llama-8b": {
    architecture: "llama",
    layers: 32,
    embedding: 4096,
    heads: 32,
    kvHeads: 8,
    headValues: 128,
    feedForward: 14_336,
    vocabulary: 128_256,
    context: 131_072,
    tied: false,
  },
  "qwen2-7b": {
    architecture: "qwen2",
    layers: 28,
    embedding: 3584,
    heads: 28,
    kvHeads: 4,
    headValues: 128,
    feedForward: 18_944,
    vocabulary: 152_064,
    context: 32_768,
    tied: false,
  },
} satisfies Record<string, Omit<MadeUpModel, "quantisation">>;

export type ShapeName = keyof typeof shapes;
