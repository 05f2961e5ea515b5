// Converts a sentence-transformers folder with a BERT model to one GGUF file that llama.cpp reads: the encoder with its
// pooling, or a cross-encoder with its head. Weights keep their type, except that weights which llama.cpp adds or normalises
// with are widened to 32 bits.
import { type FileHandle, open, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { Failure } from "../../../base/errors.ts";
import { isErrno } from "../../../base/files.ts";
import { type GgufPair, type GgufTensorSource, writeGguf } from "../writer.ts";
import { dataOf, readSafetensorsHeader, type SafetensorsTensor, widened } from "./safetensors.ts";

const refuse = (what: string): Failure => new Failure("model_invalid", `This folder cannot be imported: ${what}`);

type Json = Record<string, unknown>;

interface Shape {
  hidden: number;
  layers: number;
  heads: number;
  feedForward: number;
  positions: number;
  tokenTypes: number;
  epsilon: number;
  vocabulary: number;
}

/** llama.cpp's numbers for pooling types. */
const poolings = { mean: 1, cls: 2, rank: 4 } as const;
/** ggml's numbers for types. */
const types = { F32: 0, F16: 1, BF16: 30 } as const;
/** llama.cpp's numbers for file types. */
const fileTypes = { F32: 0, F16: 1, BF16: 32 } as const;
/** llama.cpp's numbers for kinds of tokens. */
const [normalToken, controlToken] = [1, 3];

/** Writes the model of `folder` into the empty `target`. Throws model_invalid with what the folder lacks. */
export async function convertSentenceTransformer(folder: string, target: FileHandle): Promise<void> {
  const config = await readJson(folder, "config.json");
  if (config === null) throw refuse("config.json is missing");
  const shape = shapeOf(config);
  const pooling = await poolingOf(folder, config);
  const vocabulary = await vocabularyOf(folder, shape.vocabulary);
  const weights = await open(join(folder, "model.safetensors"), "r").catch((error) => {
    throw isErrno(error, "ENOENT") ? refuse("model.safetensors is missing") : error;
  });
  try {
    const stored = await readSafetensorsHeader(weights);
    const tensors = tensorsOf(weights, stored, shape, pooling === "rank");
    const stem = stored.get(tensors[0]!.source)!.type;
    const pairs: GgufPair[] = [
      { key: "general.architecture", type: "string", value: "bert" },
      { key: "general.name", type: "string", value: await nameOf(folder) },
      { key: "general.file_type", type: "uint32", value: fileTypes[stem] },
      ...(await licensePairs(folder)),
      ...shapePairs(shape, pooling),
      ...vocabulary,
    ];
    await writeGguf(target, pairs, tensors);
  } finally {
    await weights.close();
  }
}

async function readText(folder: string, name: string): Promise<string | null> {
  try {
    return await readFile(join(folder, name), "utf8");
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  }
}

async function readJson(folder: string, name: string): Promise<Json | null> {
  const text = await readText(folder, name);
  if (text === null) return null;
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw refuse(`${name} is not JSON`);
  }
}

function shapeOf(config: Json): Shape {
  if (config.model_type !== "bert") throw refuse(`its model_type is ${JSON.stringify(config.model_type)}, not "bert"`);
  const wanted: [key: string, value: unknown][] = [
    ["hidden_act", "gelu"],
    ["position_embedding_type", "absolute"],
  ];
  for (const [key, value] of wanted)
    if ((config[key] ?? value) !== value) throw refuse(`its ${key} is ${JSON.stringify(config[key])}, not "${value}"`);
  const count = (key: string): number => {
    const value = config[key];
    if (!Number.isSafeInteger(value) || (value as number) < 1)
      throw refuse(`${key} in config.json is not a valid count`);
    return value as number;
  };
  return {
    hidden: count("hidden_size"),
    layers: count("num_hidden_layers"),
    heads: count("num_attention_heads"),
    feedForward: count("intermediate_size"),
    positions: count("max_position_embeddings"),
    tokenTypes: count("type_vocab_size"),
    epsilon: typeof config.layer_norm_eps === "number" ? config.layer_norm_eps : 1e-12,
    vocabulary: count("vocab_size"),
  };
}

/**
 * The pooling that an encoder's modules state; "rank" for a sequence classifier with one output, which is a cross-encoder.
 */
async function poolingOf(folder: string, config: Json): Promise<keyof typeof poolings> {
  const architecture = Array.isArray(config.architectures) ? String(config.architectures[0]) : "";
  if (architecture === "BertForSequenceClassification") {
    const labels = config.id2label === undefined ? 2 : Object.keys(config.id2label as object).length;
    if (labels !== 1) throw refuse(`it has ${labels} output labels; a cross-encoder has one`);
    return "rank";
  }
  const modules = ((await readJson(folder, "modules.json")) ?? []) as unknown as { type?: string; path?: string }[];
  const kinds = modules.map((module) => String(module.type).split(".").at(-1)!);
  const strange = kinds.find((kind) => !["Transformer", "Pooling", "Normalize"].includes(kind));
  if (strange !== undefined) throw refuse(`its module ${strange} is not supported`);
  const path = modules[kinds.indexOf("Pooling")]?.path ?? "1_Pooling";
  const pooling = await readJson(folder, join(path, "config.json"));
  if (pooling === null) throw refuse(`${path}/config.json, which describes the pooling, is missing`);
  const modes = Object.keys(pooling).filter((key) => key.startsWith("pooling_mode_") && pooling[key] === true);
  if (modes.length === 1 && modes[0] === "pooling_mode_mean_tokens") return "mean";
  if (modes.length === 1 && modes[0] === "pooling_mode_cls_token") return "cls";
  throw refuse(`its pooling is ${modes.join(" and ") || "none"}; mean_tokens and cls_token are supported`);
}

