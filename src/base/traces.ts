// Traces: spans of requests and long work for an OpenTelemetry collector. Without a collector, nothing is recorded and no OpenTelemetry
// library is loaded. Attributes are names, numbers and ids, and never the text of a document, a question or an answer.

export type Attributes = Record<string, string | number | boolean>;

/** A span that is open. */
export interface Span {
  /** Runs `work` so that spans begun within it become children of this span. */
  run<T>(work: () => T): T;
  /** Adds a child that has already ended. Its times are values of performance.now(). */
  record(name: string, beganMs: number, endedMs: number, attributes?: Attributes): void;
  /** `name` replaces the name that was given at the start; `error` says why the work failed. */
  end(told?: { name?: string; attributes?: Attributes; error?: string }): void;
}

export interface Traces {
  /**
   * Begins a span. If `traceparent` names a client's trace, the span continues that trace. Otherwise it is a child of the current span,
   * or begins a new trace if there is no current span.
   */
  begin(name: string, told?: { kind?: "server" | "internal"; traceparent?: string; attributes?: Attributes }): Span;
  /** The current span, to which `record` adds children. Without a current span, `record` does nothing. */
  current(): Pick<Span, "record">;
  /** Headers with which another server can continue the current trace (W3C Trace Context). Empty outside a trace. */
  headers(): Record<string, string>;
  /** Sends the remaining spans, for two seconds at most. */
  close(): Promise<void>;
}

const silent: Span = { run: (work) => work(), record() {}, end() {} };

export const noTraces: Traces = {
  begin: () => silent,
  current: () => silent,
  headers: () => ({}),
  close: async () => {},
};
