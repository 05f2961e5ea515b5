// The trainer's verbs as typed calls and results. native/protocol.md describes the worker's side; trainer-process.ts
// implements this interface.
/** The soft target that stands for all tokens that are not among the other soft targets of the same token, taken together. */
export const restOfVocabulary = -1;

/** Rows, concatenated. tokens [T]; rowLengths [R], summing to T. */
export interface Rows {
  tokens: Int32Array;
  rowLengths: Int32Array;
}

/**
 * Weights of tokens in the loss. A weight stands at the token that is predicted. The first token of a row is never predicted,
 * so its weights must be 0.
 */
export interface WeightedRows extends Rows {
  /** [T] weights of −log-prob. */
  weights: Float32Array;
  /** [T] weights of −entropy: an entropy bonus. */
  entropyWeights?: Float32Array;
  /** [T] weights of the squared log-sum of the logits. */
  zWeights?: Float32Array;
  /**
   * [T · K] K more targets per token, and the weights of their −log-probs. A token with fewer targets has the target 0 with
   * weight 0 in the other places. restOfVocabulary may occur once per token.
   */
  soft?: { targets: Int32Array; weights: Float32Array };
}

/** In nats. For a token without weights, all values are 0. */
export interface Losses {
  /** −Σ weight · log-prob − Σ entropyWeight · entropy + Σ zWeight · logSum²; the first sum includes the soft targets. */
  loss: number;
  /** [T] */
  logprobs: Float32Array;
  entropies: Float32Array;
  /** [T] log of the sum of the exponentials of the logits. */
  logSums: Float32Array;
  /** [T · K]; null if there were no soft targets. */
  softLogprobs: Float32Array | null;
  /** Number of tokens that went through the layers. A prefix that rows share counts once, except on a GPU. */
  computedTokens: number;
}

/** [T · topK], the most likely token first. */
export interface TopTokens {
  tokens: Int32Array;
  logprobs: Float32Array;
}

/** Maximum number of tokens of a row, also told in TrainerHello. */
export const maxRowTokens = 32_768;

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

/** A model with random weights, to measure what a real model costs. `quantisation` is a type as ggml names it, such as "q4_k". */
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
  /** Why this device was chosen. */
  deviceReason: string;
  /** Whether the CPU was chosen although the machine has a GPU and the CPU was not asked for. */
  gpuRefused: boolean;
  /** Number format that training computes in. */
  precision: "bf16" | "fp32";
}

export interface DeviceChoice {
  /** auto: a GPU if one can be used and the model fits in its memory. */
  device?: "auto" | "cpu" | "cuda";
  /** Maximum number of bytes of a GPU's memory to use. Default: 0, all of it. `memoryBytes` limits the machine's memory. */
  gpuMemoryBytes?: number;
  /** Default: bf16, but fp32 on a CPU without AVX512-BF16. On a CPU it applies only to forwardBackward, and to sample with asTrained. */
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
  /** Dropout of the adapter's inputs in training, in [0, 1); default 0. */
  dropout?: number;
  /** Layers before this one have no adapter; default 0. */
  firstLayer?: number;
}

export interface TrainingEstimate {
  weightBytes: number;
  adapterBytes: number;
  passBytes: number;
  /** Peak memory: the worker's on a CPU, the GPU's on a GPU. */
  totalBytes: number;
  /** FLOPs per token of a training step with rows of longestRow tokens, not counting anything computed twice. */
  flopsPerToken: number;
  /** Measured on the device in the mix of matrix products that a step has; null for a GPU when none can be used at the moment. */
  gemmFlopsPerSecond: number | null;
  /** The most tokens per second that this rate allows. */
  tokensPerSecond: number | null;
}

/** Measured since the model was opened. */
export interface TrainerProfile {
  /** Time and arithmetic of each op. All are 0 on a GPU, which does not report them. */
  ops: { name: string; seconds: number; flops: number }[];
  /** Peak use of the GPU's memory; 0 on the CPU. */
  peakDeviceBytes: number;
  /** How often the GPU's memory ran short but sufficed after the memory left over from passes was released. */
  shortages: number;
  /** The kernels in use, for display. */
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
  /** Number of most likely tokens to report for every draw; default 0. */
  reportTop?: number;
  /**
   * Computes the products with frozen weights in the precision of training, which is faster where that is bf16. Log-probs then differ from
   * those of `forward` by the rounding; default false.
   */
  asTrained?: boolean;
}

export interface SampledRow {
  tokens: Int32Array;
  /** Raw log-probs in nats at temperature 1, one per sampled token. */
  logprobs: Float32Array;
  stopReason: "stop" | "length";
  /** [drawn · reportTop] at temperature 1 over the whole vocabulary, as from `forward`; only if reportTop was set. */
  top?: TopTokens;
}

/** The matrices of a layer that write to the residual stream: attention's output matrix and feed-forward's down matrix. */
export const writers = ["attn_output", "ffn_down"] as const;
export type Writer = (typeof writers)[number];

