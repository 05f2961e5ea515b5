// Requests with an Idempotency-Key: carried out once, whatever is sent again, and when.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { newId } from "../../src/base/ids.ts";
import { systemClock } from "../../src/base/time.ts";
import { type Endpoint, takesIdempotencyKey } from "../../src/contract/endpoint.ts";
import { type Contract, contract } from "../../src/contract/index.ts";
import type { TestCall, TestReply } from "../helpers/house.ts";
import { insertBase } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

type Name = keyof Contract;

const day = 24 * 3_600_000;
let aheadMs = 0;
const clock = { ...systemClock, now: () => new Date(Date.now() + aheadMs).toISOString() };

let it: Scripted;
let alignmentId: string;
let benchmarkId: string;
let documentId: string;
let agentId: string;
let keyCount = 0;
const newKey = (): string => `"${++keyCount}-8e03978e-40d5-43dd-bc93-6894a57f9324"`;

const jsonl = ["Who", "Where"]
  .map((ask) => JSON.stringify({ instruction: `${ask} is it?`, response: "One." }))
  .join("\n");
const file = (name: string, content: string) => [{ name, content }];

/** A sound request to each of them. */
const requests: Partial<Record<Name, () => TestCall>> = {
  "agents.create": () => ({ body: { name: "desk", base_model: it.baseId, system_prompt: "Be brief." } }),
  "agents.feedback": () => ({ params: { agent_id: agentId }, body: { rating: 80 } }),
  "alignments.create": () => ({
    // A base of its own each: what is under way for one would be answered with.
    body: { alignment_name: "it", base_model_id: insertBase(it.store, "other"), document_ids: [documentId] },
  }),
  "alignments.auto_align": () => ({
    params: { alignment_id: alignmentId },
    body: { target_score: 85, config: { training: { steps: 7 } } },
  }),
  "benchmarks.upload": () => ({ files: file("questions.jsonl", jsonl) }),
  "benchmarks.create": () => ({ body: { document_ids: [documentId], model: it.baseId } }),
  "benchmarks.strike": () => ({ params: { benchmark_id: benchmarkId }, body: { items: [1], reason: "wrong" } }),
  "captures.select": () => {
    capture("When does the harbour open in the morning?");
    return { body: { into: "document", name: "asked" } };
  },
  "proposals.accept": () => ({ params: { alignment_id: alignmentId, proposal_id: propose() }, body: {} }),
  "documents.upload": () => ({ query: "personal_data=flag", files: file("a.txt", "The harbour opens at six.") }),
  "evaluations.create": () => ({ body: { model_id: it.baseId, benchmark_id: benchmarkId } }),
};

function capture(question: string): void {
  it.store
    .prepare<string[]>(
      `INSERT INTO capture(id, owner_id, kind, subject_id, model_id, question, answer, masked, created_seq, created_at)
       SELECT ?, id, 'agent', ?, 'm', ?, 'At six, and it closes at nine.', 0, 1, '2026-01-01T00:00:00.000Z'
       FROM user WHERE name = 'ada'`,
    )
    .run(`capture_${++keyCount}`, agentId, question);
}

/** A proposal of the project that one captured answer speaks for. */
function propose(): string {
  const id = `proposal_${++keyCount}`;
  const run = (text: string, ...given: unknown[]) => it.store.prepare<unknown[]>(text).run(...given);
  run("INSERT OR IGNORE INTO capture_setting SELECT 'agent', id, owner_id, 1, '' FROM agent WHERE id = ?", agentId);
  run(
    `INSERT INTO capture(id, owner_id, kind, subject_id, model_id, question, answer, confidence, masked, created_seq, created_at)
     SELECT ?, owner_id, 'agent', ?, id, 'When is the next ferry?', 'At noon.', 10, 0, ?, '' FROM aligned_model
     WHERE alignment_id = ?`,
    ...[`capture_of_${id}`, agentId, it.store.nextSeq(), alignmentId],
  );
  run(
    `INSERT INTO auto_align_proposal(id, owner_id, alignment_id, created_seq, created_at)
     SELECT ?, owner_id, id, ?, '' FROM alignment WHERE id = ?`,
    ...[id, it.store.nextSeq(), alignmentId],
  );
  return id;
}

