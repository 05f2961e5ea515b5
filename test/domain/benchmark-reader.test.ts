// Benchmarks are read as documents are: a limit of time and of memory, and a fair turn for every owner.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type BenchmarkReader, createBenchmarkReader } from "../../src/domain/benchmarks/reader.ts";

let reader: BenchmarkReader;
before(() => {
  // A fast core reads the slow files in two seconds, and a slow one starts a thread in one: no single limit parts them.
  reader = createBenchmarkReader((bytes) => (bytes > 1_000_000 ? 0.3 : 20));
});
after(() => reader.close());

const stays = new AbortController().signal;
const quick = JSON.stringify({ instruction: "Who?", response: "Ada" });
/** Takes far more than it has. */
const slow = Array.from({ length: 100_000 }, (_, n) =>
  JSON.stringify({ instruction: `${n} ${"is it so? ".repeat(60)}`, response: "Yes", aliases: Array(100).fill("y") }),
).join("\n");

test("one owner's slow files do not hold back another's, and end by time", async () => {
  const ended: string[] = [];
  const read = (owner: string, name: string, text: string): Promise<void> =>
    reader.read(owner, name, text, stays).then(
      () => void ended.push(`${owner} ${name}`),
      ({ code }) => void ended.push(`${owner} ${name} ${code}`),
    );
  const theirs = Array.from({ length: 3 }, (_, n) => read("ann", `${n}.jsonl`, slow));
  await read("bob", "b.jsonl", quick);
  assert.ok(ended.length < 3, `of ann's three some were still to come: ${ended.join(", ")}`);
  assert.ok(ended.includes("bob b.jsonl"));
  await Promise.all(theirs);
  assert.deepEqual(
    ended.filter((line) => line.startsWith("ann")),
    ["0", "1", "2"].map((n) => `ann ${n}.jsonl benchmark_limit`),
  );
});

test("an upload that was cut off is read no further", async () => {
  const leaving = new AbortController();
  const reading = assert.rejects(reader.read("ann", "a.jsonl", slow, leaving.signal), { code: "bad_request" });
  setTimeout(() => leaving.abort(), 200);
  await reading;
});

test("what the rows lack is said with its place", async () => {
  const reading = reader.read("ann", "a.jsonl", JSON.stringify({ instruction: "Who?" }), stays);
  await assert.rejects(reading, ({ code, details }) => {
    assert.equal(code, "benchmark_invalid");
    assert.deepEqual(details[0].loc, ["body", "file", 1, "response"]);
    return true;
  });
});
