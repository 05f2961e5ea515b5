// Traces reach the collector that the setting names, say where the time of a request went, and hurt nothing where it fails.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { noTraces } from "../../src/base/traces.ts";
import { openTraces } from "../../src/base/tracing.ts";
import { startCollector } from "../helpers/collector.ts";
import { eventually } from "../helpers/house.ts";
import { scriptedHouse } from "../helpers/scripted.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${parentId}-01`;
const question = "When does the secret harbour open?";

test("a chat's spans: the request under the client's, in it queue, prefill and decode; an upstream is told of the trace", async (context) => {
  const collector = await startCollector();
  let told = "";
  const upstream = createServer((request, response) => {
    told = String(request.headers.traceparent);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ id: "x", object: "chat.completion", created: 1, model: "big", choices: [] }));
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const it = await scriptedHouse({
    PLUMBLINE_TRACES: collector.url,
    PLUMBLINE_UPSTREAMS: `far=http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`,
  });
  context.after(async () => {
    await it.close();
    collector.close();
    upstream.close();
  });
  const { modelId } = await it.align();
  const body = { model: modelId, messages: [{ role: "user", content: question }] };
  assert.equal((await it.call("inference.chat", { body, headers: { traceparent } })).status, 200);
  await it.get("/api/v3/inference/chat/completions", {
    method: "POST",
    headers: { traceparent, "x-provider": "far", "content-type": "application/json" },
    body: JSON.stringify({ ...body, model: "big" }),
  });
  await it.call("documents.list", { headers: { traceparent: "00-nonsense-01" } });
  await it.get("/healthz");
  await eventually(async () => collector.spans.some(({ name }) => name === "GET documents.list"), 10_000);

  const [chat] = collector.spans.filter(({ name }) => name === "POST inference.chat");
  assert.deepEqual([chat!.traceId, chat!.parentSpanId], [traceId, parentId]);
  assert.equal(chat!.attributes["http.response.status_code"], 200);
  for (const phase of ["queue", "prefill", "decode"]) {
    const [span] = collector.spans.filter(({ name }) => name === phase);
    assert.deepEqual([span?.traceId, span?.parentSpanId], [traceId, chat!.spanId], phase);
    assert.ok(BigInt(span!.startTimeUnixNano) >= BigInt(chat!.startTimeUnixNano), phase);
    assert.ok(BigInt(span!.endTimeUnixNano) <= BigInt(chat!.endTimeUnixNano), phase);
  }
  assert.match(told, new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  assert.notEqual(collector.spans.find(({ name }) => name === "GET documents.list")!.traceId, traceId);
  assert.equal(collector.resource["service.name"], "plumbline");
  const everything = JSON.stringify(collector.spans);
  assert.doesNotMatch(everything, /harbour|healthz|Bearer/);
});

test("a collector that refuses or is gone is told of once in the log, and no request notices", async (context) => {
  for (const how of ["refuses", "is gone"]) {
    const collector = await startCollector();
    context.after(() => collector.close());
    collector.status = 400;
    if (how === "is gone") collector.close();
    const lines: string[] = [];
    const traces = await openTraces(collector.url, {
      version: "1",
      log: createLog("warn", (line) => lines.push(line)),
    });
    // More than the buffer holds.
    for (let round = 0; round < 5000; round++) {
      const span = traces.begin("work");
      assert.equal(await span.run(async () => round), round);
      span.end({ error: "failed" });
    }
    await eventually(async () => lines.length > 0, 20_000);
    await traces.close();
    assert.equal(lines.length, 1, lines.join(""));
    assert.match(lines[0]!, /traces\.not_sent/);
    assert.ok(collector.spans.length <= 2048 + 512, String(collector.spans.length));
  }
});

test("without the setting nothing is recorded", async () => {
  const log = createLog("error", () => {});
  assert.equal(await openTraces("", { version: "1", log }), noTraces);
  assert.deepEqual(noTraces.headers(), {});
  assert.equal(
    noTraces.begin("x").run(() => 1),
    1,
  );
});
