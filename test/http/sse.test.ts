// Event streams: their form, their errors, and clients that leave or do not read.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { type AddressInfo, createConnection } from "node:net";
import { after, before, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sleep } from "../../src/base/time.ts";
import { EventStream, endpoint, type StreamEvent } from "../../src/contract/endpoint.ts";
import { sendEvents } from "../../src/http/sse.ts";
import { type Floor, testFloor, testKey } from "../helpers/floor.ts";
import { eventually } from "../helpers/house.ts";

const any = { type: "object" } as const;
const promise = (name: string) =>
  endpoint({ method: "GET", path: `/api/${name}`, tag: "t", summary: "", reply: any, events: any, errors: [] });

let ended = 0;
let aborted = 0;
async function* counting(signal: AbortSignal, failAt = Number.POSITIVE_INFINITY): AsyncGenerator<StreamEvent> {
  signal.addEventListener("abort", () => aborted++);
  try {
    for (let i = 0; i < 50; i++) {
      if (i === failAt) throw i === 1 ? new Failure("engine_busy", "full") : new Error("/secret");
      if (i >= 3) await sleep(20, signal);
      if (signal.aborted) return;
      yield { data: JSON.stringify({ i }) };
    }
  } finally {
    ended++;
  }
}

type Given = { signal: AbortSignal; lastEventId: string | null };
let floor: Floor;
let seen: string | null = null;
before(async () => {
  const stream = (events: AsyncIterable<StreamEvent>) => Promise.resolve(new EventStream(events));
  floor = await testFloor(
    {
      form: promise("form"),
      early: promise("early"),
      late: promise("late"),
      bug: promise("bug"),
      slow: promise("slow"),
      wait: promise("wait"),
    },
    {
      form: ({ lastEventId }: Given) => {
        seen = lastEventId;
        return stream(
          (async function* () {
            yield { data: '{"a":1}', id: "7", event: "step" };
            yield { data: "one\ntwo" };
            yield { data: "[DONE]" };
          })(),
        );
      },
      early: ({ signal }: Given) => stream(counting(signal, 0)),
      late: ({ signal }: Given) => stream(counting(signal, 1)),
      bug: ({ signal }: Given) => stream(counting(signal, 2)),
      slow: ({ signal }: Given) => stream(counting(signal)),
      wait: async ({ signal }: Given) => {
        signal.addEventListener("abort", () => aborted++);
        await sleep(60_000, signal);
        return {};
      },
    } as never,
  );
});
after(() => floor.close());

const get = (path: string, init: RequestInit = {}) =>
  fetch(floor.url + path, { ...init, headers: { authorization: `Bearer ${testKey}`, ...init.headers } });

test("events have ids, names and one data line for each line", async () => {
  const response = await get("/api/form", { headers: { "last-event-id": "6" } });
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  assert.equal(response.headers.get("cache-control"), "no-cache");
  assert.equal(response.headers.get("x-accel-buffering"), "no");
  assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
  const expected = 'id: 7\nevent: step\ndata: {"a":1}\n\ndata: one\ndata: two\n\ndata: [DONE]\n\n';
  assert.equal(await response.text(), expected);
  assert.equal(seen, "6");
});

test("an error before the first event is an answer of its own", async () => {
  const response = await get("/api/early");
  assert.equal(response.status, 500);
  assert.equal(((await response.json()) as { error: { code: string } }).error.code, "internal");
});

test("an error after the start is an event, and the stream ends without [DONE]", async () => {
  const text = await (await get("/api/late")).text();
  const [first, second, rest] = text.split("\n\n");
  assert.equal(first, 'data: {"i":0}');
  const { error } = JSON.parse(second!.slice(6)) as { error: { code: string; message: string; request_id: string } };
  assert.deepEqual([error.code, error.message], ["engine_busy", "full"]);
  assert.equal(rest, "");
  assert.doesNotMatch(await (await get("/api/bug")).text(), /secret/);
});

