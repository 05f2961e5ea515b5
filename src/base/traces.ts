// Traces: spans of requests and long work for an OpenTelemetry collector. Without one nothing is recorded and no library is loaded.
// Attributes are names, numbers and ids; no text of a document, a question or an answer is among them.

export type Attributes = Record<string, string | number | boolean>;

/** A span that is open. */
export interface Span {
  /** Runs `work` so that spans within it become this one's children. */
  run<T>(work: () => T): T;
  /** Adds a child of known times, as performance.now() gives them. */
  record(name: string, beganMs: number, endedMs: number, attributes?: Attributes): void;
  /** `name` replaces the name that was given at the start; `error` says why the work failed. */
  end(told?: { name?: string; attributes?: Attributes; error?: string }): void;
}

export interface Traces {
  /** Begins a span: of a trace that a client has begun, where `traceparent` names one, or within the current span. */
  begin(name: string, told?: { kind?: "server" | "internal"; traceparent?: string; attributes?: Attributes }): Span;
  /** Adds a child to the current span, as Span.record does. */
  current(): Pick<Span, "record">;
  /** Headers by which another server takes up the current trace (W3C Trace Context); none outside of a trace. */
  headers(): Record<string, string>;
  /** Sends what is left; never longer than a moment. */
  close(): Promise<void>;
}

const silent: Span = { run: (work) => work(), record() {}, end() {} };

export const noTraces: Traces = {
  begin: () => silent,
  current: () => silent,
  headers: () => ({}),
  close: async () => {},
};
