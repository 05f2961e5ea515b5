// Promotion over HTTP: a planted regression is refused with its items, a reason overrides, one call rolls back. First with models
// that answer by a script, then with real ones, of which a broken adapter makes one worse.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { writeAdapter } from "../helpers/adapter.ts";
import { eventually, type TestHouse } from "../helpers/house.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";
import { type Served, servedHouse, withoutModel } from "../helpers/served.ts";

interface Detail {
  loc: string[];
  msg: string;
  type: string;
  ctx?: Record<string, string | null>;
}

async function uploaded(it: TestHouse, rows: object[]): Promise<string> {
  const content = rows.map((row) => JSON.stringify(row)).join("\n");
  const { status, body } = await it.call("benchmarks.upload", { files: [{ name: "bench.jsonl", content }] });
  assert.equal(status, 200, JSON.stringify(body));
  return body.benchmark_id;
}

async function evaluated(it: TestHouse, model_id: string, benchmark_id: string, ms = 5_000): Promise<string> {
  const { status, body } = await it.call("evaluations.create", { body: { model_id, benchmark_id } });
  assert.equal(status, 200, JSON.stringify(body));
  const { evaluation_id } = body;
  await eventually(async () => {
    const found = (await it.call("evaluations.get", { params: { evaluation_id } })).body;
    assert.notEqual(found.status, "FAILED", found.error);
    return found.status === "READY";
  }, ms);
  return evaluation_id;
}

const promote = (it: TestHouse, model_id: string, body: object = {}) =>
  it.call("models.promote", { params: { model_id }, body });
const rollback = (it: TestHouse, model_id: string, body: object = {}) =>
  it.call("models.rollback", { params: { model_id }, body });

