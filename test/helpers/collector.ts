// An OpenTelemetry collector: keeps the spans that it is sent as OTLP over HTTP, and answers as it is told.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface CollectedSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  attributes: Record<string, unknown>;
  /** Nanoseconds, as text. */
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  status: { code?: number; message?: string };
}

interface Wire {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: { spans: (Omit<CollectedSpan, "attributes"> & { attributes: Attribute[] })[] }[];
  }[];
}
type Attribute = { key: string; value: Record<string, unknown> };

const plain = (attributes: readonly Attribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

export async function startCollector() {
  const spans: CollectedSpan[] = [];
  const it = { spans, url: "", resource: {} as Record<string, unknown>, requests: 0, status: 200, close: () => {} };
  const server = createServer((request, response) => {
    it.requests++;
    let text = "";
    request.on("data", (part: Buffer) => {
      text += part.toString("utf8");
    });
    request.on("end", () => {
      for (const { resource, scopeSpans } of (JSON.parse(text) as Wire).resourceSpans) {
        it.resource = plain(resource.attributes);
        for (const scope of scopeSpans)
          for (const span of scope.spans) spans.push({ ...span, attributes: plain(span.attributes) });
      }
      response.writeHead(it.status, { "content-type": "application/json" });
      response.end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  it.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`;
  it.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return it;
}
