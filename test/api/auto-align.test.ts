// Auto-align requests where they are only recorded: what is taken, and that it comes back byte for byte.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { openStore, type Store } from "../../src/store/open.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";
import { insertAlignment, insertBase } from "../helpers/rows.ts";

let it: TestHouse;
let store: Store;
let alignmentId: string;
before(async () => {
  it = await testHouse({ PLUMBLINE_AUTO_ALIGN: "record" });
  store = openStore(join(it.data, "plumbline.db"));
  alignmentId = insertAlignment(store, "ada", insertBase(store, "small"));
});
after(async () => {
  store.close();
  await it.close();
});

const path = (id = alignmentId): string => `/api/v3/alignment-projects/${id}/auto-align`;

async function send(body: string | Uint8Array, id = alignmentId, key = it.key) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  const response = await it.get(path(id), { method: "POST", headers, body: body as string });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
  return { status: response.status, body: (await response.json()) as any };
}

async function bytesOf(autoAlignId: string): Promise<Buffer> {
  const response = await it.get(`${path()}/${autoAlignId}`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
  return Buffer.from(await response.arrayBuffer());
}

/** The configuration's text comes back as it was, as the last member of the record. */
async function comesBack(config: string): Promise<void> {
  const { status, body } = await send(`{"target_score":50,"config":${config}}`);
  assert.equal(status, 202, `${config.slice(0, 500)}: ${JSON.stringify(body)}`);
  const record = await bytesOf(body.auto_align_id);
  const tail = Buffer.from(`,"config":${config}}`);
  assert.ok(record.subarray(-tail.length).equals(tail), config.slice(0, 500));
  const head = JSON.parse(`${record.subarray(0, -tail.length)}}`) as Record<string, unknown>;
  assert.equal(head.auto_align_id, body.auto_align_id);
}

// RFC 8259 as text, with what a reader that parses and writes again would change.
const space = fc.stringMatching(/^[ \t\r\n]{0,2}$/);
const literal = fc.constantFrom("true", "false", "null");
const number = fc.oneof(
  fc.constantFrom(
    "1e400",
    "-1E+400",
    "1.10",
    "9007199254740993",
    "-0",
    "0.0",
    "1e-400",
    "123456789012345678901234567890",
  ),
  fc.stringMatching(/^-?(0|[1-9]\d{0,25})(\.\d{1,20})?([eE][+-]?\d{1,4})?$/),
);
const string = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }).map((text) => JSON.stringify(text)),
  fc
    .array(
      fc.constantFrom("\\u0041", "\\/", "\\u0000", "\\ud83d\\ude00", "\\u00e9", "é", "\u2028", "\\\\", '\\"', "\ufeff"),
    )
    .map((parts) => `"${parts.join("")}"`),
);
const key = fc.oneof(string, fc.constantFrom('"a"', '"__proto__"', '"constructor"', '""', '"\\u0061"'));
const { value, block } = fc.letrec<{ value: string; block: string; list: string }>((tie) => ({
  value: fc.oneof({ depthSize: "small", withCrossShrink: true }, literal, number, string, tie("list"), tie("block")),
  list: fc
    .tuple(space, fc.array(tie("value"), { maxLength: 4 }), space)
    .map(([before, items, between]) => `[${before}${items.join(`${between},${before}`)}${between}]`),
  // Keys are drawn from few: some stand twice.
  block: fc
    .tuple(space, fc.array(fc.tuple(key, tie("value")), { maxLength: 5 }), space)
    .map(([before, members, between]) => {
      const texts = members.map(([name, of]) => `${name}${between}:${before}${of}`);
      return `{${before}${texts.join(`${between},${before}`)}${between}}`;
    }),
}));
const blockNames = ["advantage", "environment", "sampling", "training", "adapter", "logging", "dataset"] as const;
const config = fc
  .tuple(fc.array(fc.tuple(fc.constantFrom(...blockNames), block), { maxLength: 3 }), value, value, block)
  .map(([blocks, unlisted, inLoss, composite]) =>
    [
      `{ "unlisted":${unlisted}`,
      ...blocks.map(([name, text]) => `"${name}" : ${text}`),
      `"loss":{"mine":${inLoss}, "kl_coef":1e400}`,
      `"reward":{"llm_judge":${composite}}}`,
    ].join(" , "),
  );

