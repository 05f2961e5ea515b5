// The trainer's verbs as typed calls: what can be asked of it, and what it answers. native/protocol.md is the worker's side of every
// promise here; trainer-process.ts keeps them.
/** As a soft target: every token that the others of its place do not name, taken as one. */
export const restOfVocabulary = -1;

/** Rows one behind the other. tokens [T]; rowLengths [R], summing to T. */
export interface Rows {
  tokens: Int32Array;
  rowLengths: Int32Array;
}

/** What each token weighs in the loss, on the token that is predicted; the first of a row weighs nothing. */
export interface WeightedRows extends Rows {
  /** [T] of −log-prob. */
  weights: Float32Array;
  /** [T] of −entropy: the bonus. */
  entropyWeights?: Float32Array;
  /** [T] of the squared log-sum of the logits. */
  zWeights?: Float32Array;
  /** [T · K] further targets of every token, 0 where there are fewer, restOfVocabulary at most once, and what −log-prob of each weighs. */
  soft?: { targets: Int32Array; weights: Float32Array };
}

/** All but the loss is 0 where a token weighs nothing. Nats. */
export interface Losses {
  /** −Σ weight · log-prob − Σ entropyWeight · entropy + Σ zWeight · logSum², soft targets with the first. */
  loss: number;
  /** [T] */
  logprobs: Float32Array;
  entropies: Float32Array;
  /** [T] log of the sum of the exponentials of the logits. */
  logSums: Float32Array;
  /** [T · K], when there were soft targets. */
  softLogprobs: Float32Array | null;
  /** Tokens that went through the layers: what rows share at their beginning counts once. */
  computedTokens: number;
}

/** [T · topK], the most likely token first. */
export interface TopTokens {
  tokens: Int32Array;
  logprobs: Float32Array;
}

export interface TrainerLimits {
  maxHeaderBytes: number;
  maxPayloadBytes: number;
  maxRowTokens: number;
  maxBatchTokens: number;
}

export interface TrainerHello {
  version: string;
  build: string;
  devices: (
    | { kind: "cpu"; name: string; threads: number; features: string[]; passTokens: number }
    | {
        kind: "cuda";
        name: string;
        memoryBytes: number;
        computeCapability: string;
        driver: string;
        passTokens: number;
      }
  )[];
  /** Why the worker can use no GPU; null when it can. */
  noGpu: string | null;
  architectures: string[];
  limits: TrainerLimits;
}

/** Of a model whose weights are made up, to measure what a real one costs. quantisation: a type as ggml names it, "q4_k". */
export interface MadeUpModel {
  architecture: string;
  layers: number;
  embedding: number;
  heads: number;
  kvHeads: number;
  headValues: number;
  feedForward: number;
  vocabulary: number;
  context: number;
  tied: boolean;
  quantisation: string;
}

export type ModelSource = { path: string } | { shape: MadeUpModel };

export interface OpenedModel {
  architecture: string;
  layers: number;
  embedding: number;
  heads: number;
  kvHeads: number;
  feedForward: number;
  vocabulary: number;
  context: number;
  tied: boolean;
  fileType: string;
  weightBytes: number;
  device: "cpu" | "cuda";
  /** Why this device and no other. */
  deviceReason: string;
  /** The machine has a GPU, the CPU was taken, and nobody asked for it. */
  gpuRefused: boolean;
  /** What training computes in. */
  precision: "bf16" | "fp32";
}

export interface DeviceChoice {
  /** auto: a GPU where one can be used and holds the model. */
  device?: "auto" | "cpu" | "cuda";
  /** Of a GPU at most; 0 or left out: all it has. `memoryBytes` is of the machine. */
  gpuMemoryBytes?: number;
  /** bf16 unless asked for otherwise; fp32 on a CPU without AVX512-BF16. On a CPU it is of forwardBackward alone. */
  precision?: "bf16" | "fp32";
}

export type AdapterTarget =
  | "attn_q"
  | "attn_k"
  | "attn_v"
  | "attn_output"
  | "ffn_gate"
  | "ffn_up"
  | "ffn_down"
  | "output";

export interface AdapterShape {
  rank: number;
  /** scale = alpha / rank */
  alpha: number;
  seed: number;
  targets: AdapterTarget[];
  /** Of the adapter's inputs while it trains, in [0, 1); default 0. */
  dropout?: number;
}

export interface TrainingEstimate {
  weightBytes: number;
  adapterBytes: number;
  passBytes: number;
  /** Peak of the worker on the CPU; of the GPU's memory on a GPU. */
  totalBytes: number;
  /** Of a training step without anything computed twice, rows of longestRow tokens. */
  flopsPerToken: number;
  /** Measured in matrix products on the device, of the mixture that a step has; null for a GPU where none can be used. */
  gemmFlopsPerSecond: number | null;
  /** What that rate allows at most. */
  tokensPerSecond: number | null;
}

/** Since the model was opened. */
export interface TrainerProfile {
  /** What the ops took, and the arithmetic they needed; all 0 on a GPU, which does not say. */
  ops: { name: string; seconds: number; flops: number }[];
  /** The most a GPU's memory held; 0 on the CPU. */
  peakDeviceBytes: number;
  /** How often the GPU's memory ran short and sufficed once what passes had left there was given back. */
  shortages: number;
  /** Which kernels compute, for people. */
  kernels: string;
}

export interface OptimStep {
  learningRate: number;
  beta1: number;
  beta2: number;
  eps: number;
  weightDecay: number;
  /** Global norm; 0 = off. */
  gradClipNorm: number;
}

export interface TrainerSampling {
  maxTokens: number;
  /** 0 = greedy. */
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  seed: number;
  stopTokens: number[];
  /** Likeliest tokens told of every draw; default 0. */
  reportTop?: number;
}

