// What one client may hold: connections, requests sent ahead on one, and bodies that trickle in.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { endpoint } from "../../src/contract/endpoint.ts";
import { type Floor, testFloor, testKey } from "../helpers/floor.ts";
import { eventually } from "../helpers/house.ts";
import { raw } from "../helpers/raw.ts";

const any = { type: "object" } as const;
const endpoints = {
  long: endpoint({ method: "GET", path: "/api/long", tag: "t", summary: "", reply: any, errors: [] }),
  slow: endpoint({ method: "GET", path: "/api/slow", tag: "t", summary: "", reply: any, errors: [] }),
  body: endpoint({ method: "POST", path: "/api/body", tag: "t", summary: "", body: any, reply: any, errors: [] }),
  file: endpoint({
    method: "POST",
    path: "/api/file",
    tag: "t",
    summary: "",
    upload: { many: false },
    reply: any,
    errors: [],
  }),
};

const [headSeconds, perAddress, ahead, slowMs] = [1, 24, 8, 20];
const windowSeconds = 0.4;
const stallSeconds = 1;
/** More than the buffers of both sides hold. */
const text = "x".repeat(32 << 20);
const key = `Host: localhost\r\nAuthorization: Bearer ${testKey}`;

let floor: Floor;
let slowNow = slowMs;
let begun = 0;
let atOnce = 0;
let mostAtOnce = 0;
before(async () => {
  const handlers = {
    slow: async () => {
      begun++;
      mostAtOnce = Math.max(mostAtOnce, ++atOnce);
      await delay(slowNow);
      atOnce--;
      return { number: begun };
    },
    body: async () => ({}),
    file: async () => ({}),
    long: async () => ({ text }),
  };
  floor = await testFloor(endpoints, handlers as never, {
    pace: { seconds: 3, rate: 100, windowSeconds },
    settings: {
      PLUMBLINE_HEAD_SECONDS: String(headSeconds),
      PLUMBLINE_CONNECTIONS_PER_ADDRESS: String(perAddress),
      PLUMBLINE_REQUESTS_PER_CONNECTION: String(ahead),
      PLUMBLINE_STALL_SECONDS: String(stallSeconds),
    },
  });
});
after(() => floor.close());

/** A client that never closes its side by itself; what it was told so far. */
async function open(): Promise<{ socket: Socket; told: () => string }> {
  const { hostname, port } = new URL(floor.url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let told = "";
  socket.on("data", (part) => {
    told += part.toString("latin1");
  });
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("connect", resolve));
  return { socket, told: () => told };
}

describe("connections", () => {
  test("that say nothing are told so and closed, though the client leaves its side open", async () => {
    // Both sides of a connection are this process's here.
    const descriptors = (): number => readdirSync("/proc/self/fd").length;
    const before = descriptors();
    const silent = await Promise.all(Array.from({ length: 20 }, open));
    await eventually(() => descriptors() >= before + 40, 15_000);
    await eventually(() => silent.every(({ told }) => told().startsWith("HTTP/1.1 408")), 30_000);
    await eventually(() => descriptors() <= before + 25, 15_000);
    assert.ok(silent.every(({ socket }) => !socket.destroyed));
    for (const { socket } of silent) socket.destroy();
  });

  test("of one address are so many and no more, and others find their place when one is gone", async () => {
    const held = await Promise.all(Array.from({ length: perAddress }, open));
    const { status, head, body } = await raw(floor.url, "", { ms: 30_000 });
    assert.equal(status, 503);
    assert.match(head, /Connection: close/);
    assert.equal(JSON.parse(body).error.code, "too_many_connections");
    held[0]!.socket.destroy();
    await eventually(
      async () =>
        (await raw(floor.url, `GET /api/slow HTTP/1.1\r\n${key}\r\nConnection: close\r\n\r\n`)).status === 200,
    );
    for (const { socket } of held) socket.destroy();
  });
});

describe("requests sent ahead", () => {
  const get = `GET /api/slow HTTP/1.1\r\n${key}\r\n\r\n`;
  const statuses = (text: string): number[] => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => Number(match[1]));

  test("are answered one after the other; one too many is refused, and ends the connection", async () => {
    [begun, mostAtOnce] = [0, 0];
    const { socket, told } = await open();
    socket.write(get.repeat(500));
    await new Promise((resolve) => socket.once("end", resolve));
    assert.deepEqual(statuses(told()), [...Array(ahead).fill(200), 429]);
    assert.equal(mostAtOnce, 1);
    assert.equal(begun, ahead);
    assert.match(told(), /connection: close/i);
    socket.destroy();
  });

  test("thousands more close the connection at once", async () => {
    begun = 0;
    const { socket, told } = await open();
    socket.write(get.repeat(5000));
    await new Promise((resolve) => socket.once("close", resolve));
    assert.ok(statuses(told()).length < ahead);
    assert.ok(begun < ahead, `${begun} were begun`);
  });

  test("as many as are allowed leave the connection open", async () => {
    const { socket, told } = await open();
    for (const round of [1, 2]) {
      socket.write(get.repeat(ahead));
      await eventually(() => statuses(told()).length === round * ahead, 30_000);
    }
    assert.ok(statuses(told()).every((status) => status === 200));
    socket.destroy();
  });

  test("cost nothing once the client is gone", async () => {
    begun = 0;
    const { socket } = await open();
    socket.write(get.repeat(ahead));
    await eventually(() => begun === 1, 30_000);
    socket.destroy();
    await delay(slowMs * ahead + 500);
    assert.ok(begun <= 2, `${begun} were begun`);
  });
});

