// The trainer's verbs as typed calls. The worker's side of every promise here is native/protocol.md.

/** Rows one behind the other. tokens [T]; rowLengths [R], summing to T; weights [T], each on the token it weighs. */
export interface Rows {
  tokens: Int32Array;
  rowLengths: Int32Array;
}

export interface WeightedRows extends Rows {
  weights: Float32Array;
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
  devices: { kind: "cpu" | "cuda"; name: string; threads: number; features: string[] }[];
  architectures: string[];
  limits: TrainerLimits;
}

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
}

export type AdapterTarget = "attn_q" | "attn_k" | "attn_v" | "attn_output" | "ffn_gate" | "ffn_up" | "ffn_down";

export interface AdapterShape {
  rank: number;
  /** scale = alpha / rank */
  alpha: number;
  seed: number;
  targets: AdapterTarget[];
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
}

export interface SampledRow {
  tokens: Int32Array;
  /** Raw log-probs in nats at temperature 1, one per sampled token. */
  logprobs: Float32Array;
  stopReason: "stop" | "length";
}

export interface SavedFile {
  name: string;
  bytes: number;
  sha256: string;
}

/**
 * One worker process: one frozen base, its adapters, their optimizers. Calls are answered in the order they were made and may
 * be made without waiting. A worker that dies rejects every call that waits, with its last log line; a verb that fails
 * rejects with a Failure whose code is `trainer_<code of the protocol>`.
 */
export interface Trainer {
  hello(): Promise<TrainerHello>;
  open(model: { path: string; threads: number; memoryBytes: number }): Promise<OpenedModel>;
  createAdapter(adapter: string, shape: AdapterShape): Promise<{ parameters: number; version: number }>;
  dropAdapter(adapter: string): Promise<void>;
  /** loss = −Σ weight · log-prob, summed; logprobs and entropies [T] in nats, 0 where the weight is 0. */
  forward(
    adapter: string | null,
    rows: WeightedRows,
  ): Promise<{ loss: number; logprobs: Float32Array; entropies: Float32Array }>;
  forwardBackward(adapter: string, rows: WeightedRows): Promise<{ loss: number; logprobs: Float32Array }>;
  optimStep(
    adapter: string,
    step: OptimStep,
  ): Promise<{ step: number; version: number; gradNorm: number; clipped: boolean }>;
  sample(adapter: string | null, prompts: Rows, sampling: TrainerSampling, version?: number): Promise<SampledRow[]>;
  /** Log-probs [T] of every token from promptLengths[row] on; 0 before it. */
  score(adapter: string | null, rows: Rows, promptLengths: Int32Array): Promise<Float32Array>;
  save(adapter: string, folder: string): Promise<SavedFile[]>;
  load(adapter: string, folder: string): Promise<{ step: number; version: number }>;
  exportGguf(
    adapter: string,
    file: string,
    metadata: Record<string, string>,
  ): Promise<{ bytes: number; sha256: string }>;
  /** Closes the worker's stdin and waits for it; kills it after graceMs. */
  close(graceMs?: number): Promise<void>;
  /** Set once the worker has ended, with why. */
  readonly ended: Promise<{ code: number | null; signal: string | null; lastLog: string }>;
}
