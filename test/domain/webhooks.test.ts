// The outbox of webhooks and their delivery, to real servers on loopback and from a real database.
import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { startNode } from "../../src/base/processes.ts";
import { systemClock } from "../../src/base/time.ts";
import { createWebhooks, targetsOf, type Webhooks, type WebhooksParts } from "../../src/domain/webhooks/index.ts";
import { signatureOf } from "../../src/domain/webhooks/send.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { temporaryFolder } from "../cli/plumbline.ts";
import { eventually } from "../helpers/house.ts";
import { type Received, type Receiver, secret, startReceiver } from "../helpers/webhooks.ts";

const hourMs = 3_600_000;

let receiver: Receiver;
let other: Receiver;
let database: string;
let store: Store;
let log: Record<string, unknown>[];
let rooms: Webhooks[];
let after: (() => void)[];
beforeEach(async () => {
  after = [];
  rooms = [];
  log = [];
  [receiver, other] = [await startReceiver(), await startReceiver()];
  database = join(temporaryFolder({ after: (step) => void after.push(step) }), "plumbline.db");
  store = openStore(database);
  store.prepare("INSERT INTO user VALUES('u', 'u', '')").run();
});
afterEach(async () => {
  await Promise.all(rooms.map((room) => room.close()));
  await Promise.all([receiver.close(), other.close()]);
  store.close();
  for (const step of after) step();
});

function room(parts: Partial<WebhooksParts> = {}): Webhooks {
  const write = (line: string) => void log.push(JSON.parse(line) as Record<string, unknown>);
  const targets = targetsOf([receiver.url], [secret]);
  const made = createWebhooks({ store, clock: systemClock, log: createLog("debug", write), targets, ...parts });
  rooms.push(made);
  return made;
}

/** Event n of a subject. */
const event = (subjectId: string, n = 1) => ({ ownerId: "u", kind: "thing.moved", subjectId, body: { n } });
const enqueue = (webhooks: Webhooks, subjectId: string, n = 1): void =>
  store.transaction(() => webhooks.enqueue(event(subjectId, n)));

interface Row {
  target: string;
  webhook_id: string;
  subject_id: string;
  state: string;
  attempts: number;
  payload: string | null;
  last_error: string | null;
}
const rows = (): Row[] => store.prepare<[], Row>("SELECT * FROM webhook_delivery ORDER BY seq, target").all();
const states = (): string[] => rows().map(({ state }) => state);
const named = ({ body }: Received): string => `${body.subject_id}${body.data.n}`;
const logged = (name: string) => log.filter(({ event }) => event === name);

/** A clock that stands still but for what is slept, at once. */
function fakeTime(at = "2026-03-01T00:00:00.000Z") {
  let ms = Date.parse(at);
  const waits: number[] = [];
  const clock = { now: () => new Date(ms).toISOString(), monotonicMs: () => ms };
  const sleep = async (forMs: number, signal?: AbortSignal): Promise<void> => {
    if (forMs > 0 && !signal?.aborted) waits.push(forMs);
    ms += forMs;
  };
  const pass = (forMs: number): void => {
    ms += forMs;
  };
  return { clock, sleep, waits, pass };
}