/** Its base has no file, so its run ends soon; here another takes that one's place, which nobody carries out. */
async function keepUnderWay(id: string): Promise<void> {
  const state = it.store.prepare<[string], { state: string }>("SELECT state FROM job WHERE subject_id = ?");
  while (state.get(id)?.state !== "failed") await setTimeout(20);
  it.store
    .prepare<[string, string]>(
      `INSERT INTO job(id, owner_id, kind, subject_id, state, epoch, created_seq, created_at)
       SELECT ?, owner_id, kind, subject_id, 'running', 1, created_seq, created_at FROM job WHERE subject_id = ?`,
    )
    .run(newId("job"), id);
}

const made = [
  "agent",
  "agent_feedback",
  "alignment",
  "auto_align",
  "benchmark",
  "benchmark_draft",
  "document",
  "evaluation",
];
const usedCaptures = "SELECT count(*) AS n FROM capture WHERE used_in IS NOT NULL";
/** How many there are of all that a request can make. */
const countAll = (): number[] =>
  [...made.map((table) => `SELECT count(*) AS n FROM ${table}`), usedCaptures, "SELECT count(*) AS n FROM job"].map(
    (sql) => it.store.prepare<[], { n: number }>(sql).get()!.n,
  );

const send = (name: Name, request: TestCall, key: string, more: TestCall = {}): Promise<TestReply> =>
  it.call(name, { ...request, ...more, headers: { "idempotency-key": key } });

const codeOf = ({ status, body }: TestReply): [number, string | undefined] => [status, body.error?.code];

before(async () => {
  it = await scriptedHouse({}, undefined, { clock });
  documentId = (await it.call("documents.upload", { files: file("b.txt", "The harbour opens at six.") })).body
    .documents[0].document_id;
  benchmarkId = (await it.call("benchmarks.upload", { files: file("q.jsonl", jsonl) })).body.benchmark_id;
  agentId = (await it.call("agents.create", requests["agents.create"]!())).body.data.id;
  ({ alignmentId } = await it.align());
});
beforeEach(() => {
  aheadMs = 0;
});
after(() => it.close());

const names = Object.keys(contract).filter((name) => takesIdempotencyKey(contract[name as Name])) as Name[];

describe("every endpoint that takes a key", () => {
  for (const name of names) {
    test(`${name}: the same request again makes nothing and is answered as before`, async () => {
      const request = requests[name]!();
      const before = countAll();
      const [key, again] = [newKey(), newKey()];
      const first = await send(name, request, key);
      assert.equal(first.status, (contract[name] as Endpoint).status ?? 200, JSON.stringify(first.body));
      assert.equal(first.headers.get("idempotent-replayed"), null);
      const then = countAll();
      assert.notDeepEqual(then, before);
      const second = await send(name, request, key);
      assert.deepEqual([second.status, second.body], [first.status, first.body]);
      assert.equal(second.headers.get("idempotent-replayed"), "true");
      assert.equal(second.headers.get("content-type"), first.headers.get("content-type"));
      assert.deepEqual(countAll(), then);
      if (name === "captures.select") capture("When does the harbour close in the evening?");
      // It is the key that does it, but where a second one is no sound request.
      if (name !== "alignments.create" && name !== "proposals.accept") {
        assert.equal((await send(name, request, again)).status, first.status);
        assert.notDeepEqual(countAll(), then);
      }
    });

    test(`${name}: what it makes and its answer are kept together or not at all`, async () => {
      const request = requests[name]!();
      const before = countAll();
      const key = newKey();
      it.store.prepare("CREATE TRIGGER no BEFORE INSERT ON kept_reply BEGIN SELECT RAISE(ABORT, 'no'); END").run();
      try {
        assert.equal((await send(name, request, key)).status, 500);
      } finally {
        it.store.prepare("DROP TRIGGER no").run();
      }
      assert.deepEqual(countAll(), before);
      assert.equal((await send(name, request, key)).headers.get("idempotent-replayed"), null);
      assert.notDeepEqual(countAll(), before);
    });
  }

  test("is described so, with what it may answer", async () => {
    // biome-ignore lint/suspicious/noExplicitAny: a document of foreign shape.
    const document = (await (await fetch(`${it.url}/openapi.json`)).json()) as any;
    for (const [name, endpoint] of Object.entries<Endpoint>(contract)) {
      const { parameters = [], responses } = document.paths[endpoint.path][endpoint.method.toLowerCase()];
      const isNamed = parameters.some((one: { name: string }) => one.name === "idempotency-key");
      assert.equal(isNamed, names.includes(name as Name), name);
      for (const [status, code] of [
        ["409", "request_in_progress"],
        ["410", "made_and_deleted"],
        ["422", "idempotency_key_reused"],
      ] as const)
        assert.equal(
          responses[status]?.content["application/json"].examples[code] !== undefined,
          isNamed,
          `${name} ${code}`,
        );
    }
  });

  test("keeps no secret", () => {
    for (const name of names) assert.ok(!JSON.stringify(contract[name].reply).includes("shown this once"), name);
  });
});

