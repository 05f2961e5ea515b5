// Checks the header of a model before the library loads the file. The library ends the whole process at a number that it does
// not expect (no layer, more experts than it has room for, a negative epsilon). It uses other numbers unchecked; for example,
// it divides by the number of heads. The check is made before every native load of a model. Faults that no header shows are
// found by the probe's trial. Pure.
import { Failure } from "../../base/errors.ts";
import type { GgufArray, GgufHeader, GgufTensor, GgufValue } from "./header.ts";

/** The library's own limits on layers and experts, for which it has tables of fixed size. */
const mostLayers = 512;
const mostExperts = 1024;
const mostWidth = 1 << 20;
const mostHeads = 1 << 16;
const mostContext = 2 ** 31 - 1;

/** Architectures whose tensors have the roles and shapes of checkShapes. */
export const plainArchitectures: readonly string[] = ["llama", "qwen2", "qwen3", "gemma3"];

/** Types of position scaling that the library knows; it ends the process at any other. */
const ropeScalings = ["none", "linear", "yarn", "longrope"];

const refuse = (what: string): Failure => new Failure("model_invalid", `Not a valid model file: ${what}`);

/** Throws model_invalid with the first thing that is wrong. */
export function checkModel(header: GgufHeader): void {
  const architecture = header.values.get("general.architecture");
  if (typeof architecture !== "string" || !/^[a-z0-9][a-z0-9._-]{0,63}$/i.test(architecture))
    throw refuse("general.architecture does not name an architecture");
  const stated = new Stated(header, architecture);
  checkVocabulary(header);
  const sizes = sizesOf(stated, header);
  checkHeads(stated, sizes);
  checkExperts(stated, architecture, sizes.layers);
  checkRest(stated, sizes.layers);
  checkTensors(header, sizes);
  if (plainArchitectures.includes(architecture)) checkShapes(header, stated, sizes);
}

/** The values of an architecture, by key without the architecture's prefix. */
class Stated {
  private readonly header: GgufHeader;
  private readonly architecture: string;

  constructor(header: GgufHeader, architecture: string) {
    this.header = header;
    this.architecture = architecture;
  }

  keyOf(name: string): string {
    return `${this.architecture}.${name}`;
  }

  value(name: string): GgufValue | undefined {
    return this.header.values.get(this.keyOf(name));
  }

  /** Returns a whole number, which must be stated unless the default `otherwise` is given. */
  whole(name: string, least: number, most: number, otherwise?: number): number {
    const value = this.value(name) ?? otherwise;
    if (value === undefined) throw refuse(`${this.keyOf(name)} is missing`);
    if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most)
      throw refuse(`${this.keyOf(name)} is ${shown(value)}, but must be a whole number from ${least} to ${most}`);
    return value;
  }

  /** Returns a number per layer. The header states one number for all layers, or one for each. */
  perLayer(name: string, least: number, most: number, layers: number, otherwise: number): number[] {
    const value = this.value(name);
    if (typeof value !== "object") return Array(layers).fill(this.whole(name, least, most, otherwise));
    const { numbers = [] } = value;
    if (numbers.length !== layers)
      throw refuse(`${this.keyOf(name)} has ${value.length} numbers, but the model has ${layers} layers`);
    const wrong = numbers.find((number) => !Number.isInteger(number) || number < least || number > most);
    if (wrong !== undefined)
      throw refuse(`${this.keyOf(name)} contains ${wrong}, but must contain whole numbers from ${least} to ${most}`);
    return [...numbers];
  }

  /** Checks a number, whole or not, if it is stated. */
  number(name: string, isSound: (value: number) => boolean, wanted: string): void {
    const value = this.value(name);
    if (value === undefined) return;
    if (typeof value !== "number" || !isSound(value))
      throw refuse(`${this.keyOf(name)} is ${shown(value)}, but must be ${wanted}`);
  }
}

const shown = (value: GgufValue): string =>
  typeof value === "object" ? `an array of ${value.length}` : String(value).slice(0, 40);