describe("the signature", () => {
  test("is the one that the specification's own library expects", () => {
    const [{ key }] = targetsOf(["http://a/"], [secret]) as [{ url: string; key: Buffer }];
    const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", payload: '{"test": 2432232314}' };
    assert.equal(signatureOf(key, message, 1614265330), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });

  test("of what is sent passes the README's check, and of nothing else", async () => {
    const readme = readFileSync(join(installation, "README.md"), "utf8");
    const lines = /## Webhooks[\s\S]*?```js\n([\s\S]*?)```/.exec(readme)![1]!;
    const names = ["createHmac", "timingSafeEqual", "request", "secret", "rawBody"];
    const check = new Function(...names, `${lines}; return { isSigned, isFresh };`);
    const accepts = (headers: object, raw: string, key = secret) =>
      check(createHmac, timingSafeEqual, { headers }, key, raw) as { isSigned: boolean; isFresh: boolean };
    const webhooks = room();
    webhooks.start();
    store.transaction(() => webhooks.enqueue({ ...event("s"), body: { name: "Zoë \u{1f600} \ud800" } }));
    await eventually(() => states()[0] === "delivered");
    const { headers, raw } = receiver.received[0]!;
    assert.deepEqual(accepts(headers, raw), { isSigned: true, isFresh: true });
    assert.equal(accepts(headers, `${raw} `).isSigned, false);
    assert.equal(accepts({ ...headers, "webhook-id": "webhook_0" }, raw).isSigned, false);
    assert.equal(accepts(headers, raw, `whsec_${Buffer.alloc(24).toString("base64")}`).isSigned, false);
    const { "webhook-signature": sent, ...unsigned } = headers;
    assert.equal(accepts(unsigned, raw).isSigned, false);
    assert.equal(accepts({ ...unsigned, "webhook-signature": "é".repeat(String(sent).length) }, raw).isSigned, false);
    const late = { ...headers, "webhook-timestamp": String(Number(headers["webhook-timestamp"]) - 301) };
    assert.deepEqual(accepts(late, raw), { isSigned: false, isFresh: false });
  });

  test("uses each target's own secret", async () => {
    const own = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    const webhooks = room({ targets: targetsOf([receiver.url, other.url], [secret, own]) });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => states().every((state) => state === "delivered"));
    const { headers, raw, id } = other.received[0]!;
    const due = createHmac("sha256", Buffer.alloc(32, 7)).update(`${id}.${headers["webhook-timestamp"]}.${raw}`);
    assert.equal(headers["webhook-signature"], `v1,${due.digest("base64")}`);
    assert.notEqual(receiver.received[0]!.headers["webhook-signature"], headers["webhook-signature"]);
    assert.equal(receiver.received[0]!.id, id);
  });
});

describe("the outbox", () => {
  test("has an event if and only if what it tells of is committed", async () => {
    const webhooks = room({ targets: targetsOf([receiver.url, other.url], [secret]) });
    webhooks.start();
    assert.throws(() =>
      store.transaction(() => {
        webhooks.enqueue(event("undone"));
        throw new Error("no");
      }),
    );
    enqueue(webhooks, "done");
    await eventually(() => states().join() === "delivered,delivered");
    assert.deepEqual(
      [receiver, other].map((one) => one.received.map(named)),
      [["done1"], ["done1"]],
    );
    assert.deepEqual(
      rows().map(({ payload }) => payload),
      [null, null],
    );
  });

  test("is sent as JSON with the kind, the time and the subject", async () => {
    const { clock, sleep } = fakeTime("2026-03-01T12:00:00.250Z");
    const webhooks = room({ clock, sleep });
    webhooks.start();
    enqueue(webhooks, "s", 7);
    await eventually(() => states()[0] === "delivered");
    const { path, headers, body, id } = receiver.received[0]!;
    const said = { type: "thing.moved", timestamp: "2026-03-01T12:00:00.250Z", subject_id: "s", data: { n: 7 } };
    assert.deepEqual(body, said);
    assert.equal(path, "POST /");
    assert.equal(headers["content-type"], "application/json");
    assert.equal(headers["webhook-timestamp"], String(Date.UTC(2026, 2, 1, 12) / 1000));
    assert.match(id, /^webhook_[0-9a-z]{24}$/);
  });

  test("keeps what is delivered for a week, what failed for good", async () => {
    const { clock, sleep, pass } = fakeTime();
    receiver.answer = (response, { body }) => response.writeHead(body.subject_id === "bad" ? 500 : 200).end();
    const webhooks = room({ clock, sleep });
    webhooks.start();
    enqueue(webhooks, "bad");
    await eventually(() => states().join() === "failed");
    enqueue(webhooks, "good");
    await eventually(() => states().join() === "failed,delivered");
    await webhooks.close();
    pass(7 * 24 * hourMs - 1);
    room({ clock, sleep }).start();
    assert.deepEqual(states(), ["failed", "delivered"]);
    pass(1);
    const last = room({ clock, sleep });
    last.start();
    assert.deepEqual(states(), ["failed"]);
    // While it serves, too: each delivery takes away what is older than a week then.
    enqueue(last, "good", 2);
    await eventually(() => states().join() === "failed,delivered");
    pass(7 * 24 * hourMs);
    enqueue(last, "good", 3);
    await eventually(() => rows().at(-1)!.state === "delivered" && named(receiver.received.at(-1)!) === "good3");
    assert.deepEqual(states(), ["failed", "delivered"]);
  });

  test("takes nothing in while no target is named", async () => {
    const webhooks = room({ targets: [] });
    webhooks.start();
    enqueue(webhooks, "s");
    assert.deepEqual(rows(), []);
  });

  test("has no business with a target that is named no longer", async () => {
    const before = room({ targets: targetsOf([receiver.url, other.url], [secret]) });
    enqueue(before, "s");
    const webhooks = room({ targets: targetsOf([other.url], [secret]) });
    webhooks.start();
    await eventually(() => states().sort().join() === "delivered,failed");
    assert.match(rows().find(({ state }) => state === "failed")!.last_error!, /PLUMBLINE_WEBHOOKS/);
    assert.deepEqual(receiver.received, []);
    assert.equal(other.received.length, 1);
  });
});