describe("promotion", () => {
  let it: Scripted;
  let benchmarkId: string;
  /** What a model, by its id, gets wrong of the 30 questions; all of them where it is not listed. */
  const wrong = new Map<string, (n: number) => boolean>();
  /** Models made in the order they take each other's place: the second better, the third worse by half. */
  const models: string[] = [];
  before(async () => {
    it = await scriptedHouse({}, (modelId, prompt) => {
      const n = Number(/thing (\d+)/.exec(prompt)![1]);
      return wrong.get(modelId)?.(n) === false ? `It is value${n}.` : "No idea";
    });
    benchmarkId = await uploaded(
      it,
      Array.from({ length: 30 }, (_, index) => ({
        instruction: `What is the value of thing ${index + 1}?`,
        response: `value${index + 1}`,
        split: index < 4 ? "dev" : index < 26 ? "sealed" : "retention",
      })),
    );
    for (const misses of [(n: number) => n % 2 === 0, () => false, (n: number) => n < 16]) {
      const { modelId } = await it.align();
      wrong.set(modelId, misses);
      models.push(modelId);
    }
    await evaluated(it, it.baseId, benchmarkId);
    for (const modelId of models) await evaluated(it, modelId, benchmarkId);
  });
  after(() => it.close());
  const promoted = async () => (await it.call("models.promotions")).body.promoted;
  const ask = (model: string) =>
    it.call("inference.chat", { body: { model, messages: [{ role: "user", content: "Hi" }] } });

  test("what cannot be promoted: unknown, foreign and base models, and what was never evaluated", async () => {
    assert.equal((await promote(it, "model_none")).status, 404);
    const [first] = models;
    const foreign = await it.call("models.promote", { params: { model_id: first! }, body: {}, key: it.otherKey });
    assert.equal(foreign.status, 404);
    const base = await promote(it, it.baseId);
    assert.deepEqual([base.status, base.body.error.code], [409, "conflict"]);
    const { modelId } = await it.align();
    const unproven = await promote(it, modelId);
    assert.deepEqual([unproven.status, unproven.body.error.code], [409, "promotion_refused"]);
    assert.match(unproven.body.error.message, /no finished evaluation/);
    assert.equal((await rollback(it, first!)).status, 409);
    assert.deepEqual(await promoted(), []);
  });

  test("a planted regression is refused with its items, and overridden only with a reason", async () => {
    const [first, second, third] = models as [string, string, string];
    // No channel has the name yet.
    assert.equal((await ask("harbour")).status, 404);
    const one = await promote(it, first, { channel: "harbour" });
    assert.equal(one.status, 200, JSON.stringify(one.body));
    assert.deepEqual([one.body.replaced_model_id, one.body.overridden, one.body.reason], [null, false, null]);
    assert.equal(one.body.verdict.compared_with, it.baseId);
    const two = await promote(it, second, { channel: "harbour" });
    assert.deepEqual([two.status, two.body.replaced_model_id], [200, first]);

    const refused = await promote(it, third, { channel: "harbour" });
    assert.deepEqual([refused.status, refused.body.error.code], [409, "promotion_refused"]);
    const details: Detail[] = refused.body.detail;
    // Of the sealed items, 5 to 26, it misses 5 to 15; that the second has all of.
    const lost = details.filter(({ type }) => type === "lost_item");
    assert.deepEqual(
      lost.map(({ loc }) => loc),
      Array.from({ length: 11 }, (_, index) => ["sealed", benchmarkId, String(index + 5)]),
    );
    assert.deepEqual(lost[0]!.ctx, {
      text: "What is the value of thing 5?",
      expected: "value5",
      answer: "No idea",
      former_answer: "It is value5.",
    });
    assert.match(lost[0]!.msg, /thing 5\?.*expected: value5.*before: It is value5\..*now: No idea/);
    assert.match(details[0]!.msg, /-50\.0 points compared with model_.*11 of 22 items lost and 0 gained/);
    assert.deepEqual(await promoted(), [{ channel: "harbour", base_model_id: it.baseId, model_id: second }]);

    for (const body of [{ override: true }, { override: true, reason: "  " }, { reason: "" }]) {
      const reply = await promote(it, third, { channel: "harbour", ...body });
      assert.equal(reply.status, 422, JSON.stringify(body));
      assert.deepEqual(reply.body.detail[0].loc, ["body", "reason"]);
    }
    assert.equal((await promote(it, third, { channel: "harbour", override: false, reason: "Why not" })).status, 409);
    const reason = "The second one answers too slowly for the counter";
    const over = await promote(it, third, { channel: "harbour", override: true, reason });
    assert.deepEqual([over.status, over.body.overridden, over.body.reason], [200, true, reason]);
    const [compared] = over.body.verdict.comparisons;
    assert.deepEqual([compared.regressed, compared.lost, compared.about], [true, 11, "sealed"]);
    assert.ok(compared.refused_from > compared.minimum_detectable);
    const kept = (await it.call("models.promotions", { query: "channel=harbour&limit=1" })).body;
    assert.deepEqual([kept.promotions[0].reason, kept.total], [reason, 3]);
    const act = it.store
      .prepare<[], { detail_json: string }>(
        "SELECT detail_json FROM audit WHERE act = 'model.promote' ORDER BY seq DESC",
      )
      .get()!;
    assert.equal(JSON.parse(act.detail_json).reason, reason);
  });

  test("rollback restores the former model in one call, and each further call the one before", async () => {
    const [first, second, third] = models as [string, string, string];
    const servesAs = async (): Promise<string> => (await ask("harbour")).body.model;
    assert.equal(await servesAs(), third);
    assert.equal((await rollback(it, first)).status, 409);
    const back = await rollback(it, third, { reason: "Wrong answers at the counter" });
    assert.deepEqual([back.status, back.body.act, back.body.model_id], [200, "rollback", second]);
    assert.equal(await servesAs(), second);
    assert.deepEqual(await promoted(), [{ channel: "harbour", base_model_id: it.baseId, model_id: second }]);
    assert.equal((await rollback(it, second)).body.model_id, first);
    const last = await rollback(it, first);
    assert.deepEqual([last.status, last.body.model_id], [200, null]);
    assert.deepEqual(await promoted(), []);
    assert.equal((await rollback(it, first)).status, 409);
    assert.equal((await ask("harbour")).status, 404);
    // Another step forward goes on from there.
    assert.equal((await promote(it, second, { channel: "harbour" })).body.replaced_model_id, null);
    assert.equal((await promote(it, second, { channel: "harbour" })).status, 200, "again is the same");
    assert.equal((await rollback(it, second)).body.model_id, null);
  });

  test("each look of a promotion at the sealed split is on record", () => {
    const n = it.store
      .prepare<[], { n: number }>("SELECT count(*) AS n FROM sealed_touch WHERE purpose = 'promotion'")
      .get()!.n;
    // Two models each: first, second, third refused twice and overridden, second again.
    assert.equal(n, 12);
  });

  test("guards count: what the run measured of the model, item by item, and limits", async () => {
    const measured = async (lost: number, kl: number): Promise<string> => {
      const { modelId } = await it.align();
      wrong.set(modelId, () => false);
      await evaluated(it, modelId, benchmarkId);
      const items = Array.from({ length: 40 }, (_, item) => ({
        item: String(item),
        text: `General question ${item}`,
        base: 1,
        aligned: item < lost ? 0 : 1,
      }));
      const add = it.store.prepare<unknown[]>("INSERT INTO guard_result VALUES(?, ?, ?, ?, ?, ?, ?)");
      add.run(modelId, "general", 40, 100, 100 - 2.5 * lost, null, JSON.stringify(items));
      add.run(modelId, "kl", 20_000, 0, kl, 0.05, "[]");
      return modelId;
    };
    const channel = "guarded";
    const sound = await measured(2, 0.03);
    const fine = await promote(it, sound, { channel });
    assert.equal(fine.status, 200, JSON.stringify(fine.body));
    assert.deepEqual(
      fine.body.verdict.comparisons.map(({ about, name }: Record<string, string>) => [about, name]),
      [
        ["sealed", benchmarkId],
        ["retention", benchmarkId],
        ["guard", "general"],
      ],
    );
    const forgetful = await promote(it, await measured(15, 0.03), { channel });
    assert.equal(forgetful.status, 409);
    const lost = (forgetful.body.detail as Detail[]).filter(({ loc }) => loc[1] === "general");
    // Against the base and against the model in place, of which it lacks the two that this lacks as well.
    assert.equal(lost.filter(({ type }) => type === "regression").length, 2);
    assert.equal(lost.filter(({ type }) => type === "lost_item").length, 15 + 13);
    assert.equal(lost.find(({ type }) => type === "lost_item")!.msg, "General question 0");
    const strayed = await promote(it, await measured(0, 0.08), { channel });
    assert.deepEqual([strayed.status, strayed.body.detail.length], [409, 1]);
    assert.match(strayed.body.error.message, /guard kl: 0\.08000; the limit is 0\.05000/);
    const results = await it.call("evaluations.results", {
      params: { evaluation_id: await evaluated(it, sound, benchmarkId) },
    });
    assert.deepEqual(
      results.body.guards.map(({ name, n }: Record<string, unknown>) => [name, n]),
      [
        ["general", 40],
        ["kl", 20_000],
      ],
    );
  });

  test("a channel has a name of its own, on one line and in one direction", async () => {
    const [, second] = models as [string, string, string];
    const alias = (await it.call("models.aligned")).body.domain_aligned_models[0].alignment_id.replace("_", "-");
    for (const channel of [it.baseId, "small", second, alias, "a\r\nb", "a\u202eb", "a\u001b[31m"]) {
      const { status, body } = await promote(it, second, { channel });
      assert.equal(status, 422, JSON.stringify(channel));
      assert.deepEqual(body.detail[0].loc, ["body", "channel"]);
    }
  });

  test("a model on several channels says which one is rolled back", async () => {
    const [, second] = models as [string, string, string];
    for (const channel of ["east", "west"]) assert.equal((await promote(it, second, { channel })).status, 200);
    const unclear = await rollback(it, second);
    assert.deepEqual([unclear.status, unclear.body.error.code], [409, "several_channels"]);
    assert.match(unclear.body.detail, /promoted to east, west$/);
    assert.equal((await rollback(it, second, { channel: "east" })).body.channel, "east");
    assert.equal((await ask("west")).body.model, second);
  });

  test("the schema holds an override to its reason, and the history is append-only", () => {
    const { store } = it;
    const user = store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!.id;
    const add = (overridden: number, reason: string | null) =>
      store
        .prepare<unknown[]>(
          `INSERT INTO promotion(owner_id, base_model_id, channel, act, model_id, overridden, reason, verdict_json, key_id, at)
           VALUES(?, ?, 'x', 'promote', ?, ?, ?, 'null', 'k', '')`,
        )
        .run(user, it.baseId, models[0], overridden, reason);
    assert.throws(() => add(1, null), /CHECK/);
    assert.throws(() => add(1, " "), /CHECK/);
    assert.throws(() => store.prepare("UPDATE promotion SET reason = 'other'").run(), /append-only/);
    assert.throws(() => store.prepare("DELETE FROM promotion").run(), /append-only/);
  });
});

