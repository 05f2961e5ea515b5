import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type TestHouse, testHouse } from "../helpers/house.ts";

let it: TestHouse;
before(async () => {
  it = await testHouse();
});
after(() => it.close());

type Row = Record<string, unknown>;
const upload = (content: string | Uint8Array, name = "rows.jsonl", key?: string) =>
  it.call("benchmarks.upload", { files: [{ name, content }], ...(key ? { key } : {}) });
const lines = (...rows: unknown[]): string => rows.map((row) => JSON.stringify(row)).join("\n");
const rows = (n: number, more: (i: number) => Row = () => ({})): Row[] =>
  Array.from({ length: n }, (_, i) => ({ instruction: `Question ${i}?`, response: `Answer ${i}`, ...more(i) }));
const dataOf = async (benchmark_id: string) => (await it.call("benchmarks.data", { params: { benchmark_id } })).body;

test("without a key every route is refused", async () => {
  for (const name of ["benchmarks.upload", "benchmarks.list", "benchmarks.get", "benchmarks.data"] as const)
    assert.equal((await it.call(name, { key: null, params: { benchmark_id: "x" } })).status, 422);
});

describe("an upload", () => {
  test("of JSONL keeps every field in order", async () => {
    const { status, body } = await upload(
      lines(
        { instruction: "Who?", response: "Ada", aliases: ["A. L.", "Lovelace"], cluster: "people", split: "dev" },
        { instruction: "When?", response: "1843", tolerance: 0.5, split: "sealed" },
        { instruction: "What is 2+2?", response: "4", split: "retention" },
      ),
      "first.jsonl",
    );
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal(body.name, "first");
    assert.deepEqual([body.n_samples, body.splits, body.status], [3, { dev: 1, sealed: 1, retention: 1 }, "READY"]);
    const data = await dataOf(body.benchmark_id);
    assert.deepEqual(data.document_ids, body.document_ids);
    assert.deepEqual(data.samples[0], {
      sample_num: 1,
      instruction: "Who?",
      response: "Ada",
      aliases: ["A. L.", "Lovelace"],
      type: "short",
      choices: [],
      rubric: [],
      citations: [],
      cluster: "people",
      split: "dev",
      tolerance: null,
    });
    assert.deepEqual([data.samples[1].type, data.samples[1].tolerance], ["numeric", 0.5]);
    assert.deepEqual(
      body.warnings.map(({ code, message }: { code: string; message: string }) => [
        code,
        /^With 1 sealed/.test(message),
      ]),
      [["few_sealed", true]],
    );
    assert.deepEqual((await it.call("benchmarks.get", { params: { benchmark_id: body.benchmark_id } })).body, body);
  });

  test("of CSV is the same benchmark as its JSONL", async () => {
    const csv = await upload(
      'instruction,response,aliases,tolerance,split\n"Who, then?",Ada,A. L.|Lovelace,,dev\n\nWhen?,1843,,0.5,sealed\n',
      "rows.csv",
    );
    const jsonl = await upload(
      lines(
        { instruction: "Who, then?", response: "Ada", aliases: ["A. L.", "Lovelace"], split: "dev" },
        { instruction: "When?", response: "1843", tolerance: 0.5, split: "sealed" },
      ),
    );
    assert.equal(csv.status, 200, JSON.stringify(csv.body));
    assert.equal(csv.body.sha256, jsonl.body.sha256);
  });

  const choice = { instruction: "Which pier?", response: "North", choices: ["South", "North"] };
  const long = {
    instruction: "How is a gauge returned?",
    response: "With form R2.",
    rubric: [{ text: "Names form R2" }],
  };
  const cited = [{ document: "handbook.pdf", page: 2, start: 10, end: 17, quote: "form R2" }];

  test("keeps what each type is graded by, and where the answer stands", async () => {
    const refusal = { instruction: "Who?", response: "Not known.", type: "refusal" };
    const { status, body } = await upload(lines(choice, { ...long, citations: cited }, refusal));
    assert.equal(status, 200, JSON.stringify(body));
    const { samples } = await dataOf(body.benchmark_id);
    assert.deepEqual(
      samples.map(({ type }: Row) => type),
      ["choice", "long", "refusal"],
    );
    assert.deepEqual(samples[0].choices, ["South", "North"]);
    assert.deepEqual(samples[1].rubric, [{ id: "r1", text: "Names form R2", weight: 1, level: "important" }]);
    assert.deepEqual(samples[1].citations, cited);
    const cell = (value: unknown) => `"${JSON.stringify(value).replaceAll('"', '""')}"`;
    const rows = [
      "instruction,response,choices,rubric,citations",
      "Which pier?,North,South|North,,",
      `How is a gauge returned?,With form R2.,,${cell(long.rubric)},${cell(cited)}`,
    ];
    const csv = await upload(rows.join("\n"), "types.csv");
    assert.equal(csv.status, 200, JSON.stringify(csv.body));
    const plain = ({ split: _, ...sample }: Row) => sample;
    const again = (await dataOf(csv.body.benchmark_id)).samples;
    assert.deepEqual(again.map(plain), samples.slice(0, 2).map(plain));
  });

  test("a formula in a cell stays text", async () => {
    const { body } = await upload('instruction,response\nQ?,"=cmd()|A"\n', "a.csv");
    assert.equal((await dataOf(body.benchmark_id)).samples[0].response, "=cmd()|A");
  });

  const ok = { instruction: "Q?", response: "A" };
  const cases: [string, string | Uint8Array, (string | number)[] | null, RegExp][] = [
    ["no instruction", lines(ok, { response: "A" }), [2, "instruction"], /row 2: instruction: field required/],
    ["an empty response", lines({ instruction: "Q?", response: " " }), [1, "response"], /row 1/],
    ["a number as answer", lines({ instruction: "Q?", response: 4 }), [1, "response"], /row 1.*string/],
    ["an unknown field", lines({ ...ok, sample_num: 1 }), [1, "sample_num"], /unknown field/],
    ["an unknown split", lines({ ...ok, split: "test" }), [1, "split"], /dev, sealed, retention/],
    ["a negative tolerance", lines({ ...ok, tolerance: -1 }), [1, "tolerance"], /row 1/],
    ["an alias that is no text", lines({ ...ok, aliases: ["a", 1] }), [1, "aliases", 1], /row 1/],
    ["half a surrogate pair", '{"instruction":"Q?","response":"\\ud800"}', [1], /surrogate/],
    ["NUL", '{"instruction":"Q\\u0000?","response":"A"}', [1], /NUL/],
    ["no JSON", `${lines(ok)}\n{oops}`, [2], /row 2: is not valid JSON/],
    ["an answer too long", lines({ ...ok, response: "x".repeat(20_001) }), [1, "response"], /20000/],
    ["a question twice", lines(ok, { instruction: " q? ", response: "B" }), [2, "instruction"], /occurs in row 1/],
    [
      "a cluster in two splits",
      lines({ ...ok, cluster: "c", split: "dev" }, { instruction: "R?", response: "A", cluster: "c", split: "sealed" }),
      [2, "split"],
      /row 1/,
    ],
    ["an unknown type", lines({ ...ok, type: "essay" }), [1, "type"], /short, numeric, choice, long, refusal/],
    ["a choice without choices", lines({ ...ok, type: "choice" }), [1, "choices"], /required for/],
    ["an answer that is no choice", lines({ ...choice, response: "East" }), [1, "response"], /not one of the choices/],
    ["the same choice twice", lines({ ...choice, choices: ["North", "North"] }), [1, "choices"], /row 1/],
    ["choices of a short item", lines({ ...choice, type: "short" }), [1, "choices"], /not short/],
    ["a long item without rubric", lines({ ...ok, type: "long" }), [1, "rubric"], /required for/],
    ["a rubric of a numeric item", lines({ ...long, type: "numeric" }), [1, "rubric"], /not numeric/],
    ["a rubric that is no JSON", "instruction,response,rubric\nQ,A,say R2\n", [1, "rubric"], /array/],
    ["a numeric item without number", lines({ ...ok, type: "numeric" }), [1, "response"], /no number/],
    ["a tolerance of a short item", lines({ ...ok, type: "short", tolerance: 1 }), [1, "tolerance"], /not short/],
    [
      "a citation that ends before it starts",
      lines({ ...ok, citations: [{ ...cited[0], end: 3 }] }),
      [1, "citations", 0],
      /start before end/,
    ],
    [
      "a citation without words",
      lines({ ...ok, citations: [{ document: "d" }] }),
      [1, "citations", 0, "quote"],
      /quired/,
    ],
    ["a CSV without the column", "question,answer\nQ,A\n", [0], /instruction and response is missing/],
    ["a CSV with another column", "instruction,response,id\nQ,A,1\n", [0], /unknown column: id/],
    ["a CSV with a column twice", "instruction,response,response\nQ,A,B\n", [0], /twice/],
    ["a CSV row too short", "instruction,response\nQ,A\nR\n", [2], /row 2/],
    ["a CSV without rows", "instruction,response\n", [1], /no row/],
    ["a CSV tolerance that is no number", "instruction,response,tolerance\nQ,1,1e\n", [1, "tolerance"], /row 1/],
    ["a JSON array", '[{"instruction":"Q?","response":"A"}]', [0], /one object per line/],
    ["nothing", "", null, /empty/],
    ["invalid UTF-8", Uint8Array.of(0x7b, 0xff), null, /UTF-8/],
  ];
  for (const [what, content, loc, message] of cases)
    test(`with ${what} is refused with its place`, async () => {
      const before = (await it.call("benchmarks.list")).body.total;
      const { status, body } = await upload(content);
      assert.equal(status, 422, JSON.stringify(body));
      assert.equal(body.error.code, "benchmark_invalid");
      assert.match(body.error.message, message);
      if (loc) assert.deepEqual(body.detail[0].loc, ["body", "file", ...loc]);
      assert.equal((await it.call("benchmarks.list")).body.total, before);
    });

  test("names every bad row, up to a point", async () => {
    const { body } = await upload(lines(...rows(200, (i) => (i % 2 ? { response: "" } : {}))));
    assert.equal(body.detail.length, 50);
    assert.deepEqual(body.detail[2].loc, ["body", "file", 4, "response"]);
  });

  test("of a program is 415, of too many rows 422", async () => {
    assert.equal((await upload("\x7fELF")).status, 415);
    const { status, body } = await upload(lines(...rows(100_001)));
    assert.equal(status, 422);
    assert.match(body.error.message, /limit is 100000/);
  });

  test("takes one file", async () => {
    const file = { name: "a.jsonl", content: lines(ok) };
    assert.equal((await it.call("benchmarks.upload", { files: [file, file] })).status, 413);
  });
});