/** The residual stream after a layer, or the input of one of its writers. */
export type Stream = "residual" | Writer;

export interface ActivationAsk<S extends Stream> {
  /** Layer indices from 0, ascending. */
  layers: readonly number[];
  streams: readonly S[];
  /** `places` [P] are indices of tokens; `groups` [P] are numbers from 0 of the groups to whose means the tokens contribute. */
  places: Int32Array;
  groups: Int32Array;
}

/** The product B A that an edit adds to one matrix W. */
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
  /** At most one per matrix. */
  sites: EditedSite[];
}

/** The types in which the adapted matrices can be stored. All other tensors stay as they are. */
export const mergedWeightTypes = ["f16", "bf16", "f32"] as const;
export type MergedWeightType = (typeof mergedWeightTypes)[number];

export interface SavedFile {
  name: string;
  bytes: number;
  sha256: string;
}

/**
 * One worker process: one frozen base, its adapters, their optimizers. Calls may be made without waiting and are answered in
 * the order they were made. If the worker dies, every pending call rejects with a Failure `trainer_died` that has its last
 * log lines. A verb that fails rejects with a Failure `trainer_error` whose context has the protocol's `code` and `hint`, and
 * its message as `refusal`.
 */
export interface Trainer {
  hello(): Promise<TrainerHello>;
  open(model: ModelSource & DeviceChoice & { threads: number; memoryBytes: number }): Promise<OpenedModel>;
  /**
   * Estimates memory and time of training without opening a model. No GPU is needed to estimate for one, but the speed is then
   * null. `passTokens` is the number of tokens computed at once.
   */
  estimate(
    training: ModelSource & {
      rank: number;
      targets: AdapterTarget[];
      dropout?: number;
      firstLayer?: number;
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
  /** Adds the gradient of the loss to the adapter's gradient. */
  forwardBackward(adapter: string, rows: WeightedRows): Promise<Losses>;
  optimStep(
    adapter: string,
    step: OptimStep,
  ): Promise<{ step: number; version: number; gradNorm: number; clipped: boolean }>;
  /**
   * Makes one step of an exponential moving average of `from`, which must have the same rank, alpha, targets and first layer.
   * The adapter keeps the share `decay` of its values. The factors A and B are averaged, not their product.
   */
  averageAdapter(adapter: string, from: string, decay: number): Promise<{ version: number }>;
  sample(adapter: string | null, prompts: Rows, sampling: TrainerSampling, version?: number): Promise<SampledRow[]>;
  /** Returns [T] log-probs, in nats, of the tokens of each row from promptLengths[row] on; 0 for the tokens before. */
  score(adapter: string | null, rows: Rows, promptLengths: Int32Array): Promise<Float32Array>;
  /** Returns the means over the places of each group, [layers, groups, width] per stream. */
  activations<S extends Stream>(
    adapter: string | null,
    rows: Rows,
    ask: ActivationAsk<S>,
  ): Promise<{ streams: Record<S, Float32Array>; computedTokens: number }>;
  /**
   * Projects the adapted matrix W of a writer on a unit vector of the residual stream. Returns the direction r and the row rᵀW.
   * r is the vector itself unless the model normalises W's output.
   */
  project(
    adapter: string | null,
    site: Pick<EditedSite, "layer" | "writer">,
    unit: Float32Array,
  ): Promise<{ direction: Float32Array; row: Float32Array }>;
  /** Makes a new adapter that does what `from` does and adds the edit. Ranks are concatenated; the scale stays the same. */
  stackAdapter(
    adapter: string,
    from: string,
    edit: Edit,
  ): Promise<Pick<AdapterShape, "rank" | "alpha" | "targets" | "firstLayer">>;
  save(adapter: string, folder: string): Promise<SavedFile[]>;
  /**
   * Loads a folder of `save`, a GGUF adapter or a PEFT folder, into an adapter that was created with the same shape. The last two
   * start at step 0 without optimizer moments.
   */
  load(adapter: string, path: string): Promise<{ step: number; version: number }>;
  /** Writes an adapter for llama.cpp. Names in `metadata` begin with "plumbline.", here and below. */
  exportGguf(adapter: string, file: string, metadata: Record<string, string>): Promise<SavedFile>;
  /** Writes a folder that PEFT and vLLM load. */
  exportPeft(adapter: string, folder: string, metadata: Record<string, string>): Promise<SavedFile[]>;
  /** Writes the base with the adapter merged into its weights, as GGUF. */
  exportMerged(
    adapter: string,
    file: string,
    weightType: MergedWeightType,
    metadata: Record<string, string>,
  ): Promise<SavedFile>;
  /** Closes the worker's stdin and waits until the worker has ended. Kills it after graceMs. */
  close(graceMs?: number): Promise<void>;
  /** Resolves once the worker has ended, with the reason. */
  readonly ended: Promise<{ code: number | null; signal: string | null; lastLog: string }>;
}