export interface SampledRow {
  tokens: Int32Array;
  /** Raw log-probs in nats at temperature 1, one per sampled token. */
  logprobs: Float32Array;
  stopReason: "stop" | "length";
  /** [drawn · reportTop] at temperature 1 over the whole vocabulary, as `forward` tells them; when asked for. */
  top?: TopTokens;
}

/** A matrix of a layer that writes to the residual stream: attention's output, feed-forward's down. */
export const writers = ["attn_output", "ffn_down"] as const;
export type Writer = (typeof writers)[number];

/** The residual stream after a layer, or what one of its writers reads. */
export type Stream = "residual" | Writer;

export interface ActivationAsk<S extends Stream> {
  /** From 0, ascending. */
  layers: readonly number[];
  streams: readonly S[];
  /** [P] indices of tokens, and the group that each is part of the mean of, from 0. */
  places: Int32Array;
  groups: Int32Array;
}

/** What an edit adds to one matrix W: B A. */
export interface EditedSite {
  layer: number;
  writer: Writer;
  /** [rank, columns of W] */
  a: Float32Array;
  /** [rows of W, rank] */
  b: Float32Array;
}

export interface Edit {
  rank: number;
  /** Each matrix once. */
  sites: EditedSite[];
}

/** How the adapted matrices are stored; all others stay as they are. */
export const mergedWeightTypes = ["f16", "bf16", "f32"] as const;
export type MergedWeightType = (typeof mergedWeightTypes)[number];

export interface SavedFile {
  name: string;
  bytes: number;
  sha256: string;
}

/**
 * One worker process: one frozen base, its adapters, their optimizers. Calls are answered in the order they were made and may
 * be made without waiting. A worker that dies rejects every call that waits with a Failure `trainer_died` that has its last log
 * lines; a verb that fails rejects with a Failure `trainer_error` whose context has the protocol's `code` and `hint`.
 */
export interface Trainer {
  hello(): Promise<TrainerHello>;
  open(model: ModelSource & DeviceChoice & { threads: number; memoryBytes: number }): Promise<OpenedModel>;
  /** Memory and time of training, without opening anything and without the device. passTokens: computed at the same time. */
  estimate(
    training: ModelSource & {
      rank: number;
      targets: AdapterTarget[];
      dropout?: number;
      longestRow: number;
      passTokens: number;
      threads: number;
      device: "cpu" | "cuda";
      precision?: "bf16" | "fp32";
    },
  ): Promise<TrainingEstimate>;
  profile(): Promise<TrainerProfile>;
  createAdapter(adapter: string, shape: AdapterShape): Promise<{ parameters: number; version: number }>;
  dropAdapter(adapter: string): Promise<void>;
  forward(adapter: string | null, rows: WeightedRows): Promise<Losses>;
  forward(adapter: string | null, rows: WeightedRows, topK: number): Promise<Losses & { top: TopTokens }>;
  /** Adds the gradient of the loss to the adapter's. */
  forwardBackward(adapter: string, rows: WeightedRows): Promise<Losses>;
  optimStep(
    adapter: string,
    step: OptimStep,
  ): Promise<{ step: number; version: number; gradNorm: number; clipped: boolean }>;
  /** A step of a moving average of `from`, an adapter of the same rank, alpha and targets: of its factors, not of their product. */
  averageAdapter(adapter: string, from: string, decay: number): Promise<{ version: number }>;
  sample(adapter: string | null, prompts: Rows, sampling: TrainerSampling, version?: number): Promise<SampledRow[]>;
  /** Log-probs [T] of every token from promptLengths[row] on; 0 before it. */
  score(adapter: string | null, rows: Rows, promptLengths: Int32Array): Promise<Float32Array>;
  /** Means over the groups, of every stream [layers, groups, width]. */
  activations<S extends Stream>(
    adapter: string | null,
    rows: Rows,
    ask: ActivationAsk<S>,
  ): Promise<{ streams: Record<S, Float32Array>; computedTokens: number }>;
  /** What a unit vector of the stream reads of a writer W: r, which is that vector but where the model norms what W gives, and rᵀW. */
  project(
    adapter: string | null,
    site: Pick<EditedSite, "layer" | "writer">,
    unit: Float32Array,
  ): Promise<{ direction: Float32Array; row: Float32Array }>;
  /** A new adapter that does what `from` does and adds the edit: ranks are concatenated, the scale stays. */
  stackAdapter(adapter: string, from: string, edit: Edit): Promise<Pick<AdapterShape, "rank" | "alpha" | "targets">>;
  save(adapter: string, folder: string): Promise<SavedFile[]>;
  /** From a folder of `save`, or from a GGUF adapter: then with step 0 and no moments. */
  load(adapter: string, path: string): Promise<{ step: number; version: number }>;
  /** As llama.cpp loads it. Names of `metadata` begin with plumbline. here and below. */
  exportGguf(adapter: string, file: string, metadata: Record<string, string>): Promise<SavedFile>;
  /** A folder as PEFT and vLLM load it. */
  exportPeft(adapter: string, folder: string, metadata: Record<string, string>): Promise<SavedFile[]>;
  /** The base with the adapter merged into its weights, as GGUF. */
  exportMerged(
    adapter: string,
    file: string,
    weightType: MergedWeightType,
    metadata: Record<string, string>,
  ): Promise<SavedFile>;
  /** Closes the worker's stdin and waits for it; kills it after graceMs. */
  close(graceMs?: number): Promise<void>;
  /** Set once the worker has ended, with why. */
  readonly ended: Promise<{ code: number | null; signal: string | null; lastLog: string }>;
}