describe("a configuration", () => {
  test("comes back byte for byte, whatever RFC 8259 text it is", { timeout: 240_000 }, async () => {
    await fc.assert(fc.asyncProperty(config, comesBack), { numRuns: 500 });
  });

  test("also where it is odd, and at the limits", async () => {
    const deep = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;
    for (const given of [
      "null",
      "{}",
      " {\n} ".trim(),
      '{"a":1e400,"a":1.10,"b":9007199254740993,"a":-1e999}',
      '{"loss":{"kl_coef":"1","kl_coef":1},"loss":null}',
      '{"training":{"__proto__":{"admin":true},"constructor":1}}',
      `{"sampling":{"stop":${deep(60)}}}`,
      `{"logging":{"text":"${"é".repeat(400_000)}"}}`,
      '{"optimizer":{"warmup_steps":1.5,"learning_rate":-7},"reward":{"clip":[1,2,3]}}',
      '{"loss":{"type":"no such loss"},"reward":{"type":"nobody"},"mine":[1,"a",null]}',
    ])
      await comesBack(given);
    assert.equal(({} as { admin?: boolean }).admin, undefined);
  });

  test("is null where none was sent, and the defaults are filled in", async () => {
    const { body } = await send('{"target_score":0}');
    const record = JSON.parse((await bytesOf(body.auto_align_id)).toString());
    assert.deepEqual(
      { ...record, auto_align_id: "", created_date: "", updated_date: "" },
      {
        auto_align_id: "",
        alignment_id: alignmentId,
        created_date: "",
        updated_date: "",
        ended_date: null,
        status: "RECORDED",
        phase: null,
        phases: 0,
        dev: null,
        stopping: false,
        hours: { spent: 0, left: null },
        confirmed: null,
        looks: [],
        cards: [],
        help: [],
        model_id: null,
        evaluation_id: null,
        error: null,
        target_score: 0,
        benchmark_id: null,
        method: "auto",
        representations: "auto",
        sequencing: null,
        max_compute_hours: null,
        notify_on_phase_transition: true,
        config: null,
      },
    );
  });
});

test("the project's status shows its requests, newest first", async () => {
  const own = insertAlignment(store, "ada", insertBase(store, "other"));
  const ids: string[] = [];
  for (const score of [10, 20]) ids.unshift((await send(`{"target_score":${score}}`, own)).body.auto_align_id);
  const { body } = await it.call("alignments.status", { params: { alignment_id: own } });
  assert.deepEqual(
    body.auto_align.map((one: Record<string, unknown>) => [one.auto_align_id, one.status, one.target_score]),
    [
      [ids[0], "RECORDED", 20],
      [ids[1], "RECORDED", 10],
    ],
  );
});

