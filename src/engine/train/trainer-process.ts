// Runs the trainer in a process of its own. Calls are sent as requests to its stdin, and the answers from its stdout are
// matched to the calls.
import { Failure } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { type Child, linesOf, startProcess } from "../../base/processes.ts";
import type {
  ActivationAsk,
  AdapterShape,
  DeviceChoice,
  Edit,
  EditedSite,
  Losses,
  MergedWeightType,
  ModelSource,
  OpenedModel,
  OptimStep,
  Rows,
  SampledRow,
  SavedFile,
  Stream,
  TopTokens,
  Trainer,
  TrainerHello,
  TrainerProfile,
  TrainerSampling,
  TrainingEstimate,
  WeightedRows,
} from "./trainer.ts";
import { type Answer, encodeRequest, readAnswers, type WireArray, WireError, write } from "./wire.ts";

/** Number of the worker's latest log lines that are kept for the error when it ends. */
const lastLines = 5;

/** Maximum number of threads that the trainer takes. A machine may have more; what is computed does not depend on them. */
const mostThreads = 64;
const threadsOf = ({ threads }: { threads: number }): number => Math.min(threads, mostThreads);

interface Pending {
  verb: string;
  resolve: (answer: Answer) => void;
  reject: (failure: Failure) => void;
}

/** Starts a worker. The worker ends when `close` is called or this process ends. */
export function startTrainer(options: { executable: string; log: Log }): Trainer {
  return new TrainerProcess(startProcess(options.executable, []), options.log);
}

class TrainerProcess implements Trainer {
  readonly ended: Trainer["ended"];
  readonly #child: Child;
  readonly #log: Log;
  readonly #pending = new Map<number, Pending>();
  readonly #logLines: string[] = [];
  #nextId = 1;
  #died: Failure | null = null;
  /** Resolves when the last request has been written. Each write waits until the pipe has taken the previous one. */
  #written: Promise<void> = Promise.resolve();

