// Uploads, whole or not at all.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { after, before, describe, test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sha256 } from "../../src/base/files.ts";
import { sleep } from "../../src/base/time.ts";
import { idempotencyHeaders } from "../../src/contract/common.ts";
import { endpoint, type UploadedFile } from "../../src/contract/endpoint.ts";
import { type Floor, testFloor, testKey } from "../helpers/floor.ts";
import { eventually } from "../helpers/house.ts";
import { raw } from "../helpers/raw.ts";

const promise = (path: string, many: boolean, model = false) => {
  const upload = model ? ({ many, model } as const) : { many };
  return endpoint({ method: "POST", path, tag: "t", summary: "", upload, reply: { type: "object" }, errors: [] });
};

let floor: Floor;
let handled = 0;
before(async () => {
  const handler = async ({ files }: { files: UploadedFile[] }) => {
    handled++;
    return { files: files.map((file) => ({ ...file, content: readFileSync(file.path, "latin1").slice(0, 100) })) };
  };
  floor = await testFloor(
    { many: promise("/api/many", true), one: promise("/api/one", false), model: promise("/api/model", false, true) },
    { many: handler, one: handler, model: handler },
    { fileBytes: 100_000 },
  );
});
after(() => floor.close());

const left = (): string[] => readdirSync(floor.folder);
const authorization = `Bearer ${testKey}`;

async function send(path: string, body: FormData | string, headers: Record<string, string> = {}) {
  const response = await fetch(floor.url + path, { method: "POST", body, headers: { authorization, ...headers } });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
  return { status: response.status, body: (await response.json()) as any };
}

function form(...files: [field: string, content: string, name: string][]): FormData {
  const data = new FormData();
  for (const [field, content, name] of files) data.append(field, new Blob([content]), name);
  return data;
}

const multipart = (...parts: string[]): string => [...parts.map((part) => `--b\r\n${part}\r\n`), "--b--\r\n"].join("");
const typed = { "content-type": "multipart/form-data; boundary=b" };

test("files arrive with their digest and are gone after the answer", async () => {
  const { status, body } = await send("/api/many", form(["file", "hello", "a.txt"], ["file", "", "b.txt"]));
  assert.equal(status, 200);
  assert.deepEqual(
    body.files.map((file: UploadedFile & { content: string }) => [file.name, file.bytes, file.sha256, file.content]),
    [
      ["a.txt", 5, sha256("hello"), "hello"],
      ["b.txt", 0, sha256(""), ""],
    ],
  );
  await eventually(() => left().length === 0);
});

describe("refused, and nothing is left", () => {
  const big = "x".repeat(100_001);
  const cases: [string, number, () => ReturnType<typeof send>][] = [
    ["no file", 422, () => send("/api/many", multipart(), typed)],
    ["another field", 422, () => send("/api/many", form(["file", "a", "a"], ["other", "b", "b"]))],
    [
      "a text field",
      422,
      () => send("/api/many", multipart('Content-Disposition: form-data; name="x"\r\n\r\n1'), typed),
    ],
    ["a file over the limit", 413, () => send("/api/many", form(["file", "a", "a"], ["file", big, "b"]))],
    [
      "one file too many",
      413,
      () => send("/api/many", form(...[1, 2, 3, 4].map((n) => ["file", "a", `${n}`] as [string, string, string]))),
    ],
    ["two where one is taken", 413, () => send("/api/one", form(["file", "a", "a"], ["file", "b", "b"]))],
    ["no boundary", 400, () => send("/api/many", "x", { "content-type": "multipart/form-data;" })],
    ["JSON", 415, () => send("/api/many", "{}", { "content-type": "application/json" })],
    ["an encoding", 415, () => send("/api/many", multipart(), { ...typed, "content-encoding": "gzip" })],
    [
      "no final boundary",
      422,
      () => send("/api/many", '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc', typed),
    ],
    ["garbage", 422, () => send("/api/many", "garbage", typed)],
    [
      "an undecodable name",
      422,
      () =>
        send(
          "/api/many",
          multipart("Content-Disposition: form-data; name=\"file\"; filename*=UTF-8''%E0%A4%A\r\n\r\nabc"),
          typed,
        ),
    ],
    [
      "an endless part header",
      422,
      () => send("/api/many", multipart(`Content-Disposition: ${"x".repeat(1 << 20)}\r\n\r\nabc`), typed),
    ],
    [
      "ten thousand parts",
      413,
      () =>
        send(
          "/api/many",
          multipart(...Array(10_000).fill('Content-Disposition: form-data; name="file"; filename="a"\r\n\r\nx')),
          typed,
        ),
    ],
  ];
  for (const [what, status, work] of cases)
    test(what, async () => {
      const before = handled;
      const answer = await work();
      assert.equal(answer.status, status, JSON.stringify(answer.body));
      assert.ok(answer.body.detail);
      assert.equal(handled, before);
      await eventually(() => left().length === 0);
    });
});

