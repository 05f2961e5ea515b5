// Long work is followed over streams that break and appliances that start again, and Ctrl-C ends the following alone.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Failure } from "../../src/base/errors.ts";
import { watched } from "../../src/cli/asks.ts";
import { createClient } from "../../src/cli/client.ts";
import { exitCodes, exitOf } from "../../src/cli/exit-codes.ts";
import { followAlignment, followAutoAlign, followBenchmark, followEvaluation } from "../../src/cli/follow.ts";
import type { Step } from "../../src/cli/progress.ts";
import type { RunEvent } from "../../src/contract/run-folder.ts";
import { many } from "./many.ts";

interface Heard {
  path: string;
  lastEventId: string | undefined;
}

async function serving(answer: RequestListener, port = 0): Promise<{ server: Server; address: string; port: number }> {
  const server = createServer(answer).listen(port, "127.0.0.1");
  await once(server, "listening");
  const at = (server.address() as AddressInfo).port;
  return { server, address: `http://127.0.0.1:${at}`, port: at };
}

const recording = () => {
  const shown: Step[] = [];
  const told: string[] = [];
  const show = (step: Step): void => void shown.push(step);
  return { shown, told, progress: { show, tell: (line: string) => void told.push(line), end: () => {} } };
};

const json = (value: unknown): string => JSON.stringify(value);
const event = (seq: number, more: object = {}): string =>
  `id: ${seq}\ndata: ${json({ seq, fence: 1, at: "", kind: "progress", phase: "training", ...more })}\n\n`;