/** The title of the model card if it is one word, else the folder's name. */
async function nameOf(folder: string): Promise<string> {
  const title = /^# (\S+)\s*$/m.exec((await readText(folder, "README.md")) ?? "")?.[1];
  return title ?? basename(folder);
}

/** The licence that the model card's head states. */
async function licensePairs(folder: string): Promise<GgufPair[]> {
  const head = /^---\n([\s\S]*?)\n---/.exec((await readText(folder, "README.md")) ?? "")?.[1] ?? "";
  const license = /^license:\s*(\S+)\s*$/m.exec(head)?.[1];
  return license === undefined ? [] : [{ key: "general.license", type: "string", value: license }];
}

const shapePairs = (shape: Shape, pooling: keyof typeof poolings): GgufPair[] => [
  { key: "bert.context_length", type: "uint32", value: shape.positions },
  { key: "bert.embedding_length", type: "uint32", value: shape.hidden },
  { key: "bert.feed_forward_length", type: "uint32", value: shape.feedForward },
  { key: "bert.block_count", type: "uint32", value: shape.layers },
  { key: "bert.attention.head_count", type: "uint32", value: shape.heads },
  { key: "bert.attention.layer_norm_epsilon", type: "float32", value: shape.epsilon },
  { key: "bert.attention.causal", type: "bool", value: false },
  { key: "bert.pooling_type", type: "uint32", value: poolings[pooling] },
  { key: "tokenizer.ggml.token_type_count", type: "uint32", value: shape.tokenTypes },
  ...(pooling === "rank"
    ? [{ key: "bert.classifier.output_labels", type: "strings", value: ["score"] } satisfies GgufPair]
    : []),
];

/** The WordPiece vocabulary as GGUF pairs. llama.cpp marks the beginnings of words, whereas WordPiece marks continuations. */
async function vocabularyOf(folder: string, size: number): Promise<GgufPair[]> {
  const tokenizer = (await readJson(folder, "tokenizer.json")) as {
    model?: { type?: string; vocab?: Record<string, number> };
    normalizer?: { lowercase?: boolean; strip_accents?: boolean | null };
    added_tokens?: { content: string; special?: boolean }[];
  } | null;
  const settings = (await readJson(folder, "tokenizer_config.json")) ?? {};
  const list = (await readText(folder, "vocab.txt"))?.replace(/\n$/, "").split(/\r?\n/);
  const tokens = list ?? tokensOf(tokenizer?.model);
  if (tokens === null) throw refuse("vocab.txt is missing, and tokenizer.json has no WordPiece vocabulary");
  if (tokens.length !== size) throw refuse(`its vocabulary has ${tokens.length} tokens, but config.json says ${size}`);
  const named = specialNames(settings, (await readJson(folder, "special_tokens_map.json")) ?? {});
  const specials = new Set([
    ...named.values(),
    ...(tokenizer?.added_tokens ?? []).filter((token) => token.special).map((token) => token.content),
  ]);
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const lowercase = tokenizer?.normalizer?.lowercase ?? settings.do_lower_case !== false;
  return [
    { key: "tokenizer.ggml.model", type: "string", value: "bert" },
    { key: "tokenizer.ggml.pre", type: "string", value: "default" },
    { key: "tokenizer.ggml.tokens", type: "strings", value: tokens.map((token) => marked(token, specials)) },
    {
      key: "tokenizer.ggml.token_type",
      type: "int32s",
      value: tokens.map((token) => (specials.has(token) ? controlToken! : normalToken!)),
    },
    ...[...named].map(([key, token]) => {
      const id = ids.get(token);
      if (id === undefined) throw refuse(`its special token ${token} is not in the vocabulary`);
      return { key: `tokenizer.ggml.${key}`, type: "uint32", value: id } satisfies GgufPair;
    }),
    { key: "tokenizer.ggml.normalizer.lowercase", type: "bool", value: lowercase },
    {
      key: "tokenizer.ggml.normalizer.strip_accents",
      type: "bool",
      value: tokenizer?.normalizer?.strip_accents ?? lowercase,
    },
  ];
}

function tokensOf(model: { type?: string; vocab?: Record<string, number> } | undefined): string[] | null {
  if (model?.type !== "WordPiece" || model.vocab === undefined) return null;
  const tokens: string[] = [];
  for (const [token, id] of Object.entries(model.vocab)) tokens[id] = token;
  return Array.from(tokens, (token) => token ?? "");
}

