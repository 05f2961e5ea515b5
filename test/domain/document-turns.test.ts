// Who reads when: a fair turn for every owner, whatever the others bring.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { createLanes } from "../../src/base/lanes.ts";
import { pdf } from "../helpers/document-files.ts";
import { documentReader } from "../helpers/read-document.ts";

/** Work that ends when it is told to, and the order in which it began. */
function jobs() {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    work: (name: string) => (): Promise<void> => {
      begun.push(name);
      return new Promise((resolve) => ends.set(name, resolve));
    },
    async end(name: string): Promise<void> {
      ends.get(name)!();
      await new Promise(setImmediate);
    },
  };
}

test("one owner leaves a lane to the others", async () => {
  const inLane = createLanes(2);
  const { begun, work, end } = jobs();
  const all = ["a1", "a2", "a3", "b1", "c1"].map((name) => inLane(name[0]!, null, work(name)));
  await new Promise(setImmediate);
  assert.deepEqual(begun, ["a1", "b1"]);
  await end("b1");
  assert.deepEqual(begun, ["a1", "b1", "c1"]);
  await end("c1");
  assert.deepEqual(begun, ["a1", "b1", "c1"], "the second lane stays free");
  await end("a1");
  await end("a2");
  await end("a3");
  await Promise.all(all);
});

test("owners take turns, however many one of them has", async () => {
  const inLane = createLanes(2);
  const { begun, work, end } = jobs();
  const names = ["x1", "y1", "a1", "a2", "a3", "b1", "b2"];
  const all = names.map((name) => inLane(name[0]!, null, work(name)));
  await new Promise(setImmediate);
  for (let next = 0; next < names.length; next++) await end(begun[next]!);
  await Promise.all(all);
  assert.deepEqual(begun, ["x1", "y1", "a1", "b1", "a2", "b2", "a3"]);
});

test("who leaves while waiting is not waited for, and a lane comes back from what fails", async () => {
  const inLane = createLanes(2);
  const leaving = new AbortController();
  const { begun, work, end } = jobs();
  const first = inLane("a", null, work("a1"));
  const second = assert.rejects(inLane("a", leaving.signal, work("a2")), { code: "bad_request" });
  const third = assert.rejects(
    inLane("a", null, async () => assert.fail("as it should")),
    /as it should/,
  );
  leaving.abort();
  await second;
  await assert.rejects(inLane("b", leaving.signal, work("b1")), { code: "bad_request" });
  await end("a1");
  await first;
  await third;
  const last = inLane("a", null, work("a4"));
  await new Promise(setImmediate);
  await end("a4");
  await last;
  assert.deepEqual(begun, ["a1", "a4"]);
});

test("one owner's slow documents do not hold back another's", async () => {
  // Three seconds of computing, which each of the slow ones takes to its end.
  const reader = documentReader(() => 3);
  const slow = "Words of a *text* that goes [on](x) and `on`.\n\n".repeat(200_000);
  const ended: string[] = [];
  const read = (owner: string, name: string, content: string | Uint8Array): Promise<void> =>
    reader.read(name, content, { owner }).then(
      () => void ended.push(`${owner} ${name}`),
      ({ code }) => void ended.push(`${owner} ${name} ${code}`),
    );
  const theirs = Array.from({ length: 4 }, (_, i) => read("ann", `${i}.md`, slow));
  await Promise.all([read("bob", "b.txt", "words"), read("bob", "b.pdf", pdf([[{ text: "words", x: 72, y: 700 }]]))]);
  assert.deepEqual(ended.filter((line) => line.startsWith("bob")).sort(), ["bob b.pdf", "bob b.txt"]);
  assert.ok(ended.length < 4, `of ann's four some were still to come: ${ended.join(", ")}`);
  await Promise.all(theirs);
  assert.deepEqual(
    ended.filter((line) => line.startsWith("ann")).sort(),
    ["0", "1", "2", "3"].map((n) => `ann ${n}.md document_limit`),
  );
  await reader.close();
});

test("a program that does nothing but read stays until the last document is read", () => {
  const helper = new URL("../helpers/read-document.ts", import.meta.url).href;
  const program = `const { documentReader } = await import(${JSON.stringify(helper)});
    const reader = documentReader();
    for (const times of [40, 2000, 1, 40, 2000, 1, 40, 1, 2000, 40, 1, 1]) console.log((await reader.read("a.txt", "The gate opens at six. ".repeat(times))).text.slice(0, 5));
    await reader.close();`;
  const { stdout, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  assert.deepEqual([stdout.trim().split("\n").length, status], [12, 0]);
});
