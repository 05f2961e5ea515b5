// Whether the trainer can train a model: the trainer's own conditions, checked on the header before a run. Pure.

import type { ModelShape } from "./gpu.ts";
import type { GgufHeader } from "./header.ts";

interface Architecture {
  /** Tensors of every layer, beyond those that all architectures have. */
  layerTensors: readonly string[];
  /** Whether the file may contain a tensor of factors per rotated pair. */
  ropeFactors: boolean;
  /** Whether some layers may attend to the last tokens only. */
  windows: boolean;
}

const headNorms = ["attn_q_norm", "attn_k_norm"];

/** The architectures that can be trained. A test compares their names with those that the worker reports. */
export const trainableArchitectures: Readonly<Record<string, Architecture>> = {
  llama: { layerTensors: [], ropeFactors: true, windows: false },
  qwen2: { layerTensors: [], ropeFactors: false, windows: false },
  qwen3: { layerTensors: headNorms, ropeFactors: false, windows: false },
  gemma3: {
    layerTensors: [...headNorms, "post_attention_norm", "post_ffw_norm"],
    ropeFactors: false,
    windows: true,
  },
};

const commonLayerTensors = [
  "attn_norm",
  "attn_q",
  "attn_k",
  "attn_v",
  "attn_output",
  "ffn_norm",
  "ffn_gate",
  "ffn_up",
  "ffn_down",
];
const biasable = ["attn_q", "attn_k", "attn_v"];

/** Numbers that change what is computed in a way the trainer does not know. */
const unknownNumbers = [
  "attention.scale",
  "logit_scale",
  "residual_scale",
  "embedding_scale",
  "attn_logit_softcapping",
  "final_logit_softcapping",
];

/** Sizes that, where stated, must be the size of a whole head. */
const headSizes = [
  "attention.value_length",
  "rope.dimension_count",
  "attention.key_length_swa",
  "attention.value_length_swa",
  "rope.dimension_count_swa",
];

/** null when it can be trained, else why not, as a sentence without its full stop. */
export function reasonNotToTrain(header: GgufHeader, shape: Omit<ModelShape, "weightBytes">): string | null {
  const name = String(header.values.get("general.architecture") ?? "unknown");
  const architecture = Object.hasOwn(trainableArchitectures, name) ? trainableArchitectures[name]! : null;
  if (architecture === null)
    return `Models of architecture ${name} cannot be trained yet, only ${Object.keys(trainableArchitectures).join(", ")}`;
  return reasonOfHeader(header, shape, name, architecture) ?? reasonOfTensors(header, shape.layers, name, architecture);
}

function reasonOfHeader(
  header: GgufHeader,
  shape: Omit<ModelShape, "weightBytes">,
  name: string,
  architecture: Architecture,
): string | null {
  const stated = (key: string) => header.values.get(`${name}.${key}`);
  if (Number(stated("expert_count") ?? 0) > 0) return "Mixtures of experts cannot be trained yet";
  if (shape.layers < 1 || shape.embedding < 1 || shape.feedForward < 1 || shape.heads < 1)
    return "Its header does not give the size of its layers";
  const scaling = String(stated("rope.scaling.type") ?? "none");
  const yarn = scaling === "yarn" && !architecture.windows && !hasTensor(header, "rope_freqs.weight");
  if (scaling !== "none" && scaling !== "linear" && !yarn)
    return `Models with position scaling ${scaling} cannot be trained yet`;
  const set = unknownNumbers.find((key) => Number(stated(key) ?? 0) !== 0);
  if (set !== undefined) return `Its header sets ${set}, which cannot be trained yet`;
  const other = headSizes.find((key) => (stated(key) ?? shape.headSize) !== shape.headSize);
  if (other !== undefined)
    return `Its header sets ${other} to a size other than the size of a head, which cannot be trained yet`;
  return stated("attention.causal") === false ? "Models with non-causal attention cannot be trained yet" : null;
}

function reasonOfTensors(header: GgufHeader, layers: number, name: string, architecture: Architecture): string | null {
  const wanted = ["token_embd.weight", "output_norm.weight"];
  const known = new Set(["output.weight", ...(architecture.ropeFactors ? ["rope_freqs.weight"] : [])]);
  for (let layer = 0; layer < layers; layer++) {
    for (const tensor of [...commonLayerTensors, ...architecture.layerTensors])
      wanted.push(`blk.${layer}.${tensor}.weight`);
    for (const tensor of biasable) known.add(`blk.${layer}.${tensor}.bias`);
  }
  const names = new Set(header.tensors.map((tensor) => tensor.name));
  const missing = wanted.find((tensor) => !names.has(tensor));
  if (missing !== undefined) return `The tensor ${missing} is missing`;
  for (const tensor of wanted) known.add(tensor);
  const unknown = [...names].find((tensor) => !known.has(tensor));
  return unknown === undefined ? null : `The tensor ${unknown} is not part of a plain ${name}`;
}

const hasTensor = (header: GgufHeader, name: string): boolean => header.tensors.some((tensor) => tensor.name === name);