/** Special tokens by GGUF key. They have BERT's usual names if the folder states none. */
function specialNames(settings: Json, map: Json): Map<string, string> {
  const keys: [key: string, field: string, usual: string][] = [
    ["bos_token_id", "cls_token", "[CLS]"],
    ["cls_token_id", "cls_token", "[CLS]"],
    ["seperator_token_id", "sep_token", "[SEP]"],
    ["padding_token_id", "pad_token", "[PAD]"],
    ["unknown_token_id", "unk_token", "[UNK]"],
    ["mask_token_id", "mask_token", "[MASK]"],
  ];
  const wordOf = (value: unknown): string | null => {
    if (typeof value === "string") return value;
    const content = (value as { content?: unknown } | null | undefined)?.content;
    return typeof content === "string" ? content : null;
  };
  return new Map(keys.map(([key, field, usual]) => [key, wordOf(map[field]) ?? wordOf(settings[field]) ?? usual]));
}

function marked(token: string, specials: ReadonlySet<string>): string {
  if (specials.has(token)) return token;
  return token.startsWith("##") ? token.slice(2) : `\u2581${token}`;
}

const layerNames: [stored: string, named: string][] = [
  ["attention.self.query", "attn_q"],
  ["attention.self.key", "attn_k"],
  ["attention.self.value", "attn_v"],
  ["attention.output.dense", "attn_output"],
  ["attention.output.LayerNorm", "attn_output_norm"],
  ["intermediate.dense", "ffn_up"],
  ["output.dense", "ffn_down"],
  ["output.LayerNorm", "layer_output_norm"],
];

/** Every tensor by its stored name and llama.cpp's, with the shape it must have, slowest axis first. */
function plan(shape: Shape, ranks: boolean): [stored: string, named: string, shape: number[]][] {
  const { hidden, feedForward, vocabulary, positions, tokenTypes } = shape;
  const outputs = (named: string): number => (named === "ffn_up" ? feedForward : hidden);
  const inputs = (named: string): number => (named === "ffn_down" ? feedForward : hidden);
  const rows: [string, string, number[]][] = [
    ["embeddings.word_embeddings.weight", "token_embd.weight", [vocabulary, hidden]],
    ["embeddings.position_embeddings.weight", "position_embd.weight", [positions, hidden]],
    ["embeddings.token_type_embeddings.weight", "token_types.weight", [tokenTypes, hidden]],
    ["embeddings.LayerNorm.weight", "token_embd_norm.weight", [hidden]],
    ["embeddings.LayerNorm.bias", "token_embd_norm.bias", [hidden]],
  ];
  for (let layer = 0; layer < shape.layers; layer++)
    for (const [stored, named] of layerNames) {
      const [from, to] = [`encoder.layer.${layer}.${stored}`, `blk.${layer}.${named}`];
      const matrix = named.endsWith("_norm") ? [hidden] : [outputs(named), inputs(named)];
      rows.push([`${from}.weight`, `${to}.weight`, matrix], [`${from}.bias`, `${to}.bias`, [outputs(named)]]);
    }
  // A BERT cross-encoder scores tanh(pooler(first state)) by its classifier, which is what llama.cpp calls cls and cls.output.
  if (ranks)
    rows.push(
      ["pooler.dense.weight", "cls.weight", [hidden, hidden]],
      ["pooler.dense.bias", "cls.bias", [hidden]],
      ["classifier.weight", "cls.output.weight", [1, hidden]],
      ["classifier.bias", "cls.output.bias", [1]],
    );
  return rows;
}

type Source = GgufTensorSource & { source: string };

function tensorsOf(
  file: FileHandle,
  stored: ReadonlyMap<string, SafetensorsTensor>,
  shape: Shape,
  ranks: boolean,
): Source[] {
  return plan(shape, ranks).map(([wanted, name, dimensions]): Source => {
    const tensor = found(stored, wanted);
    if (tensor.shape.join() !== dimensions.join())
      throw refuse(`${tensor.name} has the shape [${tensor.shape}] instead of [${dimensions}]`);
    const widens = dimensions.length === 1 || name === "position_embd.weight" || name === "token_types.weight";
    const type = widens ? "F32" : tensor.type;
    return {
      source: tensor.name,
      name,
      shape: [...dimensions].reverse(),
      type: types[type],
      bytes: widens ? 4 * dimensions.reduce((product, axis) => product * axis, 1) : tensor.bytes,
      read: () => (widens ? widened(file, tensor) : dataOf(file, tensor)),
    };
  });
}

/**
 * Finds a tensor by its name, with or without the prefix "bert.". The parts of a norm may also have TensorFlow's names, as in
 * older files.
 */
function found(stored: ReadonlyMap<string, SafetensorsTensor>, name: string): SafetensorsTensor {
  const older = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
  const tensor = [name, `bert.${name}`, older, `bert.${older}`].map((one) => stored.get(one)).find((one) => one);
  if (tensor === undefined) throw refuse(`the tensor ${name} is missing`);
  return tensor;
}
