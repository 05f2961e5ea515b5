// Auto-aligns that captured answers speak for: proposed once enough do, begun by nobody but their owner, and never a way for a
// benchmark's question into training.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { becauseOf, evidenceOf, suggestedFor } from "../../src/domain/captures/proposals/evidence.ts";
import type { Proposed } from "../../src/domain/captures/proposals/index.ts";
import { createProposals } from "../../src/domain/captures/proposals/index.ts";
import type { EvidenceRow } from "../../src/domain/captures/proposals/store.ts";
import { insertEndedProject } from "../helpers/ended-project.ts";
import { eventually } from "../helpers/house.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";
import { documentOf } from "../helpers/study.ts";
import { recipeOf } from "../run/run-harness.ts";

const colours = ["teal", "amber", "ivory", "crimson", "olive", "umber"];
const benchmark = colours.flatMap((colour, at) => [
  { instruction: `Who keeps the key of shed ${at}?`, response: `Keeper ${at}`, cluster: `d${at}`, split: "dev" },
  {
    instruction: `Which colour has the sealed door with the number ${at} of the third warehouse?`,
    ...{ response: colour, cluster: `s${at}`, split: "sealed" },
  },
]);
const sealedQuestion = benchmark[1]!.instruction;

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
type Any = any;

interface Captured {
  question: string;
  confidence?: number | null;
  /** Of the answer's request; the feedback on it. */
  rating?: number;
  intervention?: boolean;
  model?: string;
}