test("what exceeds a limit is refused by the name of the setting that would raise it", async () => {
  const large = form(["file", "x".repeat((1 << 20) + 1), "a"]);
  const several = form(...["1", "2", "3", "4"].map((name) => ["file", "a", name] as [string, string, string]));
  for (const [path, body, detail] of [
    ["/api/many", large, /100000 bytes, the limit that PLUMBLINE_UPLOAD_BYTES sets/],
    ["/api/model", large, /1048576 bytes, the limit that PLUMBLINE_MODEL_BYTES sets/],
    ["/api/many", several, /more than 3 files, the limit that PLUMBLINE_UPLOAD_FILES sets/],
    ["/api/one", several, /^Send one file at a time$/],
  ] as const) {
    const answer = await send(path, body);
    assert.equal(answer.status, 413);
    assert.match(answer.body.detail, detail);
  }
});

test("a disk below its mark is 507 before anything is read", async () => {
  const full = await testFloor(
    { many: promise("/api/many", true) },
    { many: async () => ({}) },
    { freeDisk: Number.MAX_SAFE_INTEGER },
  );
  const response = await fetch(`${full.url}/api/many`, {
    method: "POST",
    body: form(["file", "a", "a"]),
    headers: { authorization },
  });
  assert.equal(response.status, 507);
  assert.ok(response.headers.get("retry-after"));
  await full.close();
});

test("on a full disk a request that was performed before is answered again, and a new one is 507", async () => {
  const post = {
    method: "POST",
    tag: "t",
    summary: "",
    headers: idempotencyHeaders,
    reply: { type: "object" },
  } as const;
  const upload = endpoint({ ...post, path: "/api/upload", upload: { many: false }, errors: [] });
  const plain = endpoint({ ...post, path: "/api/plain", body: { type: "object" }, errors: ["disk_full"] });
  const never = async (): Promise<never> => assert.fail("it is performed again");
  const written: string[] = [];
  const full = await testFloor(
    { upload, plain },
    { upload: never, plain: never },
    {
      freeDisk: Number.MAX_SAFE_INTEGER,
      checkDisk: async () => {
        throw new Failure("disk_full");
      },
      isKnown: (_owner, key) => key !== '"other"',
      // The answer to "gone" is a day old by now, so it would be performed.
      once: async (_owner, key, _request, perform) => {
        written.push(...readdirSync(full.folder));
        return key === '"gone"' ? { reply: await perform(() => {}) } : { again: '{"id":1}' };
      },
    },
  );
  const ask = async (path: string, key: string, body: FormData | string, more: Record<string, string> = {}) => {
    const headers = { authorization, "idempotency-key": key, ...more };
    const response = await fetch(full.url + path, { method: "POST", body, headers });
    return [response.status, response.headers.get("idempotent-replayed"), await response.json()];
  };
  const asJson = { "content-type": "application/json" };
  const again = [200, "true", { id: 1 }];
  assert.deepEqual(await ask("/api/plain", '"first"', "{}", asJson), again);
  assert.deepEqual(await ask("/api/upload", '"first"', form(["file", "a", "a"])), again);
  assert.deepEqual(written, []);
  assert.equal((await ask("/api/upload", '"gone"', form(["file", "a", "a"])))[0], 409);
  assert.equal((await ask("/api/plain", '"other"', "{}", asJson))[0], 507);
  assert.equal((await ask("/api/upload", '"other"', form(["file", "a", "a"])))[0], 507);
  assert.deepEqual(readdirSync(full.folder), []);
  await full.close();
});

test("a client that leaves at any point leaves nothing behind", async () => {
  const before = handled;
  const body = multipart(
    ...[1, 2, 3].map(
      (n) => `Content-Disposition: form-data; name="file"; filename="${n}"\r\n\r\n${"x".repeat(20_000)}`,
    ),
  );
  const head = `POST /api/many HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\nContent-Type: ${typed["content-type"]}\r\nContent-Length: ${body.length}\r\n\r\n`;
  const cuts = Array.from({ length: 30 }, (_, i) => Math.floor((body.length * i) / 30));
  await Promise.all(
    cuts.map(async (cut, i) => {
      const socket = createConnection(Number(new URL(floor.url).port), "127.0.0.1");
      socket.on("error", () => {});
      socket.write(head + body.slice(0, cut));
      await sleep(20);
      if (i % 2 === 0) socket.destroy();
      else socket.resetAndDestroy();
    }),
  );
  await eventually(() => left().length === 0);
  assert.equal(handled, before);
  const whole = await raw(floor.url, head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n") + body);
  assert.equal(whole.status, 200);
});