describe("splits", () => {
  test("about 40 % dev, 60 % sealed, the same every time", async () => {
    const a = (await upload(lines(...rows(1000)))).body;
    const b = (await upload(lines(...rows(1000)))).body;
    assert.equal(a.sha256, b.sha256);
    assert.ok(a.splits.dev > 340 && a.splits.dev < 460, `${a.splits.dev}`);
    assert.equal(a.splits.dev + a.splits.sealed, 1000);
  });

  test("an item stays where it is when the benchmark grows", async () => {
    const splitsOf = async (n: number): Promise<string[]> =>
      (await dataOf((await upload(lines(...rows(n)))).body.benchmark_id)).samples.map(
        (s: { split: string }) => s.split,
      );
    const [few, many] = [await splitsOf(100), await splitsOf(200)];
    assert.deepEqual(many.slice(0, 100), few);
  });

  test("a cluster stays together, where one row says so too", async () => {
    const { body } = await upload(
      lines(...rows(60, (i) => ({ cluster: `c${i % 6}`, ...(i === 0 ? { split: "retention" } : {}) }))),
    );
    const byCluster = new Map<string, Set<string>>();
    for (const { cluster, split } of (await dataOf(body.benchmark_id)).samples)
      byCluster.set(cluster, (byCluster.get(cluster) ?? new Set()).add(split));
    for (const splits of byCluster.values()) assert.equal(splits.size, 1);
    assert.deepEqual([...byCluster.get("c0")!], ["retention"]);
  });

  test("even one item is sealed", async () => {
    for (let i = 0; i < 8; i++)
      assert.equal((await upload(lines({ instruction: `Only ${i}?`, response: "A" }))).body.splits.sealed, 1);
  });
});

describe("owners", () => {
  test("another's benchmark is missing on every route", async () => {
    const { benchmark_id, document_ids } = (await upload(lines(...rows(3)))).body;
    const params = { benchmark_id };
    for (const name of ["benchmarks.get", "benchmarks.data"] as const)
      for (const answer of [
        await it.call(name, { params, key: it.otherKey }),
        await it.call(name, { params: { benchmark_id: "benchmark_000000000000000000000000" } }),
      ]) {
        assert.equal(answer.status, 404);
        assert.equal(answer.body.detail, "Not found");
      }
    assert.equal((await it.call("benchmarks.list", { key: it.otherKey })).body.total, 0);
    // The upload's document is not one of the user's documents.
    assert.ok(
      (await it.call("documents.list")).body.documents.every(
        (d: { document_id: string }) => d.document_id !== document_ids[0],
      ),
    );
    assert.equal((await it.call("documents.get", { params: { document_id: document_ids[0] } })).status, 404);
    assert.equal((await it.call("documents.delete", { params: { document_id: document_ids[0] } })).status, 404);
  });
});