describe("delivery", () => {
  test("is in order for each subject, and no subject waits for another", async () => {
    const held: ServerResponse[] = [];
    receiver.answer = (response, { body }) =>
      body.subject_id === "a" ? void held.push(response) : void response.end();
    const webhooks = room();
    webhooks.start();
    for (const n of [1, 2, 3]) for (const subject of ["a", "b"]) enqueue(webhooks, subject, n);
    await eventually(() => receiver.received.length === 4);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(receiver.received.map(named).sort(), ["a1", "b1", "b2", "b3"]);
    held.shift()!.end();
    await eventually(() => held.length === 1);
    assert.equal(named(receiver.received.at(-1)!), "a2");
    held.shift()!.writeHead(204).end();
    await eventually(() => held.length === 1);
    held.shift()!.end();
    await eventually(() => states().every((state) => state === "delivered"));
    assert.deepEqual(
      receiver.received.map(named).filter((name) => name.startsWith("b")),
      ["b1", "b2", "b3"],
    );
  });

  test("makes at most eight exchanges with a target at the same time, and waits with another for none of them", async () => {
    const held: ServerResponse[] = [];
    receiver.answer = (response) => void held.push(response);
    const webhooks = room({ targets: targetsOf([receiver.url, other.url], [secret]) });
    webhooks.start();
    for (let at = 0; at < 12; at++) enqueue(webhooks, `s${at}`);
    await eventually(() => held.length === 8 && other.received.length === 12);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(held.length, 8);
    while (held.length > 0) held.shift()!.end();
    await eventually(() => held.length === 4);
    for (const response of held) response.end();
    await eventually(() => states().every((state) => state === "delivered"));
    assert.equal(receiver.received.length, 12);
  });

  for (const [chance, factor] of [
    [0, 0.5],
    [1, 1],
  ] as const)
    test(`tries again after 5 s, then twice as long each time up to an hour, times ${factor} by chance`, async () => {
      const { clock, sleep, waits } = fakeTime();
      receiver.answer = (response) => response.writeHead(receiver.received.length > 12 ? 200 : 503).end();
      const webhooks = room({ clock, sleep, random: () => chance });
      webhooks.start();
      enqueue(webhooks, "s");
      await eventually(() => states()[0] === "delivered");
      const seconds = [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600];
      assert.deepEqual(
        waits,
        seconds.map((one) => one * 1000 * factor),
      );
      assert.equal(new Set(receiver.received.map(({ id }) => id)).size, 1);
      // Each attempt is signed with its own time.
      assert.equal(new Set(receiver.received.map(({ headers }) => headers["webhook-timestamp"])).size, 13);
      assert.equal(logged("webhook.attempt_failed").length, 12);
    });

  test("waits as long as Retry-After asks, up to an hour", async () => {
    const { clock, sleep, waits } = fakeTime();
    const asked = ["120", "86400", "tomorrow", "-9"];
    receiver.answer = (response) => {
      const after = asked[receiver.received.length - 1];
      response.writeHead(after === undefined ? 200 : 429, after === undefined ? {} : { "retry-after": after }).end();
    };
    const webhooks = room({ clock, sleep, random: () => 1 });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => states()[0] === "delivered");
    assert.deepEqual(waits, [120_000, hourMs, 20_000, 40_000]);
  });

  for (const [why, chance, attempts] of [
    ["fifty attempts", 0, 50],
    // 5115 s for the first ten waits, then an hour each: the 34th attempt is the first that ends after a day.
    ["a day", 1, 34],
  ] as const)
    test(`gives up after ${why}, keeps what it was with its last error, and goes on with the next`, async () => {
      const { clock, sleep } = fakeTime();
      receiver.answer = (response, { body }) =>
        body.data.n === 1 ? response.writeHead(500).end("the till is closed") : response.end();
      const webhooks = room({ clock, sleep, random: () => chance });
      webhooks.start();
      for (const n of [1, 2]) enqueue(webhooks, "s", n);
      await eventually(() => states().join() === "failed,delivered");
      assert.deepEqual(receiver.received.map(named), [...new Array(attempts).fill("s1"), "s2"]);
      const [first] = rows();
      assert.equal(first!.attempts, attempts);
      assert.equal(first!.last_error, "answered 500: the till is closed");
      assert.match(first!.payload!, /"n":1/);
      assert.deepEqual(
        webhooks.counts().sort((a, b) => a.state.localeCompare(b.state)),
        [
          { state: "delivered", count: 1 },
          { state: "failed", count: 1 },
        ],
      );
      const [line] = logged("webhook.given_up");
      assert.deepEqual([line!.level, line!.subjectId, line!.attempts], ["error", "s", attempts]);
    });

  test("tries an event once more after a long stop, however old it is", async () => {
    const { clock, sleep, pass } = fakeTime();
    enqueue(room({ clock, sleep }), "s");
    pass(72 * hourMs);
    room({ clock, sleep }).start();
    await eventually(() => states()[0] === "delivered");
  });

  test("follows no redirect", async () => {
    const { clock, sleep } = fakeTime();
    receiver.answer = (response) => {
      if (receiver.received.length === 1) response.writeHead(307, { location: other.url }).end();
      else response.end();
    };
    const webhooks = room({ clock, sleep });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => states()[0] === "delivered");
    assert.equal(rows()[0]!.last_error, "answered 307");
    assert.deepEqual(other.received, []);
  });

  test("stops for a target at its 410 until the next start, and for no other", async () => {
    const { clock, sleep } = fakeTime();
    receiver.answer = (response) => response.writeHead(410).end();
    const parts = { clock, sleep, targets: targetsOf([receiver.url, other.url], [secret]) };
    const webhooks = room(parts);
    webhooks.start();
    for (const n of [1, 2]) enqueue(webhooks, "a", n);
    await eventually(() => logged("webhook.target_gone").length === 1);
    enqueue(webhooks, "b");
    await eventually(() => other.received.length === 3);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(receiver.received.map(named), ["a1"]);
    const pending = rows().filter(({ state }) => state === "pending");
    assert.deepEqual(
      pending.map(({ target }) => target),
      new Array(3).fill(receiver.url),
    );
    await webhooks.close();

    receiver.answer = (response) => void response.end();
    room(parts).start();
    await eventually(() => states().every((state) => state === "delivered"));
    const again = receiver.received.map(named);
    assert.deepEqual(
      again.filter((name) => name.startsWith("a")),
      ["a1", "a1", "a2"],
    );
    assert.equal(again.length, 4);
    assert.equal(receiver.received[1]!.id, receiver.received[0]!.id);
    assert.equal(other.received.length, 3);
  });

  test("gives a receiver that says nothing up after its time, and asks again", async () => {
    const { clock, sleep } = fakeTime();
    receiver.answer = (response) => {
      if (receiver.received.length > 1) response.end();
    };
    const webhooks = room({ clock, sleep, attemptMs: 60 });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => states()[0] === "delivered");
    assert.equal(rows()[0]!.last_error, "no answer within 0.06 s");
    assert.equal(new Set(receiver.received.map(({ id }) => id)).size, 1);
  });

  test("reads no more than the beginning of an answer, however long that is", async () => {
    const { clock, sleep } = fakeTime();
    let closed = 0;
    receiver.answer = (response) => {
      response.writeHead(receiver.received.length === 1 ? 500 : 200);
      response.on("close", () => closed++);
      const more = (): void => {
        while (!response.destroyed && response.write("x".repeat(4096)));
      };
      response.on("drain", more);
      more();
    };
    const webhooks = room({ clock, sleep });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => states()[0] === "delivered" && closed === 2);
    assert.equal(rows()[0]!.last_error, `answered 500: ${"x".repeat(1024)}`);
  });

  test("takes a refusal by its status when its body does not come", async () => {
    receiver.answer = (response) => void response.writeHead(410, { "content-length": "9" }).write("so");
    const webhooks = room({ attemptMs: 60 });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => logged("webhook.target_gone").length === 1);
    assert.equal(rows()[0]!.last_error, "answered 410: so");
  });

  test("goes on when a receiver that could not be reached is there again", async () => {
    const time = fakeTime();
    const { port } = new URL(receiver.url);
    await receiver.close();
    const sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
      if (ms > 0) receiver = await startReceiver(Number(port));
      await time.sleep(ms, signal);
    };
    const webhooks = room({ clock: time.clock, sleep });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => states()[0] === "delivered");
    assert.match(rows()[0]!.last_error!, /ECONNREFUSED/);
  });

  test("sends nothing again when the disk refuses to write what came of it", async () => {
    let refusals = 2;
    const transaction = <T>(work: () => T): T => {
      if (receiver.received.length > 0 && refusals-- > 0) throw new Error("full");
      return store.transaction(work);
    };
    const { clock, sleep, waits } = fakeTime();
    const webhooks = room({ clock, sleep, store: { ...store, transaction } });
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => states()[0] === "delivered");
    assert.equal(receiver.received.length, 1);
    assert.deepEqual(waits, [1000, 1000]);
    assert.equal(logged("webhook.unwritten").length, 2);
  });
});

