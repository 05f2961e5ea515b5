// What the log says of requests.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { endpoint } from "../../src/contract/endpoint.ts";
import { type Floor, testFloor, testKey } from "../helpers/floor.ts";
import { eventually } from "../helpers/house.ts";
import { raw, rawGet } from "../helpers/raw.ts";

const any = { type: "object" } as const;
const get = (path: string) => ({ method: "GET", path, tag: "t", summary: "", reply: any, errors: [] }) as const;
const endpoints = {
  slow: endpoint(get("/api/slow")),
  health: endpoint({ ...get("/health"), open: true, watched: true }),
  other: endpoint({ ...get("/other"), open: true }),
};

let floor: Floor;
const arrived: AbortSignal[] = [];
before(async () => {
  const slow = ({ signal }: { signal: AbortSignal }) => {
    arrived.push(signal);
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve({})));
  };
  floor = await testFloor(endpoints, { slow, health: async () => ({}), other: async () => ({}) } as never);
});
after(() => floor.close());

const linesOf = (path: string) => floor.log.filter(({ event, path: of }) => event === "request" && of === path);

test("a request whose client left before the answer is no 404", async () => {
  const head = `GET /api/slow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${testKey}\r\n\r\n`;
  await raw(floor.url, head, { ms: 300 });
  await eventually(() => linesOf("/api/slow").length > 0);
  assert.equal(arrived.length, 1);
  assert.deepEqual(
    linesOf("/api/slow").map(({ status }) => status),
    [499],
  );
});

test("what programs ask for all day is logged for debugging only, unlike all else", async () => {
  for (const path of ["/health", "/other", "/none"]) {
    await rawGet(floor.url, path, ["Host: localhost"]);
    await eventually(() => linesOf(path).length > 0);
  }
  const levels = ["/health", "/other", "/none"].map((path) => linesOf(path)[0]!.level);
  assert.deepEqual(levels, ["debug", "info", "info"]);
});