/** Checks the lists of the vocabulary. The library reads a score and a type for every token, so these lists must be long enough. */
function checkVocabulary({ values }: GgufHeader): void {
  const list = (name: string): GgufArray | null => {
    const value = values.get(`tokenizer.ggml.${name}`);
    if (value !== undefined && typeof value !== "object") throw refuse(`tokenizer.ggml.${name} is not a list`);
    return value ?? null;
  };
  const tokens = list("tokens");
  // The library aborts the process if a tokenizer is missing.
  if (tokens === null || tokens.length === 0 || typeof values.get("tokenizer.ggml.model") !== "string")
    throw refuse("it has no vocabulary");
  const kinds: [name: string, types: readonly string[], length: number | null][] = [
    ["tokens", ["string"], null],
    ["scores", ["float32", "int32"], tokens.length],
    ["token_type", ["int32", "uint32"], tokens.length],
    ["merges", ["string"], null],
  ];
  for (const [name, types, length] of kinds) {
    const found = list(name);
    if (found === null) continue;
    if (!types.includes(found.arrayOf))
      throw refuse(`tokenizer.ggml.${name} is a list of the wrong type, ${found.arrayOf}`);
    if (length !== null && found.length < length)
      throw refuse(`tokenizer.ggml.${name} has ${found.length} entries, but there are ${length} tokens`);
  }
}

interface Sizes {
  layers: number;
  embedding: number;
  vocabulary: number;
}

function sizesOf(stated: Stated, header: GgufHeader): Sizes {
  const layers = stated.whole("block_count", 1, mostLayers);
  const embedding = stated.whole("embedding_length", 1, mostWidth);
  stated.whole("context_length", 1, mostContext);
  stated.perLayer("feed_forward_length", 0, 1 << 24, layers, 0);
  const tokens = header.values.get("tokenizer.ggml.tokens") as GgufArray;
  return { layers, embedding, vocabulary: tokens.length };
}

const headLengths = ["attention.key_length", "attention.value_length"];
const rotated = "rope.dimension_count";

/** Checks the numbers and sizes of heads. Layers without attention have no heads. */
function checkHeads(stated: Stated, { layers, embedding }: Sizes): void {
  const heads = stated.perLayer("attention.head_count", 0, mostHeads, layers, 0);
  // If the number of key-value heads is left out, every head has its own keys and values.
  const keyHeads =
    stated.value("attention.head_count_kv") === undefined
      ? heads
      : stated.perLayer("attention.head_count_kv", 0, mostHeads, layers, 0);
  for (const [layer, count] of heads.entries()) {
    const shared = keyHeads[layer]!;
    if (count > 0 && shared > 0 && count % shared !== 0)
      throw refuse(`layer ${layer} has ${count} heads, which is not a multiple of its ${shared} key-value heads`);
    if (count > 0 && stated.value("attention.key_length") === undefined && embedding % count !== 0)
      throw refuse(`layer ${layer} has ${count} heads, but its width ${embedding} is not divisible by that`);
  }
  for (const suffix of ["", "_swa"]) {
    for (const name of headLengths)
      if (stated.value(name + suffix) !== undefined) stated.whole(name + suffix, 1, mostHeads);
    if (stated.value(rotated + suffix) === undefined) continue;
    const most = headSize(stated, heads[0]!, embedding, suffix);
    const pairs = stated.whole(rotated + suffix, 0, most || mostHeads);
    if (pairs % 2 !== 0)
      throw refuse(`${stated.keyOf(rotated + suffix)} is odd, but rotary positions need an even number`);
  }
}

/** Size of a head for keys; 0 if there are no heads. */
function headSize(stated: Stated, heads: number, embedding: number, suffix: string): number {
  const own = stated.value(`attention.key_length${suffix}`) ?? stated.value("attention.key_length");
  return typeof own === "number" ? own : heads > 0 ? Math.floor(embedding / heads) : 0;
}

function checkExperts(stated: Stated, architecture: string, layers: number): void {
  const count = stated.whole("expert_count", 0, mostExperts, 0);
  const used = Math.max(...stated.perLayer("expert_used_count", 0, mostExperts, layers, 0));
  // hunyuan files without experts state one expert, and the library expects that.
  if (count <= 1 && architecture.startsWith("hunyuan")) return;
  if (used > count || (count > 0 && used === 0))
    throw refuse(`it has ${count} experts and uses ${used} per token, which is impossible`);
  const groups = stated.whole("expert_group_count", 0, mostExperts, 0);
  if (groups > 0 && groups >= count) throw refuse(`its ${count} experts cannot be in ${groups} groups`);
  if (groups > 1 && count % groups !== 0)
    throw refuse(`its ${count} experts cannot be divided evenly into ${groups} groups`);
  const usedGroups = stated.whole("expert_group_used_count", 0, mostExperts, 0);
  if (groups > 1 && (usedGroups === 0 || usedGroups >= groups))
    throw refuse(`it has ${groups} groups of experts and uses ${usedGroups}, which is impossible`);
}