describe("a client that leaves", () => {
  for (const what of ["resets", "closes"])
    test(`${what} in the middle: the signal is aborted and the generator ends`, async () => {
      const before = { ended, aborted };
      const socket = createConnection(Number(new URL(floor.url).port), "127.0.0.1");
      socket.on("error", () => {});
      socket.write(`GET /api/slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${testKey}\r\n\r\n`);
      await new Promise((resolve) => socket.once("data", resolve));
      if (what === "resets") socket.resetAndDestroy();
      else socket.destroy();
      await eventually(() => ended === before.ended + 1 && aborted === before.aborted + 1);
    });

  test("before an answer that is no stream: the signal is aborted all the same", async () => {
    const before = aborted;
    const controller = new AbortController();
    const gone = get("/api/wait", { signal: controller.signal }).catch(() => {});
    await sleep(50);
    controller.abort();
    await gone;
    await eventually(() => aborted === before + 1);
  });
});

describe("with other limits", () => {
  async function served(
    events: AsyncIterable<StreamEvent>,
    limits: { keepAliveMs: number; stallMs: number },
    mayBeSilent = true,
  ) {
    let done = false;
    const server = createServer((_request, response) => {
      void sendEvents(
        response,
        new EventStream(events, { mayBeSilent }),
        (error) => ({ data: String(error) }),
        limits,
      ).then(() => {
        done = true;
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    return { port, isDone: () => done, close: () => server.close() };
  }

  /** A stream whose only event comes when the test says so. */
  function pending(): [PromiseWithResolvers<StreamEvent>, AsyncIterable<StreamEvent>] {
    const first = Promise.withResolvers<StreamEvent>();
    const events = async function* () {
      yield await first.promise;
    };
    return [first, events()];
  }

  test("silence is filled with comments", async () => {
    const server = await served(
      (async function* () {
        yield { data: "1" };
        await sleep(120);
        yield { data: "2" };
      })(),
      { keepAliveMs: 25, stallMs: 1000 },
    );
    const text = await (await fetch(`http://127.0.0.1:${server.port}`)).text();
    assert.match(text, /^data: 1\n\n(: keepalive\n\n)+data: 2\n\n$/);
    server.close();
  });

  test("silence before the first event too: a client learns at once that it is answered", async () => {
    const [first, events] = pending();
    const server = await served(events, { keepAliveMs: 25, stallMs: 1000 });
    const response = await fetch(`http://127.0.0.1:${server.port}`);
    assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
    first.resolve({ data: "1" });
    assert.match(await response.text(), /^(: keepalive\n\n)+data: 1\n\n$/);
    server.close();
  });

  test("the head of any other stream waits for the first event, however late it is", async () => {
    const [first, events] = pending();
    const server = await served(events, { keepAliveMs: 10, stallMs: 1000 }, false);
    const asked = fetch(`http://127.0.0.1:${server.port}`);
    const early = await Promise.race([asked, sleep(100)]);
    assert.equal(early, undefined);
    first.resolve({ data: "1" });
    assert.equal(await (await asked).text(), "data: 1\n\n");
    server.close();
  });

  test("an error before the first event is an event once the head is sent", async () => {
    const [first, events] = pending();
    const server = await served(events, { keepAliveMs: 25, stallMs: 1000 });
    const response = await fetch(`http://127.0.0.1:${server.port}`);
    first.reject(new Error("gone"));
    assert.match(await response.text(), /^(: keepalive\n\n)+data: Error: gone\n\n$/);
    server.close();
  });

  test("a client that leaves before the first event ends the generator", async () => {
    const first = Promise.withResolvers<void>();
    let hasEnded = false;
    const server = await served(
      (async function* () {
        try {
          await first.promise;
          yield { data: "1" };
        } finally {
          hasEnded = true;
        }
      })(),
      { keepAliveMs: 25, stallMs: 1000 },
    );
    const leaving = new AbortController();
    await fetch(`http://127.0.0.1:${server.port}`, { signal: leaving.signal });
    leaving.abort();
    await sleep(50);
    first.resolve();
    await eventually(() => hasEnded && server.isDone());
    server.close();
  });

  test("a client that does not read is gone after a while", async () => {
    let stopped = false;
    const server = await served(
      (async function* () {
        try {
          for (;;) yield { data: "x".repeat(1 << 20) };
        } finally {
          stopped = true;
        }
      })(),
      { keepAliveMs: 20, stallMs: 150 },
    );
    const socket = createConnection(server.port, "127.0.0.1");
    socket.on("error", () => {});
    socket.pause();
    socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await eventually(() => stopped && server.isDone());
    socket.destroy();
    server.close();
  });
});