describe("refused as 422, naming the field", () => {
  const cases: [string, (string | number)[]][] = [
    ["{}", ["body", "target_score"]],
    ['{"target_score":99.5}', ["body", "target_score"]],
    ['{"target_score":-1}', ["body", "target_score"]],
    ['{"target_score":"50"}', ["body", "target_score"]],
    ['{"target_score":null}', ["body", "target_score"]],
    ['{"target_score":50,"max_compute_hours":-1}', ["body", "max_compute_hours"]],
    ['{"target_score":50,"sequencing":"cross_entropy"}', ["body", "sequencing"]],
    ['{"target_score":50,"sequencing":[1]}', ["body", "sequencing", 0]],
    ['{"target_score":50,"notify_on_phase_transition":"yes"}', ["body", "notify_on_phase_transition"]],
    ['{"target_score":50,"method":7}', ["body", "method"]],
    ['{"target_score":50,"unknown":1}', ["body", "unknown"]],
    ['{"target_score":50,"config":[]}', ["body", "config"]],
    ['{"target_score":50,"config":{"loss":1}}', ["body", "config", "loss"]],
    ['{"target_score":50,"config":{"loss":{"kl_coef":"x"}}}', ["body", "config", "loss", "kl_coef"]],
    ['{"target_score":50,"config":{"loss":{"ppo":{"clip_low":true}}}}', ["body", "config", "loss", "ppo", "clip_low"]],
    ['{"target_score":50,"config":{"optimizer":{"type":1}}}', ["body", "config", "optimizer", "type"]],
    ['{"target_score":50,"config":{"optimizer":{"warmup_steps":[]}}}', ["body", "config", "optimizer", "warmup_steps"]],
    ['{"target_score":50,"config":{"reward":{"clip":[1,"2"]}}}', ["body", "config", "reward", "clip", 1]],
    ['{"target_score":50,"config":{"training":5}}', ["body", "config", "training"]],
    ['{"target_score":50,"config":{"a":"\\ud800"}}', ["body", "config", "a"]],
    ['{"target_score":50,"config":{"a":01}}', ["body", "config", "a"]],
    ['{"target_score":50,"config":{"a":NaN}}', ["body", "config", "a"]],
    ['{"target_score":50,"config":{"a":1,}}', ["body", "config", "a"]],
    [`{"target_score":50,"config":{"a":${"[".repeat(100)}${"]".repeat(100)}}}`, ["body", "config", "a"]],
    ['{"target_score":50,"target_score":60}', ["body", "target_score"]],
    ['{"target_score":1e400}', ["body", "target_score"]],
    ['{"target_score":50,"config":{},"config":{}}', ["body", "config"]],
  ];
  for (const [body, loc] of cases)
    test(body.slice(0, 90), async () => {
      const { status, body: answer } = await send(body);
      assert.equal(status, 422);
      const at = answer.detail[0].loc as (string | number)[];
      // Where the text is no JSON the place is as near as the reader had come.
      assert.deepEqual(at.slice(0, loc.length), loc.slice(0, at.length));
    });

  test("bytes that are no UTF-8", async () => {
    const body = Buffer.from('{"target_score":50,"config":{"a":"\xff"}}', "latin1");
    assert.equal((await send(body)).status, 422);
  });
});

test("one that is recorded is not resumed; it is stopped at once, and its events end", async () => {
  const { auto_align_id } = (await send('{"target_score":5}')).body;
  const params = { alignment_id: alignmentId, auto_align_id };
  assert.equal((await it.call("alignments.auto_align_resume", { params })).status, 409);
  const { body } = await it.call("alignments.auto_align_stop", { params });
  assert.equal(body.status, "STOPPED");
  assert.equal((await it.call("alignments.auto_align_stop", { params })).status, 409);
  const events = await (await it.get(`${path()}/${auto_align_id}/events`)).text();
  assert.match(events, /id: 0\.1\nevent: transition\ndata: .*"from":"RECORDED","to":"STOPPED"/);
  assert.equal((await it.call("alignments.auto_align_stop", { params, key: it.otherKey })).status, 404);
});

test("another user's project, benchmark or request is not found", async () => {
  const { auto_align_id } = (await send('{"target_score":5}')).body;
  assert.equal((await send('{"target_score":5}', alignmentId, it.otherKey)).status, 404);
  assert.equal((await send('{"target_score":5}', "alignment_none")).status, 404);
  assert.equal((await send('{"target_score":5,"benchmark_id":"benchmark_none"}')).status, 404);
  const theirs = insertAlignment(store, "bob", insertBase(store, "third"));
  for (const [project, id, key] of [
    [alignmentId, auto_align_id, it.otherKey],
    [theirs, auto_align_id, it.otherKey],
    [alignmentId, "auto_align_none", it.key],
  ])
    assert.equal(
      (
        await it.call("alignments.auto_align_record", {
          params: { alignment_id: project!, auto_align_id: id! },
          key: key!,
        })
      ).status,
      404,
    );
});