describe("promotion of real models", { skip: withoutModel }, () => {
  let it: Served;
  before(async () => {
    it = await servedHouse();
  });
  after(() => it.close());

  test("an adapter that spoils its model is refused, and a rollback has the sound one answer again", async () => {
    const words = ["harbour", "apple", "winter", "hammer", "river", "letter", "engine", "garden", "copper", "violin"];
    const rows = words.map((word, index) => {
      const choices = [1, 3, 4, 7].map((step) => words[(index + step) % words.length]!);
      return {
        instruction: `What goes with ${word}?`,
        response: choices[0]!,
        type: "choice",
        choices,
        split: "sealed",
      };
    });
    const results = async (modelId: string, benchmarkId: string) => {
      const evaluation_id = await evaluated(it, modelId, benchmarkId, 120_000);
      return (await it.call("evaluations.results", { params: { evaluation_id } })).body;
    };
    // What the base itself finds likeliest is the truth here: a copy of it has all, whatever was spoilt does not.
    const drafted = await results(it.baseId, await uploaded(it, rows));
    const benchmarkId = await uploaded(
      it,
      rows.map((row, index) => ({ ...row, response: drafted.items[index].answer })),
    );
    const [sound, spoilt] = ["sound", "spoilt"].map((name) => join(it.data, `${name}.gguf`)) as [string, string];
    writeAdapter(sound, 0);
    writeAdapter(spoilt, 3);
    const [first, second] = [it.align(sound).modelId, it.align(spoilt).modelId];
    assert.equal((await results(it.baseId, benchmarkId)).score, 100);
    const copy = await results(first, benchmarkId);
    assert.deepEqual([copy.score, copy.paired.lost, copy.paired.p_value], [100, 0, 1]);
    const broken = await results(second, benchmarkId);
    assert.ok(broken.paired.lost >= 5 && broken.paired.gained === 0, JSON.stringify(broken.paired));

    const channel = "counter";
    assert.equal((await promote(it, first, { channel })).status, 200);
    const refused = await promote(it, second, { channel });
    assert.deepEqual([refused.status, refused.body.error.code], [409, "promotion_refused"]);
    const lost = (refused.body.detail as Detail[]).filter(({ type }) => type === "lost_item");
    assert.equal(lost.length, broken.paired.lost);
    assert.equal((await promote(it, second, { channel, override: true })).status, 422);
    assert.equal((await promote(it, second, { channel, override: true, reason: "To see it fall" })).status, 200);
    // Promotion deployed both.
    const serves = async (): Promise<{ status: number; text: string }> => {
      const { status, body } = await it.call("inference.chat", {
        body: { model: channel, messages: [{ role: "user", content: "Say hello." }], max_tokens: 8, temperature: 0 },
      });
      return { status, text: body.choices?.[0]?.message.content };
    };
    const answered = async (): Promise<string> => {
      await eventually(async () => (await serves()).status === 200, 60_000);
      return (await serves()).text;
    };
    const spoiltText = await answered();
    const back = await rollback(it, second);
    assert.deepEqual([back.status, back.body.model_id], [200, first]);
    const soundText = await answered();
    assert.notEqual(soundText, spoiltText);
    const asBase = await it.call("inference.chat", {
      body: { model: it.baseId, messages: [{ role: "user", content: "Say hello." }], max_tokens: 8, temperature: 0 },
    });
    assert.equal(soundText, asBase.body.choices[0].message.content);
  });
});