describe("a CONNECT", () => {
  const connectRequest = "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n";

  test("whose client resets at once ends nothing but its connection", async () => {
    // An error that nobody listens for would end the service. Here the test runner keeps the process alive.
    const uncaught: string[] = [];
    const collect = ({ message }: Error): void => void uncaught.push(message);
    process.on("uncaughtException", collect);
    for (let round = 0; round < 20; round++) {
      const { socket } = await open();
      socket.write(connectRequest);
      setImmediate(() => socket.resetAndDestroy());
      await new Promise((resolve) => socket.once("close", resolve));
    }
    const answer = await raw(floor.url, `GET /api/slow HTTP/1.1\r\n${key}\r\nConnection: close\r\n\r\n`);
    process.off("uncaughtException", collect);
    assert.equal(answer.status, 200);
    assert.deepEqual(uncaught, []);
  });

  test("behind a request is not told as the answer to that request", async () => {
    const { socket, told } = await open();
    socket.write(`GET /api/slow HTTP/1.1\r\n${key}\r\n\r\n${connectRequest}`);
    await new Promise((resolve) => socket.once("end", resolve).once("close", resolve));
    assert.doesNotMatch(told(), /^HTTP\/1\.1 405/);
    socket.destroy();
  });
});

describe("a body that trickles in", () => {
  const heads = {
    "a JSON body": `POST /api/body HTTP/1.1\r\n${key}\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n{"a":"`,
    "an upload": `POST /api/file HTTP/1.1\r\n${key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 2000\r\n\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`,
  };
  for (const [what, head] of Object.entries(heads)) {
    test(`${what}: a byte now and then is cut off`, async () => {
      const { socket, told } = await open();
      const started = performance.now();
      socket.write(head);
      const drip = setInterval(() => socket.write("x"), 100);
      await eventually(() => told().startsWith("HTTP/1.1 408"), 20_000);
      clearInterval(drip);
      assert.match(told(), /more slowly than 40 bytes/);
      assert.ok(performance.now() - started < 15_000);
      socket.destroy();
    });

    test(`${what}: fast enough at every moment, but for too long in all`, async () => {
      const { socket, told } = await open();
      socket.write(head);
      // Twice the least rate, so that a busy machine keeps it too.
      const drip = setInterval(() => socket.write("x".repeat(20)), 50);
      await eventually(() => told().startsWith("HTTP/1.1 4"), 20_000);
      clearInterval(drip);
      assert.match(told(), /took longer than 3 s|more slowly than/);
      socket.destroy();
    });
  }

  test("one that comes at once is read", async () => {
    const text = JSON.stringify({ a: "x".repeat(1000) });
    const sent = `POST /api/body HTTP/1.1\r\n${key}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
    assert.equal((await raw(floor.url, sent)).status, 200);
  });
});

describe("an answer that nobody takes", () => {
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\n${key}\r\n\r\n`;
  const ended = (socket: Socket, ms: number): Promise<boolean> =>
    Promise.race([
      new Promise<true>((resolve) => socket.once("end", () => resolve(true)).once("close", () => resolve(true))),
      delay(ms, false),
    ]);

  test("holds its connection for a while and no longer", async () => {
    const { socket, told } = await open();
    socket.write(get("/api/long"));
    await eventually(() => told().startsWith("HTTP/1.1 200"), 60_000);
    socket.pause();
    await delay(5 * stallSeconds * 1000);
    // What lies in the client's own buffer is read to the end of it, which comes before the answer's.
    const end = ended(socket, 20_000);
    socket.resume();
    assert.equal(await end, true);
    assert.ok(told().length < text.length, `${told().length} characters came`);
    socket.destroy();
  });

  test("is there whole for a client that takes it slowly", async () => {
    const { socket, told } = await open();
    socket.write(get("/api/long"));
    const turns = setInterval(() => (socket.isPaused() ? socket.resume() : socket.pause()), (stallSeconds * 1000) / 4);
    try {
      await eventually(() => told().length > text.length, 60_000);
    } finally {
      clearInterval(turns);
      socket.destroy();
    }
  });

  test("is not what a request waits for that takes long", async () => {
    const { socket, told } = await open();
    slowNow = 3 * stallSeconds * 1000;
    socket.write(get("/api/slow") + get("/api/slow"));
    try {
      await eventually(() => told().match(/HTTP\/1\.1 200/g)?.length === 2, 30_000);
    } finally {
      slowNow = slowMs;
      socket.destroy();
    }
  });
});

test("a body that is refused may still come for a moment, so that the answer is not lost in a reset", async () => {
  const { socket, told } = await open();
  const errors: string[] = [];
  socket.on("error", ({ message }) => errors.push(message));
  socket.write(
    `POST /api/body HTTP/1.1\r\n${key}\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n`,
  );
  for (let part = 0; part < 9; part++) {
    socket.write(" ".repeat(1_000_000));
    await delay(50);
  }
  await eventually(() => told().startsWith("HTTP/1.1 413"), 60_000);
  assert.match(told(), /connection: close/i);
  assert.deepEqual(errors, []);
  socket.destroy();
});