test("a stream that breaks is taken up where it broke, and every event is seen once", async (context) => {
  const heard: Heard[] = [];
  const statuses = ["queued", "queued", "training"];
  const { server, address } = await serving((request, response) => {
    const lastEventId = request.headers["last-event-id"] as string | undefined;
    heard.push({ path: request.url!, lastEventId });
    if (request.url!.endsWith("/status")) {
      const phase = statuses.shift() ?? (heard.some((one) => one.lastEventId) ? "ended" : "training");
      const status = phase === "ended" ? "COMPLETED" : "PROCESSING";
      response.end(json({ phase, status, waiting_for: phase === "queued" ? "memory" : null }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (lastEventId !== undefined)
      response.end(event(3, { done: 3, total: 3, unit: "steps", rate: 2, seconds_left: 0 }));
    else response.write(event(1, { done: 1, total: 3, unit: "steps" }) + event(2), () => response.socket!.destroy());
  });
  context.after(() => server.close());
  const seen: RunEvent[] = [];
  const { shown, progress } = recording();
  const signal = new AbortController().signal;
  const client = createClient(address, "pl_x");
  const status = await followAlignment(client, "alignment_x", progress, signal, (one) => void seen.push(one));
  assert.equal(status.status, "COMPLETED");
  assert.deepEqual(
    seen.map(({ seq }) => seq),
    [1, 2, 3],
  );
  assert.deepEqual(
    heard.filter(({ path }) => path.endsWith("/events")).map(({ lastEventId }) => lastEventId),
    [undefined, "2"],
  );
  assert.deepEqual(shown[0], { phase: "queued", done: 0, total: null, unit: "steps", note: "memory" });
  assert.deepEqual(shown.at(-1), { phase: "training", done: 3, total: 3, unit: "steps", rate: 2, secondsLeft: 0 });
});

test("while a teacher is asked, which makes no events, the status tells how far it is", async (context) => {
  const detail = { phase: "preparing", total: 40, unit: "passages shown to the teacher" };
  let asked = 0;
  const { server, address } = await serving((request, response) => {
    if (request.url!.endsWith("/status")) {
      const timed = asked === 0 ? { rate: null, seconds_left: null } : { rate: 0.5, seconds_left: 80 - 2 * asked };
      const status = asked < 4 ? "PROCESSING" : "COMPLETED";
      response.end(json({ phase: "preparing", status, progress_detail: { ...detail, done: asked++, ...timed } }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" }).write(": keepalive\n\n");
    setTimeout(() => response.end(event(1, { done: 1, total: 3, unit: "steps" })), 1200);
  });
  context.after(() => server.close());
  const { shown, progress } = recording();
  await followAlignment(createClient(address, "k"), "alignment_x", progress, new AbortController().signal);
  const before = shown.slice(0, -1);
  assert.ok(before.length >= 2, json(shown));
  assert.deepEqual(before[0], { ...detail, done: 1, rate: 0.5, secondsLeft: 78 });
  assert.deepEqual(
    before.map(({ done }) => done),
    before.map((_, at) => at + 1),
  );
  assert.equal(shown.at(-1)!.phase, "training");
});

test("a status that is refused ends the following, however long the events are silent", async (context) => {
  let asked = 0;
  const left = Promise.withResolvers<void>();
  const { server, address } = await serving((request, response) => {
    if (!request.url!.endsWith("/status")) {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(": keepalive\n\n");
      response.on("close", left.resolve);
    } else if (asked++ < 2) response.end(json({ phase: "preparing", status: "PROCESSING", progress_detail: null }));
    else response.writeHead(404).end(json({ detail: "No such alignment", error: { code: "not_found" } }));
  });
  context.after(() => server.close());
  const { progress } = recording();
  const following = followAlignment(createClient(address, "k"), "x", progress, new AbortController().signal);
  await assert.rejects(following, (error: Failure) => error.context.status === 404);
  await left.promise;
});

test("each warning is told once, on a line of its own", async (context) => {
  const few = "The teacher wrote nothing about 4 of 40 passages.";
  const lost = "3 facts are not trained.";
  const { server, address } = await serving((request, response) => {
    if (request.url!.endsWith("/status")) {
      response.end(json({ phase: "ended", status: "COMPLETED", progress_detail: null }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const warnings = [few, lost, few].map((message, at) => event(at + 1, { kind: "warning", message }));
    response.end(warnings.join("") + event(4, { done: 1, total: 3, unit: "steps" }));
  });
  context.after(() => server.close());
  const { shown, told, progress } = recording();
  await followAlignment(createClient(address, "k"), "alignment_x", progress, new AbortController().signal);
  assert.deepEqual(told, [`Warning: ${few}`, `Warning: ${lost}`]);
  assert.equal(shown.length, 1);
});

test("an appliance behind a proxy's path is asked there", async (context) => {
  const asked: string[] = [];
  const { server, address } = await serving((request, response) => {
    asked.push(request.url!);
    response.end("{}");
  });
  context.after(() => server.close());
  await createClient(`${address}/plumbline`, "pl_x").api["documents.list"]({ query: { limit: 5, offset: undefined } });
  assert.deepEqual(asked, ["/plumbline/api/v3/documents?limit=5"]);
});

test("a benchmark of serving asks where the settings say", async (context) => {
  const asked: string[] = [];
  const { server, address } = await serving((request, response) => {
    asked.push(request.url!);
    const chunks = [{ choices: [{ text: "Six" }] }, { usage: { completion_tokens: 3 } }];
    response.end(`${chunks.map((chunk) => `data: ${json(chunk)}\n\n`).join("")}data: [DONE]\n\n`);
  });
  context.after(() => server.close());
  const words = ["bench", "serve", "--key", "pl_x", "--model", "m", "--clients", "1", "--requests", "1", "--json"];
  const [byUrl] = await many([[...words, "--url", `${address}/by-url/`]]);
  const [bySetting] = await many([words], { PLUMBLINE_ADDRESS: `${address}/by-setting` });
  assert.deepEqual([byUrl!.code, bySetting!.code], [0, 0], byUrl!.stdout + bySetting!.stdout);
  assert.deepEqual(
    asked,
    ["/by-url", "/by-setting"].map((path) => `${path}/api/v3/inference/completions`),
  );
});

test("an answer that breaks off is an appliance that does not answer", async (context) => {
  const { server, address } = await serving((_, response) => {
    response.writeHead(200, { "content-length": "100" }).write("{", () => response.socket!.destroy());
  });
  context.after(() => server.close());
  const client = createClient(address, "pl_x");
  const isGone = (error: Failure): boolean => error.code === "api_unreachable" && error.message.includes(address);
  await assert.rejects(client.api["documents.list"](), isGone);
  await assert.rejects(client.text("documents.text", { params: { document_id: "x" } }), isGone);
  await assert.rejects(async () => {
    for await (const _ of client.stream("inference.chat", { body: {} }));
  }, isGone);
});

test("what answers in no JSON is no appliance", async (context) => {
  const { server, address } = await serving((_, response) => response.end("<!doctype html><title>Router</title>"));
  context.after(() => server.close());
  await assert.rejects(createClient(address, "pl_x").api["documents.list"](), (error: Failure) => {
    assert.deepEqual([error.code, error.message.includes("Router")], ["api_refused", true]);
    return true;
  });
});

test("an appliance that starts again is waited for", async (context) => {
  const record = (status: string) => json({ status, progress_detail: null, error: null });
  const first = await serving((_, response) => response.end(record("PROCESSING")));
  const signal = new AbortController().signal;
  const following = followBenchmark(createClient(first.address, "pl_x"), "benchmark_x", recording().progress, signal);
  await delay(100);
  first.server.closeAllConnections();
  await new Promise((resolve) => first.server.close(resolve));
  await delay(700);
  const second = await serving((_, response) => response.end(record("READY")), first.port);
  context.after(() => second.server.close());
  assert.equal((await following).status, "READY");
});

test("an auto-align is followed through a pause that was ended, and to one that was not", async (context) => {
  const move = (seq: number, to: string, phase: string | null = null): string =>
    `id: ${seq}\ndata: ${json({ kind: "transition", auto_align_id: "a", alignment_id: "b", from: "", to, phase, at: "" })}\n\n`;
  const statuses = ["RUNNING", "PAUSED", "PAUSED"];
  const { server, address } = await serving((request, response) => {
    if (!request.url!.endsWith("/events")) {
      response.end(json({ status: statuses.shift() }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(move(1, "PAUSED") + move(2, "RUNNING", "distil") + move(3, "PAUSED"));
  });
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { shown, progress } = recording();
  const params = { alignment_id: "b", auto_align_id: "a" };
  const record = await followAutoAlign(createClient(address, "k"), params, progress, new AbortController().signal);
  assert.equal(record.status, "PAUSED");
  assert.deepEqual(
    shown.map(({ phase }) => phase),
    ["paused", "running, distil", "paused"],
  );
});

test("an auto-align that is only recorded is told as such, and not waited for", async (context) => {
  const record = {
    ...{ auto_align_id: "a", status: "RECORDED", phase: null, target_score: 85, dev: null, cards: [], looks: [] },
    ...{ hours: { spent: 0, left: null }, help: [], model_id: null, evaluation_id: null, error: null },
  };
  const { server, address } = await serving((request, response) => {
    if (request.url!.endsWith("/events")) response.writeHead(200, { "content-type": "text/event-stream" }).end();
    else response.end(json({ ...record, message: "The request is recorded but not executed" }));
  });
  context.after(() => server.close());
  const settings = { PLUMBLINE_KEY: "pl_x", PLUMBLINE_ADDRESS: address };
  const [created] = await many([["auto-align", "create", "b", "--target", "85"]], settings);
  assert.equal(created!.code, 0, created!.stderr);
  assert.match(created!.stderr, /^a is RECORDED: The request is recorded but not executed$/m);
  assert.match(created!.stdout, /^status +RECORDED$/m);
});

test("work that fails is a failure with its reason, and what was stopped is no failure but stopped", async (context) => {
  let status = "FAILED";
  const { server, address } = await serving((_, response) =>
    response.end(json({ status, progress_detail: null, error: "no passage told anything" })),
  );
  context.after(() => server.close());
  const signal = new AbortController().signal;
  await assert.rejects(
    followBenchmark(createClient(address, "pl_x"), "benchmark_x", recording().progress, signal),
    (error: Failure) => error.code === "work_failed" && error.message.includes("no passage told anything"),
  );
  status = "STOPPED";
  await assert.rejects(
    followBenchmark(createClient(address, "pl_x"), "benchmark_x", recording().progress, signal),
    (error: Failure) => exitOf(error) === "stopped",
  );
});

test("an evaluation that was stopped is not failed but stopped", async (context) => {
  const { server, address } = await serving((_, response) =>
    response.end(json({ status: "FAILED", stopped: true, error: "The evaluation was stopped" })),
  );
  context.after(() => server.close());
  const signal = new AbortController().signal;
  await assert.rejects(
    followEvaluation(createClient(address, "pl_x"), "evaluation_x", recording().progress, signal),
    (error: Failure) => exitOf(error) === "stopped",
  );
});

test("an auto-align that was stopped is told, and ends with 3", async (context) => {
  const record = {
    ...{ auto_align_id: "a", status: "STOPPED", phase: null, target_score: 85, dev: null, cards: [], looks: [] },
    ...{ hours: { spent: 1, left: null }, help: [], model_id: "model_best", evaluation_id: null, error: null },
  };
  const { server, address } = await serving((request, response) => {
    if (request.url!.endsWith("/events")) response.writeHead(200, { "content-type": "text/event-stream" }).end();
    else response.end(json(record));
  });
  context.after(() => server.close());
  const settings = { PLUMBLINE_KEY: "pl_x", PLUMBLINE_ADDRESS: address };
  const [watched] = await many([["auto-align", "watch", "b", "a"]], settings);
  assert.equal(watched!.code, exitCodes.stopped.code, watched!.stderr);
  assert.match(watched!.stdout, /^model +model_best$/m);
});

test("Ctrl-C ends the following, says how to take it up again, and leaves no listener behind", async () => {
  const before = process.listenerCount("SIGINT");
  const following = watched("plumbline align watch alignment_x", (_, signal) => delay(60_000, undefined, { signal }));
  process.emit("SIGINT");
  await assert.rejects(following, (error: Failure) => {
    assert.equal(error.code, "interrupted");
    return error.message.includes("plumbline align watch alignment_x");
  });
  assert.equal(process.listenerCount("SIGINT"), before);
});
