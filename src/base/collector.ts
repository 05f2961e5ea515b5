// Sends the spans of traces.ts as OTLP over HTTP in JSON to the one collector that PLUMBLINE_TRACES names. This module is imported only
// if a collector is set. Spans wait in a bounded buffer and are dropped when the buffer is full. If the collector fails, the failure
// is logged and reported nowhere else.
import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, type Span as OtelSpan, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import type { Log } from "./log.ts";
import type { Span, Traces } from "./traces.ts";

const limits = { maxQueueSize: 2048, maxExportBatchSize: 512, scheduledDelayMillis: 1000, exportTimeoutMillis: 5000 };

/** Maximum time for sending the last spans when the appliance stops. */
const closeMs = 2000;

/** Failures to send are logged at most once in this time. */
const tellEveryMs = 60_000;

export function openCollector(url: string, { version, log }: { version: string; log: Log }): Traces {
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: limits.exportTimeoutMillis });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": "plumbline", "service.version": version }),
    spanProcessors: [new BatchSpanProcessor({ exporter: telling(exporter, log), ...limits })],
  });
  const tracer = provider.getTracer("plumbline", version);
  const current = new AsyncLocalStorage<Context>();

  function spanOf(span: OtelSpan, context: Context): Span {
    const within = trace.setSpan(context, span);
    return {
      run: (work) => current.run(within, work),
      record(name, beganMs, endedMs, attributes = {}) {
        tracer.startSpan(name, { startTime: timeOf(beganMs), attributes }, within).end(timeOf(endedMs));
      },
      end({ name, attributes = {}, error } = {}) {
        if (name !== undefined) span.updateName(name);
        span.setAttributes(attributes);
        if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: error });
        span.end(timeOf(performance.now()));
      },
    };
  }

  return {
    begin(name, { kind = "internal", traceparent, attributes = {} } = {}) {
      const remote = traceparent === undefined ? null : contextOf(traceparent);
      const context = remote ?? current.getStore() ?? ROOT_CONTEXT;
      const options = { kind: kind === "server" ? SpanKind.SERVER : SpanKind.INTERNAL, attributes };
      return spanOf(tracer.startSpan(name, { ...options, startTime: timeOf(performance.now()) }, context), context);
    },
    current() {
      const context = current.getStore();
      const span = context && trace.getSpan(context);
      return span ? spanOf(span, context) : { record() {} };
    },
    headers(): Record<string, string> {
      const context = current.getStore();
      const span = context && trace.getSpanContext(context);
      if (!span) return {};
      const flags = span.traceFlags.toString(16).padStart(2, "0");
      return { traceparent: `00-${span.traceId}-${span.spanId}-${flags}` };
    },
    async close() {
      const late = new Promise<void>((resolve) => setTimeout(resolve, closeMs).unref());
      await Promise.race([provider.shutdown().catch(() => {}), late]);
    },
  };
}

/** Converts a value of performance.now() to Unix time, both in milliseconds. */
const timeOf = (ms: number): number => performance.timeOrigin + ms;

/** Returns the context in a client's `traceparent` header; null if the header does not conform to W3C Trace Context. */
function contextOf(traceparent: string): Context | null {
  const match = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent);
  if (!match) return null;
  const [, traceId = "", spanId = "", flags = ""] = match;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
  });
}

/** Wraps an exporter so that its failures are logged. */
function telling(exporter: SpanExporter, log: Log): SpanExporter {
  let toldMs = Number.NEGATIVE_INFINITY;
  return {
    export(spans: ReadableSpan[], done) {
      exporter.export(spans, (result) => {
        if (result.error && performance.now() - toldMs > tellEveryMs) {
          toldMs = performance.now();
          log("warn", "traces.not_sent", { spans: spans.length, reason: result.error.message });
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush && { forceFlush: () => exporter.forceFlush!() }),
  };
}