  constructor(child: Child, log: Log) {
    this.#child = child;
    this.#log = log;
    const logged = this.#keepLog();
    const read = readAnswers(child.stdout, (answer) => this.#settle(answer)).catch((error: unknown) => {
      // The worker has broken the protocol, so no further answer can be trusted.
      child.kill("SIGKILL");
      this.#logLines.push(String(error));
    });
    this.ended = this.#waitForEnd(logged, read);
  }

  async #keepLog(): Promise<void> {
    for await (const line of linesOf(this.#child.stderr)) {
      this.#logLines.push(line);
      if (this.#logLines.length > lastLines) this.#logLines.shift();
      this.#log("debug", "trainer", { pid: this.#child.pid, line });
    }
  }

  async #waitForEnd(logged: Promise<void>, read: Promise<void>): Trainer["ended"] {
    let end: { code: number | null; signal: string | null };
    try {
      end = await this.#child.ended;
      await Promise.allSettled([logged, read]);
    } catch (error) {
      end = { code: null, signal: null };
      this.#logLines.push((error as Error).message);
    }
    const lastLog = this.#logLines.join("\n");
    const how = end.signal === null ? `code ${end.code}` : `signal ${end.signal}`;
    this.#died = new Failure("trainer_died", `The trainer ended with ${how}${lastLog === "" ? "" : `: ${lastLog}`}`, {
      context: { ...end, lastLog },
    });
    for (const { reject } of this.#pending.values()) reject(this.#died);
    this.#pending.clear();
    return { ...end, lastLog };
  }

  #settle(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    const { ok, error, ...fields } = answer.fields;
    if (ok === true && pending) {
      this.#pending.delete(answer.id);
      pending.resolve({ ...answer, fields });
      return;
    }
    const { code, message, hint, fatal } = (error ?? {}) as Record<string, unknown>;
    // No call waits for this answer, for example because the worker could not read the request's id. This error makes the reader
    // kill the worker, whose end rejects all pending calls.
    if (!pending) throw new WireError(`an answer to no pending request: ${JSON.stringify(answer.fields)}`);
    this.#pending.delete(answer.id);
    pending.reject(
      new Failure("trainer_error", `${pending.verb}: ${message} (${code})`, {
        context: { code, refusal: message, hint, fatal },
      }),
    );
  }

  #call(verb: string, fields: Record<string, unknown> = {}, payload: Record<string, WireArray> = {}): Promise<Answer> {
    if (this.#died) return Promise.reject(this.#died);
    const id = this.#nextId++;
    let parts: Uint8Array[];
    try {
      parts = encodeRequest(id, verb, fields, payload);
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      return Promise.reject(
        new Failure("trainer_error", error.message, {
          context: { code: "frame_too_large", hint: "Send less at once." },
        }),
      );
    }
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { verb, resolve, reject });
      this.#written = this.#written.then(() => write(this.#child.stdin, parts));
    });
  }

  async hello(): Promise<TrainerHello> {
    const { fields } = await this.#call("hello", { protocol: 1 });
    const limits = fields.limits as Record<string, number>;
    const { no_gpu, ...same } = fields;
    return {
      ...(same as unknown as TrainerHello),
      noGpu: no_gpu as string | null,
      devices: (fields.devices as Record<string, unknown>[]).map(
        ({ memory_bytes, compute_capability, pass_tokens, ...device }) =>
          ({
            ...device,
            passTokens: pass_tokens,
            ...(device.kind === "cuda" && { memoryBytes: memory_bytes, computeCapability: compute_capability }),
          }) as TrainerHello["devices"][number],
      ),
      limits: {
        maxHeaderBytes: limits.max_header_bytes!,
        maxPayloadBytes: limits.max_payload_bytes!,
        maxRowTokens: limits.max_row_tokens!,
        maxBatchTokens: limits.max_batch_tokens!,
      },
    };
  }

  async open(model: ModelSource & DeviceChoice & { threads: number; memoryBytes: number }): Promise<OpenedModel> {
    const { fields } = await this.#call("open", {
      ...sourceFields(model),
      threads: threadsOf(model),
      memory_bytes: model.memoryBytes,
      ...(model.gpuMemoryBytes !== undefined && { gpu_memory_bytes: model.gpuMemoryBytes }),
      ...(model.device && { device: model.device }),
      ...(model.precision && { precision: model.precision }),
    });
    const { kv_heads, feed_forward, file_type, weight_bytes, device_reason, gpu_refused, ...same } = fields;
    const { device, precision } = fields;
    this.#log(gpu_refused ? "warn" : "info", "trainer_device", {
      pid: this.#child.pid,
      device,
      precision,
      reason: device_reason,
    });
    return {
      ...(same as unknown as OpenedModel),
      kvHeads: kv_heads as number,
      feedForward: feed_forward as number,
      fileType: file_type as string,
      weightBytes: weight_bytes as number,
      deviceReason: device_reason as string,
      gpuRefused: gpu_refused as boolean,
    };
  }

  async estimate(training: Parameters<Trainer["estimate"]>[0]): Promise<TrainingEstimate> {
    const { fields } = await this.#call("estimate", {
      ...sourceFields(training),
      rank: training.rank,
      targets: training.targets,
      ...(training.dropout !== undefined && { dropout: training.dropout }),
      ...(training.firstLayer !== undefined && { first_layer: training.firstLayer }),
      longest_row: training.longestRow,
      pass_tokens: training.passTokens,
      threads: threadsOf(training),
      device: training.device,
      ...(training.precision && { precision: training.precision }),
    });
    return {
      weightBytes: fields.weight_bytes as number,
      adapterBytes: fields.adapter_bytes as number,
      passBytes: fields.pass_bytes as number,
      totalBytes: fields.total_bytes as number,
      flopsPerToken: fields.flops_per_token as number,
      gemmFlopsPerSecond: fields.gemm_flops_per_second as number | null,
      tokensPerSecond: fields.tokens_per_second as number | null,
    };
  }

  async profile(): Promise<TrainerProfile> {
    const { fields } = await this.#call("profile");
    return {
      ops: fields.ops as TrainerProfile["ops"],
      peakDeviceBytes: fields.peak_device_bytes as number,
      shortages: fields.shortages as number,
      kernels: fields.kernels as string,
    };
  }

  async createAdapter(
    adapter: string,
    { firstLayer: first_layer = 0, ...shape }: AdapterShape,
  ): Promise<{ parameters: number; version: number }> {
    const { fields } = await this.#call("adapter_create", { adapter, ...shape, first_layer });
    return fields as { parameters: number; version: number };
  }

  async dropAdapter(adapter: string): Promise<void> {
    await this.#call("adapter_drop", { adapter });
  }

  async forward(adapter: string | null, rows: WeightedRows, topK = 0): Promise<Losses & { top: TopTokens }> {
    const answer = await this.#call("forward", { adapter, top_k: topK }, weightedRows(rows));
    return {
      ...lossesOf(answer),
      ...(topK > 0 && { top: topTokens(answer.payload) }),
    } as Losses & { top: TopTokens };
  }

  async forwardBackward(adapter: string, rows: WeightedRows): Promise<Losses> {
    return lossesOf(await this.#call("forward_backward", { adapter }, weightedRows(rows)));
  }

  async optimStep(
    adapter: string,
    step: OptimStep,
  ): Promise<{ step: number; version: number; gradNorm: number; clipped: boolean }> {
    const { fields } = await this.#call("optim_step", {
      adapter,
      learning_rate: step.learningRate,
      beta1: step.beta1,
      beta2: step.beta2,
      eps: step.eps,
      weight_decay: step.weightDecay,
      grad_clip_norm: step.gradClipNorm,
    });
    const { grad_norm, ...same } = fields;
    return { ...(same as { step: number; version: number; clipped: boolean }), gradNorm: grad_norm as number };
  }

  async averageAdapter(adapter: string, from: string, decay: number): Promise<{ version: number }> {
    const { fields } = await this.#call("adapter_average", { adapter, from, decay });
    return fields as { version: number };
  }

  async sample(
    adapter: string | null,
    prompts: Rows,
    sampling: TrainerSampling,
    version?: number,
  ): Promise<SampledRow[]> {
    const topK = sampling.reportTop ?? 0;
    const { fields, payload } = await this.#call(
      "sample",
      {
        adapter,
        ...(version === undefined ? {} : { version }),
        max_tokens: sampling.maxTokens,
        temperature: sampling.temperature,
        top_k: sampling.topK,
        top_p: sampling.topP,
        min_p: sampling.minP,
        seed: sampling.seed,
        stop_tokens: sampling.stopTokens,
        report_top: topK,
        as_trained: sampling.asTrained ?? false,
      },
      { tokens: prompts.tokens, row_lengths: prompts.rowLengths },
    );
    const tokens = payload.tokens as Int32Array;
    const logprobs = payload.logprobs as Float32Array;
    const reasons = fields.stop_reasons as ("stop" | "length")[];
    const top = topK > 0 ? topTokens(payload) : null;
    let at = 0;
    return Array.from(payload.row_lengths as Int32Array, (length, row) => {
      const from = at;
      at += length;
      return {
        tokens: tokens.slice(from, at),
        logprobs: logprobs.slice(from, at),
        stopReason: reasons[row]!,
        ...(top && { top: cutTop(top, from * topK, at * topK) }),
      };
    });
  }

  async score(adapter: string | null, rows: Rows, promptLengths: Int32Array): Promise<Float32Array> {
    const { payload } = await this.#call(
      "score",
      { adapter },
      { tokens: rows.tokens, row_lengths: rows.rowLengths, prompt_lengths: promptLengths },
    );
    return payload.logprobs as Float32Array;
  }

  async activations<S extends Stream>(
    adapter: string | null,
    rows: Rows,
    { layers, streams, places, groups }: ActivationAsk<S>,
  ): Promise<{ streams: Record<S, Float32Array>; computedTokens: number }> {
    const { fields, payload } = await this.#call(
      "activations",
      { adapter, layers, streams },
      { tokens: rows.tokens, row_lengths: rows.rowLengths, places, groups },
    );
    return { streams: payload as Record<S, Float32Array>, computedTokens: fields.computed_tokens as number };
  }

  async project(
    adapter: string | null,
    { layer, writer }: Pick<EditedSite, "layer" | "writer">,
    unit: Float32Array,
  ): Promise<{ direction: Float32Array; row: Float32Array }> {
    const { payload } = await this.#call("project", { adapter, layer, target: writer }, { vector: unit });
    return { direction: payload.direction as Float32Array, row: payload.row as Float32Array };
  }

  async stackAdapter(
    adapter: string,
    from: string,
    { rank, sites }: Edit,
  ): Promise<Pick<AdapterShape, "rank" | "alpha" | "targets" | "firstLayer">> {
    const { fields } = await this.#call(
      "adapter_stack",
      { adapter, from, rank, sites: sites.map(({ layer, writer }) => [layer, writer]) },
      { a: joined(sites.map(({ a }) => a)), b: joined(sites.map(({ b }) => b)) },
    );
    const { rank: whole, alpha, targets } = fields as Pick<AdapterShape, "rank" | "alpha" | "targets">;
    return { rank: whole, alpha, targets, firstLayer: fields.first_layer as number };
  }

  async save(adapter: string, folder: string): Promise<SavedFile[]> {
    const { fields } = await this.#call("save", { adapter, path: folder });
    return fields.files as SavedFile[];
  }

  async load(adapter: string, path: string): Promise<{ step: number; version: number }> {
    const { fields } = await this.#call("load", { adapter, path });
    return fields as { step: number; version: number };
  }

  async exportGguf(adapter: string, file: string, metadata: Record<string, string>): Promise<SavedFile> {
    const [saved] = await this.#export({ adapter, path: file, format: "gguf", metadata });
    return saved!;
  }

  exportPeft(adapter: string, folder: string, metadata: Record<string, string>): Promise<SavedFile[]> {
    return this.#export({ adapter, path: folder, format: "peft", metadata });
  }

  async exportMerged(
    adapter: string,
    file: string,
    weightType: MergedWeightType,
    metadata: Record<string, string>,
  ): Promise<SavedFile> {
    const fields = { adapter, path: file, format: "gguf_merged", weight_type: weightType, metadata };
    const [saved] = await this.#export(fields);
    return saved!;
  }

  async #export(request: Record<string, unknown>): Promise<SavedFile[]> {
    const { fields } = await this.#call("export", request);
    return fields.files as SavedFile[];
  }

  async close(graceMs = 10_000): Promise<void> {
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), graceMs);
    void this.#written.then(() => this.#child.stdin.end());
    await this.ended;
    clearTimeout(timer);
  }
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