describe("a key", () => {
  const agent = (body: object = {}): TestCall => ({ body: { name: "one", base_model: it.baseId, ...body } });

  test("goes with one request only: another body, path, query, file or endpoint is refused", async () => {
    const key = newKey();
    const first = await send("agents.create", agent(), key);
    for (const [name, other] of [
      ["agents.create", agent({ temperature: 0.1 })],
      ["agents.feedback", requests["agents.feedback"]!()],
      ["evaluations.create", requests["evaluations.create"]!()],
    ] as const) {
      const before = countAll();
      assert.deepEqual(codeOf(await send(name, other, key)), [422, "idempotency_key_reused"]);
      assert.deepEqual(countAll(), before);
    }
    assert.deepEqual((await send("agents.create", agent(), key)).body, first.body);

    const feedback = newKey();
    const { id } = first.body.data;
    assert.equal((await send("agents.feedback", requests["agents.feedback"]!(), feedback)).status, 200);
    const elsewhere = { params: { agent_id: id }, body: { rating: 80 } };
    assert.deepEqual(codeOf(await send("agents.feedback", elsewhere, feedback)), [422, "idempotency_key_reused"]);

    const upload = newKey();
    const [sent, query] = [file("a.txt", "Ships wait."), "personal_data=flag"];
    assert.equal((await send("documents.upload", { files: sent, query }, upload)).status, 200);
    for (const other of [
      { files: sent, query: "personal_data=mask" },
      { files: file("b.txt", "Ships wait."), query },
      { files: file("a.txt", "Ships go."), query },
      { files: [...sent, ...sent], query },
    ])
      assert.deepEqual(codeOf(await send("documents.upload", other, upload)), [422, "idempotency_key_reused"]);
  });

  test("a verbatim block is the same only byte for byte", async () => {
    const post = (config: string): Promise<Response> =>
      it.get(`/api/v3/alignment-projects/${alignmentId}/auto-align`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "verbatim" },
        body: `{"target_score": 85, "config": {"training": {"steps": ${config}}}}`,
      });
    const first = await post("1e400");
    assert.equal(first.status, 202);
    assert.equal((await post("2e400")).status, 422);
    const again = await post("1e400");
    assert.equal(again.status, 202);
    assert.equal(await again.text(), await first.text());
  });

  test("is its owner's: the same of another user is another, and of another key of the owner's it is not", async () => {
    const key = newKey();
    const first = await send("agents.create", agent(), key);
    const others = await send("agents.create", agent(), key, { key: it.otherKey });
    assert.equal(others.headers.get("idempotent-replayed"), null);
    assert.equal(others.body.data.creator, "bob");
    const { key: second } = (await it.call("keys.create", { body: { scopes: ["agents"] } })).body;
    assert.deepEqual((await send("agents.create", agent(), key, { key: second })).body, first.body);
    assert.deepEqual((await send("agents.create", agent(), key, { key: it.otherKey })).body, others.body);
  });

  test("twins at once make one thing: the later ones are told to wait, and are answered like the first then", async () => {
    const before = countAll()[made.indexOf("document")]!;
    const key = newKey();
    const request = { files: file("long.txt", "The harbour opens at six. ".repeat(20_000)) };
    const replies = await Promise.all(Array.from({ length: 8 }, () => send("documents.upload", request, key)));
    const [done, waiting] = [200, 409].map((status) => replies.filter((reply) => reply.status === status));
    assert.equal(done!.length + waiting!.length, replies.length, JSON.stringify(replies.map(codeOf)));
    assert.ok(done!.length > 0 && waiting!.length > 0);
    for (const reply of waiting!) {
      assert.equal(reply.body.error.code, "request_in_progress");
      assert.equal(reply.headers.get("retry-after"), "1");
    }
    assert.equal(countAll()[made.indexOf("document")], before + 1);
    assert.deepEqual((await send("documents.upload", request, key)).body, done![0]!.body);
  });

  test("of a request that failed is as good as new", async () => {
    const key = newKey();
    const missing = { body: { name: "one", base_model: "model_none" } };
    assert.deepEqual(codeOf(await send("agents.create", missing, key)), [404, "not_found"]);
    assert.deepEqual(codeOf(await send("agents.create", { body: {} }, key)), [422, "validation"]);
    assert.equal((await send("agents.create", agent(), key)).status, 200);
  });

  test("keeps the answer of a request that had nothing to make, too", async () => {
    const request = requests["alignments.create"]!();
    const [first, key] = [await send("alignments.create", request, newKey()), newKey()];
    await keepUnderWay(first.body.alignment_id);
    const existing = await send("alignments.create", request, key);
    assert.equal(existing.body.alignment_id, first.body.alignment_id);
    assert.match(existing.body.message, /already exists/);
    it.store.prepare<[string]>("UPDATE alignment SET workflow_id = 'quick' WHERE id = ?").run(first.body.alignment_id);
    assert.deepEqual((await send("alignments.create", request, key)).body, existing.body);
    assert.notEqual((await send("alignments.create", request, newKey())).body.alignment_id, first.body.alignment_id);
  });

  test("outlives a restart", async () => {
    const key = newKey();
    const first = await send("agents.create", agent(), key);
    await it.restart();
    const before = countAll();
    // Its own answer, with the address of then: the reply is the first one's.
    assert.deepEqual((await send("agents.create", agent(), key)).body, first.body);
    assert.deepEqual(countAll(), before);
  });

  test("is forgotten after a day, and its row with it", async () => {
    const key = newKey();
    const first = await send("agents.create", agent(), key);
    aheadMs = day - 60_000;
    assert.deepEqual((await send("agents.create", agent(), key)).body, first.body);
    aheadMs = day + 60_000;
    const second = await send("agents.create", agent({ temperature: 0.2 }), key);
    assert.equal(second.status, 200);
    assert.notEqual(second.body.data.id, first.body.data.id);
    const { n } = it.store.prepare<[], { n: number }>("SELECT count(*) AS n FROM kept_reply").get()!;
    assert.equal(n, 1);
  });

  test("of what was deleted since gives nothing of it away and makes nothing", async () => {
    const text = "Of the harbour master's salary nobody knows.";
    const upload = { files: file("salary-of-the-master.txt", text) };
    const prompt = agent({ system_prompt: "Never speak of the salary." });
    const [forDocument, forAgent, forFeedback] = [newKey(), newKey(), newKey()];
    const { document_id } = (await send("documents.upload", upload, forDocument)).body.documents[0];
    const { id } = (await send("agents.create", prompt, forAgent)).body.data;
    const feedback = { params: { agent_id: id }, body: { rating: 1 } };
    await send("agents.feedback", feedback, forFeedback);
    const kept = (): string => JSON.stringify(it.store.prepare("SELECT * FROM kept_reply").all());
    assert.ok(kept().includes("salary-of-the-master") && kept().includes("speak of the salary"));
    await it.call("documents.delete", { params: { document_id } });
    await it.call("agents.delete", { params: { agent_id: id } });
    assert.ok(!kept().includes("salary"));
    const before = countAll();
    for (const [name, request, key] of [
      ["documents.upload", upload, forDocument],
      ["agents.create", prompt, forAgent],
      ["agents.feedback", feedback, forFeedback],
    ] as const)
      assert.deepEqual(codeOf(await send(name, request, key)), [410, "made_and_deleted"], name);
    assert.deepEqual(countAll(), before);
  });

  test("must be one, of printable characters, and not too long", async () => {
    for (const wrong of ["", "a b", "é", "x".repeat(256)]) {
      const { status, body } = await send("agents.create", agent(), wrong);
      assert.equal(status, 422, wrong);
      assert.deepEqual(body.detail[0].loc, ["header", "idempotency-key"]);
    }
    assert.equal((await send("agents.create", agent(), "x".repeat(255))).status, 200);
  });
});
