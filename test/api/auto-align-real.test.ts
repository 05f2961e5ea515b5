// Auto-aligns with the real run program, trainer and engine on the tests' tiny models: diagnosis, a decision, a look at sealed questions on
// the engine that serves, and the end that its scores decide; and models that a reward names, which the appliance asks while the run waits.
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { insertEndedProject } from "../helpers/ended-project.ts";
import { eventually, type TestHouse, testHouse } from "../helpers/house.ts";
import { withChatTemplate } from "../helpers/mutants.ts";
import { documentOf } from "../helpers/study.ts";
import { recipeOf, template, tinyModel } from "../run/run-harness.ts";

const lamps = ["Orla", "Brim", "Cusk", "Dell", "Ember", "Fathom", "Grove", "Heath", "Isle", "Jetty", "Knoll", "Loch"];

const document = documentOf(
  ["# Stock", "", "| Lamp | Colour |", "|---|---|", ...lamps.map((lamp) => `| ${lamp} | red |`), ""].join("\n"),
  "text/markdown",
  "stock.md",
);

const benchmark = lamps
  .flatMap((lamp) => [
    { instruction: `Please name the hue that ${lamp} has.`, response: "red", cluster: `dev ${lamp}`, split: "dev" },
    { instruction: `So ${lamp} shines in which tone?`, response: "red", cluster: `sealed ${lamp}`, split: "sealed" },
  ])
  .map((item) => JSON.stringify(item))
  .join("\n");

const without = existsSync(tinyModel) ? false : `no tiny model at ${tinyModel}`;

interface Appliance extends TestHouse {
  store: Store;
  /** Begins an auto-align of a project whose run has ended, and waits for its end. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
  carriedOut(body: object): Promise<{ record: any; folder: string; told: string }>;
  /** Of a base made of the fixture, with a template. */
  import(name: string, path: string): Promise<string>;
}

const ends = ["REACHED", "BUDGET_SPENT", "PAUSED", "STOPPED", "FAILED"];

async function appliance(): Promise<Appliance> {
  const it = await testHouse({ PLUMBLINE_SLOTS: "2", PLUMBLINE_SLOT_CONTEXT: "512", PLUMBLINE_THREADS: "1" });
  const store = openStore(join(it.data, "plumbline.db"));
  const importAs = async (name: string, fixture: string): Promise<string> => {
    const path = join(it.data, `${name}.gguf`);
    writeFileSync(path, withChatTemplate(readFileSync(fixture), template));
    const imported = await it.house.admin("model.import", { path, mode: "link", name });
    return (imported as { model_id: string }).model_id;
  };
  await importAs("tiny", tinyModel);
  const [base] = (await it.call("models.base")).body.base_models;
  const files = [{ name: "lamps.jsonl", content: benchmark }];
  const { benchmark_id } = (await it.call("benchmarks.upload", { files })).body;
  const recipe = recipeOf((recipe) => ({
    ...recipe,
    optimizer: { ...recipe.optimizer, learning_rate: 0.02 },
    guards: { retained_items: 2, prose_paragraphs: 1, max_loss: 100, max_kl: 100, max_perplexity_rise: 1_000_000 },
  }));
  const runs = join(it.data, "runs");
  const alignment_id = await insertEndedProject(store, runs, { user: "ada", base, document, recipe });
  const closeHouse = it.close;
  return Object.assign(it, {
    store,
    import: importAs,
    async carriedOut(body: object) {
      const sent = { params: { alignment_id }, body: { benchmark_id, ...body } };
      const accepted = await it.call("alignments.auto_align", sent);
      assert.equal(accepted.status, 202, JSON.stringify(accepted.body));
      const params = { alignment_id, auto_align_id: accepted.body.auto_align_id };
      // biome-ignore lint/suspicious/noExplicitAny: likewise
      let record: any;
      await eventually(async () => {
        record = (await it.call("alignments.auto_align_record", { params })).body;
        return ends.includes(record.status);
      }, 1_200_000);
      const errors = it.log.filter(({ level }) => level === "error");
      return {
        record,
        folder: join(runs, params.auto_align_id),
        told: JSON.stringify({ ...record, log: errors }, null, 1),
      };
    },
    close: async () => {
      store.close();
      await closeHouse();
    },
  });
}

const slow = { skip: without, timeout: 1_200_000 };

test("a target that the base meets is reached by one look, through the API", slow, async () => {
  await reachedByBase({ target_score: 0 });
});

test(
  "a target of the reward is judged by it, on dev and in the look: no answer is right, and each is paid",
  slow,
  async () => {
    const looks = await reachedByBase({
      target_score: 99,
      config: {
        reward: { type: "verifier", verifier_ref: "builtin:regex?pattern=." },
        evaluation: { metrics: ["reward"] },
      },
    });
    assert.equal(looks[0].score, 100);
  },
);

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
async function reachedByBase(request: object): Promise<any[]> {
  const it = await appliance();
  try {
    const { record, folder, told } = await it.carriedOut(request);
    assert.deepEqual([record.status, record.phases, record.model_id, record.error], ["REACHED", 0, null, null], told);
    assert.deepEqual([record.looks.length, record.looks[0].n, record.looks[0].checkpoint], [1, 4, "base"], told);
    assert.ok(!readFileSync(join(folder, "request.json"), "utf8").includes("shines"));
    return record.looks;
  } finally {
    await it.close();
  }
}

test(
  "models that a reward names are asked by the appliance, and what they say is kept with the run",
  slow,
  async () => {
    const it = await appliance();
    try {
      const judge = await it.import("other", join(installation, "build/fixtures/tiny-q4_1.gguf"));
      const imported = await it.house.admin("model.import", {
        path: join(installation, "test/fixtures/tiny-cross-encoder"),
      });
      const ranker = (imported as { model_id: string }).model_id;
      const saidIn = (folder: string): string[] =>
        readFileSync(join(folder, "reward-models.jsonl"), "utf8")
          .trim()
          .split("\n")
          .map((line) => JSON.parse((JSON.parse(line) as { answer: string }).answer));
      const begin = (reward: object) =>
        it.carriedOut({
          target_score: 99,
          sequencing: ["reinforce"],
          config: {
            reward,
            sampling: { prompt_groups_per_step: 1, group_size: 4, max_tokens: 4 },
            training: { steps: 1 },
          },
        });

      const judged = await begin({ type: "llm_judge", llm_judge: { judge_model: "other", criteria: "It is right." } });
      // Weights that are made up tell nothing, which is found out before anything is trained.
      assert.equal(judged.record.status, "FAILED", judged.told);
      assert.match(judged.record.error.message, /judge_model: other cannot tell good answers from bad/, judged.told);
      const verdicts = saidIn(judged.folder);
      assert.ok(
        verdicts.length >= lamps.length && verdicts.every((said) => said === "Yes" || said === "No"),
        judged.told,
      );

      const preferred = await begin({ type: "preference_model", preference_model_ref: ranker });
      assert.notEqual(preferred.record.status, "FAILED", preferred.told);
      assert.ok(saidIn(preferred.folder).every((scores) => scores.length <= 4 && [...scores].every(Number.isFinite)));
      await it.house.admin("model.remove", { id: judge });
    } finally {
      await it.close();
    }
  },
);