const weightedRows = (rows: WeightedRows): Record<string, WireArray> => ({
  tokens: rows.tokens,
  row_lengths: rows.rowLengths,
  weights: rows.weights,
  ...(rows.entropyWeights && { entropy_weights: rows.entropyWeights }),
  ...(rows.zWeights && { z_weights: rows.zWeights }),
  ...(rows.soft && { soft_targets: rows.soft.targets, soft_weights: rows.soft.weights }),
});

const topTokens = (payload: Answer["payload"]): TopTokens => ({
  tokens: payload.top_tokens as Int32Array,
  logprobs: payload.top_logprobs as Float32Array,
});

/** A copy of the entries from `from` up to `end`. */
const cutTop = ({ tokens, logprobs }: TopTokens, from: number, end: number): TopTokens => ({
  tokens: tokens.slice(from, end),
  logprobs: logprobs.slice(from, end),
});

const lossesOf = ({ fields, payload }: Answer): Losses => ({
  loss: fields.loss as number,
  logprobs: payload.logprobs as Float32Array,
  entropies: payload.entropies as Float32Array,
  logSums: payload.log_sums as Float32Array,
  softLogprobs: (payload.soft_logprobs as Float32Array | undefined) ?? null,
  computedTokens: fields.computed_tokens as number,
});

function sourceFields(source: ModelSource): Record<string, unknown> {
  if ("path" in source) return { path: source.path };
  const { kvHeads, headValues, feedForward, ...same } = source.shape;
  return { shape: { ...same, kv_heads: kvHeads, head_values: headValues, feed_forward: feedForward } };
}