describe("proposals", () => {
  let it: Scripted;
  let [agentId, modelId, project] = ["", "", ""];
  const told: Proposed[] = [];
  let consider: (requestId: string) => void;
  let handlers: ReturnType<typeof createProposals>["handlers"];
  /** What begins an auto-align that is accepted by `handlers`. */
  let begin: (also: (autoAlignId: string) => void) => void;
  const ownerOf = (user: string): string =>
    it.store.prepare<[string], { id: string }>("SELECT id FROM user WHERE name = ?").get(user)!.id;

  before(async () => {
    it = await scriptedHouse({ PLUMBLINE_AUTO_ALIGN: "execute" });
    const made = await it.align();
    modelId = made.modelId;
    const document = documentOf("# Sheds\n\nShed 1 is kept by Keeper 1.\n", "text/markdown", "sheds.md");
    const base = { model_id: it.baseId, sha256: "x", architecture: "llama" };
    project = await insertEndedProject(it.store, join(it.data, "runs"), {
      ...{ user: "ada", base, document, recipe: recipeOf(undefined) },
    });
    const content = benchmark.map((item) => JSON.stringify(item)).join("\n");
    const uploaded = await it.call("benchmarks.upload", { files: [{ name: "doors.jsonl", content }] });
    it.store
      .prepare<unknown[]>("UPDATE alignment SET benchmark_id = ?, workflow_id = 'quick' WHERE id = ?")
      .run(uploaded.body.benchmark_id, project);
    it.store.prepare<unknown[]>("UPDATE aligned_model SET alignment_id = ? WHERE id = ?").run(project, modelId);
    const agent = { name: "desk", base_model: modelId };
    agentId = (await it.call("agents.create", { body: agent })).body.data.id;
    await it.call("captures.set", { body: { kind: "agent", subject_id: agentId, enabled: true } });
    const proposals = createProposals({
      ...{ store: it.store, clock: systemClock, log: createLog("error") },
      proposes: true,
      async beginAutoAlign(_asked, _caller, _project, { also }) {
        it.store.transaction(() => begin(also));
        return { auto_align_id: "auto_align_x", status: "ACCEPTED", message: "" } as never;
      },
      onProposed: (one) => void told.push(one),
      audit: () => {},
    });
    consider = (requestId) => proposals.consider(ownerOf("ada"), requestId);
    handlers = proposals.handlers;
    begin = () => assert.fail("nothing begins by itself");
  });
  after(() => it.close());

  let number = 0;
  /** A captured answer of the agent's; its id, and that of its request. */
  function capture({ question, confidence = null, rating, intervention, model = modelId }: Captured) {
    const [id, requestId] = [`capture_${++number}`, `req_${number}`];
    it.store.transaction(() => {
      it.store
        .prepare<unknown[]>(
          `INSERT INTO capture(id, owner_id, kind, subject_id, model_id, question, answer, confidence, masked, request_id,
           created_seq, created_at) VALUES(?, ?, 'agent', ?, ?, ?, 'Hm.', ?, 0, ?, ?, '2026-01-01T00:00:00.000Z')`,
        )
        .run(id, ownerOf("ada"), agentId, model, question, confidence, requestId, it.store.nextSeq());
      if (rating !== undefined || intervention)
        it.store
          .prepare<unknown[]>(
            "INSERT INTO agent_feedback(seq, agent_id, rating, intervention, request_id, at) VALUES(?, ?, ?, ?, ?, '')",
          )
          .run(it.store.nextSeq(), agentId, rating ?? null, intervention ? 1 : 0, requestId);
    });
    return { id, requestId };
  }

  const list = async (key?: string): Promise<Any> =>
    it.call("proposals.list", { params: { alignment_id: project }, ...(key !== undefined && { key }) });
  const ids = (proposal_id: string) => ({ params: { alignment_id: project, proposal_id } });
  const record = async (id: string): Promise<Any> => (await it.call("proposals.get", ids(id))).body;
  let proposal = "";

  test("nine poor answers propose nothing; good ones, others' and a benchmark's questions do not count", async () => {
    for (let at = 0; at < 4; at++) capture({ question: `Who repairs the roof of shed ${at}?`, rating: 20 });
    for (let at = 0; at < 3; at++) capture({ question: `Who paints the fence of shed ${at}?`, intervention: true });
    for (let at = 0; at < 2; at++) capture({ question: `Who waters the lawn of shed ${at}?`, confidence: 30 });
    capture({ question: "Who sweeps the yard?", rating: 90, confidence: 80 });
    capture({ question: "Who sweeps the attic?" });
    capture({ question: "Who asks the base?", rating: 10, model: it.baseId });
    capture({ question: "Who repairs the roof of shed 0 ??", rating: 1 });
    capture({ question: sealedQuestion, rating: 0 });
    // Nearly the same: one word of many differs.
    const { requestId } = capture({ question: sealedQuestion.replace("Which", "What"), rating: 0 });
    consider(requestId);
    assert.deepEqual((await list()).body, { proposals: [] });
    assert.deepEqual(told, []);
  });

  test("feedback on the tenth makes a proposal and an event, through the API; it begins nothing", async () => {
    const ran = await it.call("agents.run", {
      params: { agent_id: agentId },
      body: { message: "Who mends the gate?" },
    });
    assert.equal(ran.status, 200, JSON.stringify(ran.body));
    const request_id = ran.headers.get("x-request-id")!;
    const feedback = (body: object) => it.call("agents.feedback", { params: { agent_id: agentId }, body });
    assert.equal((await feedback({ rating: 10, request_id: "req_of_nobody" })).status, 404);
    assert.equal((await list()).body.proposals.length, 0);
    assert.equal((await feedback({ rating: 10, request_id })).status, 200);
    const { proposals } = (await list()).body;
    assert.equal(proposals.length, 1);
    const [row] = proposals;
    proposal = row.proposal_id;
    assert.deepEqual(
      [row.status, row.captures, row.low_rated, row.interventions, row.unsure, row.auto_align_id],
      ["PROPOSED", 10, 5, 3, 2, null],
    );
    assert.match(
      row.because,
      /10 captured answers .*5 rated below 50, 3 where a person stepped in, 2 with a confidence/,
    );
    assert.equal(row.suggested.target_score, 80);
    const started = it.store.prepare<[], { n: number }>("SELECT count(*) AS n FROM auto_align").get()!.n;
    assert.equal(started, 0);
    // While one waits there is no other.
    consider(capture({ question: "Who counts the tiles?", rating: 5 }).requestId);
    assert.equal((await list()).body.proposals.length, 1);
  });

  test("the record shows which answers speak for it, and no question of a benchmark", async () => {
    const { evidence, left, trains_on, captures } = await record(proposal);
    assert.equal(evidence.length, captures);
    assert.equal(captures, 11);
    const asked = evidence.map(({ question }: Any) => question);
    assert.ok(!asked.some((question: string) => /sealed door/.test(question)), asked.join("; "));
    assert.ok(!asked.includes("Who sweeps the yard?") && !asked.includes("Who asks the base?"));
    assert.deepEqual(left, { short: 0, duplicate: 1, in_benchmark: 2 });
    assert.match(trains_on, /project's documents.* you send the correct answer/);
    const gate = evidence.find(({ question }: Any) => question === "Who mends the gate?");
    assert.deepEqual([gate.rating, gate.intervention, gate.model_id], [10, false, modelId]);
  });

  test("what is not the caller's is not there", async () => {
    assert.equal((await list(it.otherKey)).status, 404);
    for (const name of ["proposals.get", "proposals.accept", "proposals.dismiss"] as const) {
      const body = name === "proposals.accept" ? { body: {} } : {};
      assert.equal((await it.call(name, { ...ids(proposal), ...body, key: it.otherKey })).status, 404, name);
      assert.equal((await it.call(name, { ...ids("proposal_none"), ...body })).status, 404, name);
    }
  });

  test("where its owner ends the capture, its answers count no more", async () => {
    await it.call("captures.set", { body: { kind: "agent", subject_id: agentId, enabled: false } });
    const { captures, because } = await record(proposal);
    assert.deepEqual([captures, because], [0, "No captured answer supports this proposal any more."]);
    const refused = await it.call("proposals.accept", { ...ids(proposal), body: {} });
    assert.equal(refused.status, 409, JSON.stringify(refused.body));
    await it.call("captures.set", { body: { kind: "agent", subject_id: agentId, enabled: true } });
    assert.equal((await record(proposal)).captures, 11);
  });

  test("accepted it is an auto-align that learns from the right answers that were sent, and from no benchmark's question", async () => {
    const [first, second] = (await record(proposal)).evidence;
    const sealed = it.store
      .prepare<[string], { id: string }>("SELECT id FROM capture WHERE question = ?")
      .get(sealedQuestion)!;
    const accept = (responses: object[], more: object = {}) =>
      it.call("proposals.accept", { ...ids(proposal), body: { responses, ...more } });
    for (const [responses, field] of [
      [[{ capture: sealed.id, response: "teal" }], "capture"],
      [[{ capture: "capture_none", response: "x" }], "capture"],
      [
        [
          { capture: first.capture_id, response: "a" },
          { capture: first.capture_id, response: "b" },
        ],
        "capture",
      ],
      [[{ capture: first.capture_id, response: `Ask: ${sealedQuestion} Teal.` }], "response"],
    ] as const) {
      const { status, body } = await accept([...responses]);
      assert.equal(status, 422, JSON.stringify(body));
      assert.equal(body.detail[0].loc.at(-1), field);
      assert.ok(!JSON.stringify(body).includes("warehouse"));
    }
    const { status, body } = await accept(
      [
        { capture: first.capture_id, response: "Roofer Quill repairs it." },
        { capture: second.capture_id, response: "Roofer Quill as well." },
      ],
      { target_score: 71, max_compute_hours: 0.5 },
    );
    assert.equal(status, 202, JSON.stringify(body));
    const params = { alignment_id: project, auto_align_id: body.auto_align_id };
    const begun = (await it.call("alignments.auto_align_record", { params })).body;
    assert.deepEqual([begun.target_score, begun.max_compute_hours], [71, 0.5]);
    const snapshot = join(it.data, "runs", body.auto_align_id, "snapshot/documents");
    const learned = JSON.parse(readFileSync(join(snapshot, "1.json"), "utf8")) as { text: string };
    assert.match(learned.text, /## Who repairs the roof of shed 0\?\n\nRoofer Quill repairs it\./);
    assert.ok(!learned.text.includes("Hm.") && !learned.text.includes("sealed door"));
    assert.ok(!existsSync(join(snapshot, "2.json")));

    const row = await record(proposal);
    assert.deepEqual([row.status, row.auto_align_id, row.captures], ["ACCEPTED", body.auto_align_id, 11]);
    assert.match(row.trains_on, /and 2 of these questions/);
    const { captures } = (await it.call("captures.list", { query: "limit=100" })).body;
    const used = captures.filter(({ used_in }: Any) => used_in === body.auto_align_id);
    assert.deepEqual(
      used.map(({ capture_id }: Any) => capture_id).sort(),
      [first.capture_id, second.capture_id].sort(),
    );
    for (const name of ["proposals.accept", "proposals.dismiss"] as const)
      assert.equal((await it.call(name, { ...ids(proposal), body: {} })).status, 409, name);
  });

  test("dismissed its answers are not proposed again, and as many new ones are", async () => {
    // Its base has no file: the auto-align fails, and is over.
    const under = it.store.prepare<[], { n: number }>("SELECT count(*) AS n FROM auto_align WHERE ended_at IS NULL");
    await eventually(() => under.get()!.n === 0, 60_000);
    const ask = (from: number) => {
      for (let at = from; at < from + 10; at++) {
        const { requestId } = capture({ question: `Who oils the hinge with the mark ${at}?`, rating: 0 });
        if (at === from + 9) consider(requestId);
      }
    };
    ask(0);
    const second = (await list()).body.proposals[0];
    assert.deepEqual([second.status, second.captures], ["PROPOSED", 10]);
    const dismissed = await it.call("proposals.dismiss", ids(second.proposal_id));
    assert.deepEqual([dismissed.status, dismissed.body.status, dismissed.body.captures], [200, "DISMISSED", 10]);
    const { requestId } = capture({ question: "Who oils the last hinge?", rating: 0 });
    consider(requestId);
    assert.equal((await list()).body.proposals.length, 2);
    ask(20);
    const third = (await list()).body.proposals[0];
    assert.deepEqual([third.status, third.captures], ["PROPOSED", 11]);
    assert.deepEqual(
      told.map(({ alignmentId, captures }) => [alignmentId, captures]),
      [
        [project, 10],
        [project, 11],
      ],
    );
  });

  const accept = (proposal_id: string, responses: { capture: string; response: string }[] = []) =>
    handlers["proposals.accept"](
      { ...ids(proposal_id), body: { responses }, raw: {}, headers: {}, keepReply: () => {} } as never,
      { userId: ownerOf("ada"), userName: "ada", keyId: "key_x" },
    );

  test("an answer that another request uses meanwhile is learned from once", async () => {
    const { proposal_id } = (await list()).body.proposals[0];
    const { id } = capture({ question: "Who oils the gate of the garden?", rating: 0 });
    begin = (also) => {
      it.store.prepare<unknown[]>("UPDATE capture SET used_in = 'document_x' WHERE id = ?").run(id);
      also("auto_align_x");
    };
    await assert.rejects(accept(proposal_id, [{ capture: id, response: "Quill" }]), {
      code: "conflict",
      message: /used or deleted/,
    });
    assert.equal((await record(proposal_id)).status, "PROPOSED");
  });

  test("answers captured while a proposal is accepted count for the next one", async () => {
    const { proposal_id, captures } = (await list()).body.proposals[0];
    let late = "";
    begin = (also) => {
      late = capture({ question: "Who oils the hinge of the well?", rating: 0 }).id;
      also("auto_align_x");
    };
    await accept(proposal_id);
    const accepted = await record(proposal_id);
    assert.deepEqual([accepted.status, accepted.captures], ["ACCEPTED", captures]);
    for (let at = 0; at < 9; at++)
      consider(capture({ question: `Who winds the clock of hall ${at}?`, rating: 0 }).requestId);
    const next = await record((await list()).body.proposals[0].proposal_id);
    assert.deepEqual([next.status, next.captures], ["PROPOSED", 10]);
    assert.ok(next.evidence.some(({ capture_id }: Any) => capture_id === late));
  });

  test("a newer model ends what waits about the one before", async () => {
    it.store
      .prepare<unknown[]>("UPDATE aligned_model SET created_seq = ? WHERE id = ?")
      .run(it.store.nextSeq(), modelId);
    const waiting = (await list()).body.proposals[0];
    assert.deepEqual([waiting.status, waiting.captures], ["PROPOSED", 0]);
    for (let at = 0; at < 10; at++) {
      const { requestId } = capture({ question: `Who rings the bell of tower ${at}?`, rating: 0 });
      consider(requestId);
    }
    const { proposals } = (await list()).body;
    assert.deepEqual(proposals.map(({ status, captures }: Any) => [status, captures]).slice(0, 2), [
      ["PROPOSED", 10],
      ["DISMISSED", 0],
    ]);
  });

  test("a project that is deleted has no proposals", async () => {
    const { status } = await it.call("alignments.delete", { params: { alignment_id: project } });
    assert.equal(status, 200);
    assert.equal((await list()).status, 404);
  });
});

const row = (id: number, question: string, over: Partial<EvidenceRow> = {}): EvidenceRow => ({
  ...{ id: `c${id}`, owner_id: "o", kind: "agent", subject_id: "a", model_id: "m", question, answer: "An answer" },
  ...{ confidence: null, masked: 0, used_in: null, request_id: null, created_seq: id, created_at: "" },
  ...{ rating: null, intervention: null },
  ...over,
});

test("evidence: what says nothing, what was asked before, and what a benchmark asks or nearly asks, is left out", () => {
  const asked = ["How many days off has a new colleague in the first year?", "Why?"];
  const { taken, left } = evidenceOf(
    [
      row(1, "Where is the cellar key?"),
      row(2, "where is the CELLAR key"),
      row(3, "Key?"),
      row(4, "How many days off has a new colleague in the first year?"),
      row(5, "Please: how many days off has a new colleague in the first year?"),
      row(6, "Where is the attic key?", { answer: " " }),
      row(7, "I do not know the alarm code, do you?", { answer: "I do not know." }),
    ],
    asked,
  );
  assert.deepEqual(
    taken.map(({ id }) => id),
    ["c1", "c7"],
  );
  assert.deepEqual(left, { short: 2, duplicate: 1, in_benchmark: 2 });
});

test("what is suggested lies above what the newest model scores, and follows what the last run took", () => {
  const project = { id: "p", name: "p", since: 0, score: null, target: null, hours: null };
  assert.deepEqual(suggestedFor(project), { target_score: 80, max_compute_hours: null });
  assert.deepEqual(suggestedFor({ ...project, target: 60 }).target_score, 60);
  assert.deepEqual(suggestedFor({ ...project, score: 71.2, target: 60 }).target_score, 77);
  assert.deepEqual(suggestedFor({ ...project, score: 50, target: 85 }).target_score, 85);
  assert.deepEqual(suggestedFor({ ...project, score: 98 }).target_score, 99);
  assert.deepEqual(
    [0.001, 0.1, 1, 1.3].map((hours) => suggestedFor({ ...project, hours }).max_compute_hours),
    [0.25, 0.25, 2, 2.75],
  );
});

test("the sentence names the reasons that there are", () => {
  assert.match(becauseOf({ captures: 3, low_rated: 0, interventions: 1, unsure: 3 }), /: 1 where .* 3 with a conf/);
});
