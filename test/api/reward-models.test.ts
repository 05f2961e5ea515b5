// Models beside the base that a reward names: what is refused before anything is queued, who is asked while a run goes on, and what they say.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { sleep } from "../../src/base/time.ts";
import type { ModelQuestion } from "../../src/contract/run-lines.ts";
import { createRewardModels, type NamedModels } from "../../src/domain/evaluations/reward-models.ts";
import type { ModelRef } from "../../src/engine/generator.ts";
import { createEngine, type Engine } from "../engine/engine-fixture.ts";
import { writeEncoder } from "../helpers/encoder.ts";
import { withChatTemplate } from "../helpers/mutants.ts";
import { template, tinyModel } from "../run/run-harness.ts";
import { type AlignmentsHouse, alignmentsHouse, item, items } from "./alignments-house.ts";

const sealed = Array.from({ length: 6 }, (_, at) => item(10 + at, "sealed", `Which sealed door is ${at}?`, `${at}`));
const question: ModelQuestion = { of: "judge", content: "Is it?", choices: ["Yes", "No"] };
const pairs: ModelQuestion = { of: "preference_model", prompt: "the cat", answers: ["the dog", "a cat"] };

describe("an auto-align whose reward names models", () => {
  let house: AlignmentsHouse;
  let project = "";
  const asked: { ownerId: string; named: NamedModels; question: ModelQuestion }[] = [];
  before(async () => {
    house = await alignmentsHouse({
      acted: true,
      items: [items[0]!, items[2]!, ...sealed],
      async askRewardModel(ownerId, named, question) {
        asked.push({ ownerId, named, question });
        return question.of === "judge" ? "Yes" : question.answers.map((_, at) => at);
      },
    });
    project = await house.align({ plan: ["supervised"], asks: [question, pairs] }, { benchmark_id: "benchmark_ada" });
    await house.until(project, "COMPLETED");
  });
  after(() => house.close());

  const begin = async (reward: object): Promise<string> => {
    const body = { target_score: 80, config: { reward } };
    return (await house.call("alignments.auto_align", { params: { alignment_id: project }, body })).auto_align_id;
  };
  const recordOf = (auto_align_id: string) =>
    house.call("alignments.auto_align_record", { params: { alignment_id: project, auto_align_id } });

  const refused: [string, object, RegExp][] = [
    [
      "a judge that is not here",
      { llm_judge: { judge_model: "model_none" } },
      /judge_model: there is no model model_none/,
    ],
    [
      "a judge that answers nothing",
      { llm_judge: { judge_model: "model_ranker" } },
      /judge_model: .*its kind is rerank/,
    ],
    ["a judge that is no name", { llm_judge: { judge_model: 7 } }, /judge_model: must be a name/],
    [
      "an upstream that no setting names",
      { llm_judge: { judge_model: "big", judge_provider: "nowhere" } },
      /judge_provider: no upstream nowhere/,
    ],
    ["an upstream without its model", { llm_judge: { judge_provider: "elsewhere" } }, /judge_model: must name one/],
    ["a preference model that is not here", { preference_model_ref: "x" }, /preference_model_ref: there is no model x/],
    ["one that scores nothing", { preference_model_ref: "model_judge" }, /preference_model_ref: .*not a cross-encoder/],
  ];
  for (const [what, reward, words] of refused)
    test(`is recorded and fails at planning: ${what}`, async () => {
      const record = await recordOf(await begin(reward));
      assert.equal(record.status, "FAILED");
      assert.equal(record.error.code, "validation");
      assert.match(record.error.message, /^config\.reward\./);
      assert.match(record.error.message, words);
    });

  test("is not refused for what no phase of it reads", async () => {
    const reward = { llm_judge: { judge_model: "model_none" } };
    for (const rest of [
      { method: "supervised", config: { reward } },
      { config: { reward, loss: { type: "cross_entropy" } } },
    ]) {
      const body = { target_score: 80, ...rest };
      const { auto_align_id: id } = await house.call("alignments.auto_align", {
        params: { alignment_id: project },
        body,
      });
      while ((await recordOf(id)).status !== "BUDGET_SPENT") await sleep(20);
    }
  });

  test("has them asked by its run, in its owner's name, and holds them until it has ended", async () => {
    const id = await begin({
      type: "composite",
      llm_judge: { judge_model: "model_judge", criteria: ["It is right."] },
      preference_model_ref: "model_ranker",
      composite: { llm_judge: 1, preference_model: 1 },
    });
    assert.deepEqual(house.catalog.runs.needing("model_judge"), [project]);
    assert.deepEqual(house.catalog.runs.needing("model_ranker"), [project]);
    while ((await recordOf(id)).status !== "BUDGET_SPENT") await sleep(20);
    assert.deepEqual(JSON.parse(readFileSync(join(house.runs, id, "answers"), "utf8")), ["Yes", [0, 1]]);
    const named = {
      judge: { model: "model_judge", provider: null },
      preferenceModel: "model_ranker",
      key_id: "key_ada",
    };
    assert.deepEqual(
      asked.map(({ ownerId, named: by }) => [ownerId, by]),
      [
        ["user_ada", named],
        ["user_ada", named],
      ],
    );
    assert.deepEqual(house.catalog.runs.needing("model_judge"), []);
    const request = readFileSync(join(house.runs, id, "request.json"), "utf8");
    assert.ok(!request.includes("key_ada"), "the run is told no key");
  });
});