function checkRest(stated: Stated, layers: number): void {
  const isSmall = (value: number): boolean => value >= 0 && value <= 1;
  for (const name of [
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.group_norm_epsilon",
  ])
    stated.number(name, isSmall, "from 0 to 1");
  const ofPositions = ["rope.freq_base", "rope.freq_base_swa", "rope.scaling.factor", "rope.scale_linear"];
  for (const name of [...ofPositions, "rope.scaling.attn_factor"])
    stated.number(name, (value) => value >= 0, "0 or more");
  const scaling = stated.value("rope.scaling.type");
  if (scaling !== undefined && !ropeScalings.includes(String(scaling)))
    throw refuse(`position scaling ${shown(scaling)} is not supported`);
  stated.whole("nextn_predict_layers", 0, layers - 1, 0);
  // 0 to 4: none, mean, first, last, rank; −1: unspecified.
  stated.number("pooling_type", (value) => Number.isInteger(value) && value >= -1 && value <= 4, "from -1 to 4");
}

function checkTensors({ tensors }: GgufHeader, { layers, embedding, vocabulary }: Sizes): void {
  if (tensors.length === 0) throw refuse("it has no weights");
  for (const { name } of tensors) {
    const layer = /^blk\.(\d+)\./.exec(name)?.[1];
    if (layer !== undefined && Number(layer) >= layers)
      throw refuse(`the tensor ${name} belongs to a layer that the header does not declare`);
  }
  const embeddings = tensors.find(({ name }) => name === "token_embd.weight");
  if (embeddings === undefined) throw refuse("the tensor token_embd.weight is missing");
  mustHave(embeddings, [embedding, vocabulary]);
}

/** Checks the shapes of the tensors of a plain architecture by their roles. All other tensors are left to the library. */
function checkShapes(header: GgufHeader, stated: Stated, { layers, embedding, vocabulary }: Sizes): void {
  const value = (name: string) => stated.value(name);
  const heads = value("attention.head_count");
  const keyHeads = value("attention.head_count_kv") ?? heads;
  const feedForward = value("feed_forward_length");
  const isUneven = [heads, keyHeads, feedForward].some((one) => typeof one !== "number");
  const ownWindows = headLengths.some((name) => value(`${name}_swa`) !== undefined);
  if (isUneven || ownWindows || value("expert_count") !== undefined) return;
  const [q, kv, f] = [heads as number, keyHeads as number, feedForward as number];
  if (q === 0 || kv === 0) throw refuse(`${stated.keyOf("attention.head_count")} gives its layers no heads`);
  const key = headSize(stated, q, embedding, "");
  const valueLength = value("attention.value_length");
  const size = typeof valueLength === "number" ? valueLength : Math.floor(embedding / q);
  const shapes: Record<string, number[]> = {
    attn_norm: [embedding],
    attn_q: [embedding, q * key],
    attn_k: [embedding, kv * key],
    attn_v: [embedding, kv * size],
    attn_output: [q * size, embedding],
    attn_q_norm: [key],
    attn_k_norm: [key],
    post_attention_norm: [embedding],
    ffn_norm: [embedding],
    ffn_gate: [embedding, f],
    ffn_up: [embedding, f],
    ffn_down: [f, embedding],
    post_ffw_norm: [embedding],
  };
  for (const tensor of header.tensors) {
    const role = /^blk\.\d+\.(\w+)\.(weight|bias)$/.exec(tensor.name);
    const shape = role ? shapes[role[1]!] : undefined;
    if (shape !== undefined) mustHave(tensor, role![2] === "weight" ? shape : [shape.at(-1)!]);
    if (tensor.name === "output.weight") mustHave(tensor, [embedding, vocabulary]);
    if (tensor.name === "output_norm.weight") mustHave(tensor, [embedding]);
  }
  const names = new Set(header.tensors.map(({ name }) => name));
  for (let layer = 0; layer < layers; layer++)
    if (!names.has(`blk.${layer}.attn_norm.weight`))
      throw refuse(`layer ${layer} has no tensor blk.${layer}.attn_norm.weight`);
}

/** Compares the shape of a tensor; trailing axes of 1 may be left out. */
function mustHave(tensor: GgufTensor, shape: readonly number[]): void {
  const found = [0, 1, 2, 3].map((axis) => tensor.shape[axis] ?? 1);
  if (found.some((length, axis) => length !== (shape[axis] ?? 1)))
    throw refuse(
      `the tensor ${tensor.name} has the shape [${tensor.shape.join(", ")}] instead of [${shape.join(", ")}]`,
    );
}