describe("a restart", () => {
  test("delivers what is pending, in order and not before its time", async () => {
    const { clock, sleep, waits, pass } = fakeTime();
    receiver.answer = (response) => response.writeHead(500).end();
    const stuck = async (ms: number, signal?: AbortSignal): Promise<void> => {
      if (ms > 0) await once(signal!, "abort");
    };
    const webhooks = room({ clock, sleep: stuck, random: () => 1 });
    webhooks.start();
    for (const n of [1, 2]) for (const subject of ["a", "b"]) enqueue(webhooks, subject, n);
    await eventually(() => logged("webhook.attempt_failed").length === 2);
    await webhooks.close();
    assert.deepEqual(states(), new Array(4).fill("pending"));

    receiver.answer = (response) => void response.end();
    pass(2000);
    room({ clock, sleep }).start();
    await eventually(() => states().every((state) => state === "delivered"));
    // 5 s after the attempt, of which 2 have passed; what comes after that first wait is due at once.
    assert.equal(waits[0], 3000);
    for (const subject of ["a", "b"])
      assert.deepEqual(
        receiver.received.map(named).filter((name) => name.startsWith(subject)),
        [1, 1, 2].map((n) => `${subject}${n}`),
      );
  });

  test("in the middle of an exchange ends it at once, and sends it again under the same id", async () => {
    receiver.answer = () => {};
    const webhooks = room();
    webhooks.start();
    enqueue(webhooks, "s");
    await eventually(() => receiver.received.length === 1);
    const begun = performance.now();
    await webhooks.close();
    assert(performance.now() - begun < 2000);
    assert.deepEqual([rows()[0]!.state, rows()[0]!.attempts], ["pending", 0]);
    receiver.answer = (response) => void response.end();
    room().start();
    await eventually(() => states()[0] === "delivered");
    assert.equal(receiver.received[1]!.id, receiver.received[0]!.id);
  });

  const startHost = () => startNode(join(import.meta.dirname, "webhooks-host.ts"), [database, receiver.url, secret]);

  test("after kill -9 between sending and acknowledgement sends the same id again, and then the next", async () => {
    const webhooks = room();
    for (const n of [1, 2, 3]) enqueue(webhooks, "s", n);
    receiver.answer = () => {};
    const killed = startHost();
    await eventually(() => receiver.received.length === 1, 20_000);
    killed.kill("SIGKILL");
    await killed.ended;

    // This one is killed when it has the acknowledgement of the first, and has sent the second.
    receiver.answer = (response, received) => {
      if (named(received) === "s1") response.end();
    };
    const again = startHost();
    await eventually(() => receiver.received.length === 3, 20_000);
    again.kill("SIGKILL");
    await again.ended;

    receiver.answer = (response) => void response.end();
    const last = startHost();
    await eventually(() => states().every((state) => state === "delivered"), 20_000);
    last.stdin.end();
    assert.deepEqual(await last.ended, { code: 0, signal: null });
    assert.deepEqual(receiver.received.map(named), ["s1", "s1", "s2", "s2", "s3"]);
    const ids = rows().map(({ webhook_id }) => webhook_id);
    assert.deepEqual(
      receiver.received.map(({ id }) => ids.indexOf(id) + 1),
      [1, 1, 2, 2, 3],
    );
  });

  test("leaves nothing that keeps the process: no wait for a next attempt, no exchange, no connection", async () => {
    const webhooks = room();
    for (const subject of ["refused", "held", "done"]) enqueue(webhooks, subject);
    receiver.answer = (response, { body }) => {
      if (body.subject_id === "refused") response.writeHead(500).end();
      if (body.subject_id === "done") response.end();
    };
    const host = startHost();
    await eventually(() => receiver.received.length === 3 && rows()[0]!.attempts === 1, 20_000);
    const begun = performance.now();
    host.stdin.end();
    assert.deepEqual(await host.ended, { code: 0, signal: null });
    // Long before the attempt's time-out, or the next attempt.
    assert(performance.now() - begun < 2000, String(performance.now() - begun));
  });
});