describe("models that are asked", () => {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-reward-models-"));
  const judge: ModelRef = { baseId: "judge", basePath: join(folder, "judge.gguf") };
  const ranker: ModelRef = { baseId: "ranker", basePath: join(folder, "ranker.gguf") };
  let engine: Engine;
  const said: string[] = [];
  const leases = { now: 0, most: 0 };
  /** What loading a model fails with, in turn. */
  let faults: Failure[] = [];
  let slept = 0;
  before(async () => {
    writeFileSync(judge.basePath, withChatTemplate(readFileSync(tinyModel), template));
    await writeEncoder(ranker.basePath, join(installation, "test/fixtures/tiny-cross-encoder"));
    engine = createEngine({ slots: 2 });
    for (const model of [judge, ranker]) await engine.generator.pool.lease(model, "work");
  });
  after(async () => {
    await engine.generator.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  const ask = (named: Partial<NamedModels>, what: ModelQuestion, signal = new AbortController().signal) =>
    createRewardModels({
      generator: engine.generator,
      findModel: (owner, name) => {
        const ref = owner === "user_ada" ? { judge, ranker }[name] : undefined;
        if (ref === undefined) throw new Failure("not_found", "Model not found");
        return { ref };
      },
      async lease() {
        const fault = faults.shift();
        if (fault !== undefined) throw fault;
        leases.most = Math.max(leases.most, ++leases.now);
        return { release: async () => void leases.now-- };
      },
      async say(_, by, content) {
        said.push(`${by.provider}/${by.model} for ${by.key_id}: ${content}`);
        return { text: "Yes, it is." };
      },
      clock: { monotonicMs: () => 0 },
      log: createLog("error"),
      sleep: async () => void slept++,
    })("user_ada", { judge: null, preferenceModel: null, key_id: "key_ada", ...named }, what, signal);

  test("an installed judge says one of the words, the same one again, and says it of what it is asked", async () => {
    const here = { judge: { model: "judge", provider: null } };
    const first = await ask(here, question);
    assert.ok(first === "Yes" || first === "No");
    assert.equal(await ask(here, question), first);
    // Whatever is likelier does not hang on the order of the words.
    const turned = { ...question, choices: ["No", "Yes"] } as ModelQuestion;
    assert.equal(await ask(here, turned), first);
    assert.deepEqual(leases, { now: 0, most: 1 });
    await assert.rejects(ask({ judge: { model: "gone", provider: null } }, question), { code: "not_found" });
    await assert.rejects(ask({}, question), { code: "bad_request" });
  });

  test("a preference model's scores are what the engine's cross-encoder gives", async () => {
    const options = { truncate: true, signal: new AbortController().signal };
    const ranked = await engine.generator.rank(ranker, "the cat", ["the dog", "a cat"], options);
    assert.deepEqual(
      await ask({ preferenceModel: "ranker" }, pairs),
      ranked.map(({ logit }) => logit),
    );
    await assert.rejects(ask({}, pairs), { code: "bad_request" });
  });

  test("an upstream is asked in the key's name", async () => {
    assert.equal(await ask({ judge: { model: "big", provider: "far" } }, question), "Yes, it is.");
    assert.deepEqual(said, ["far/big for key_ada: Is it?"]);
  });

  test("an installed model that cannot be loaded now is waited for", async () => {
    const here = { judge: { model: "judge", provider: null } };
    faults = [new Failure("out_of_memory"), new Failure("load_cooling"), new Failure("engine_busy")];
    assert.equal(await ask(here, question), await ask(here, question));
    assert.equal(slept, 3);
    faults = [new Failure("out_of_memory")];
    assert.equal((await ask({ preferenceModel: "ranker" }, pairs)).length, 2);
    assert.equal(slept, 4);
    faults = [new Failure("not_deployed"), new Failure("not_deployed")];
    await assert.rejects(ask(here, question), { code: "not_deployed" });
    assert.equal(faults.length, 1, "what stays so is not asked again");
    faults = [new Failure("engine_busy"), new Failure("engine_busy")];
    await assert.rejects(ask(here, question, AbortSignal.abort(new Error("left"))));
    assert.equal(faults.length, 1);
    assert.equal(slept, 4);
  });
});
