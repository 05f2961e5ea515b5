// An auto-align with the real run program, trainer and engine on the tests' tiny model: diagnosis, a decision, a look at sealed questions on
// the engine that serves, and the end that its scores decide. No phase: how far one comes in its hours depends on the machine.
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openStore } from "../../src/store/open.ts";
import { insertEndedProject } from "../helpers/ended-project.ts";
import { eventually, testHouse } from "../helpers/house.ts";
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

const options = { skip: without, timeout: 1_200_000 };

test("a target that the base meets is reached by one look, through the API", options, async () => {
  await reachedByBase({ target_score: 0 });
});

test(
  "a target of the reward is judged by it, on dev and in the look: no answer is right, and each is paid",
  options,
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
async function reachedByBase(request: Record<string, unknown>): Promise<any[]> {
  const it = await testHouse({ PLUMBLINE_SEATS: "2", PLUMBLINE_SEAT_CONTEXT: "512", PLUMBLINE_THREADS: "1" });
  const store = openStore(join(it.data, "plumbline.db"));
  try {
    const path = join(it.data, "tiny.gguf");
    writeFileSync(path, withChatTemplate(readFileSync(tinyModel), template));
    await it.house.admin("model.import", { path, mode: "link", name: "tiny" });
    const [base] = (await it.call("models.base")).body.base_models;
    const { benchmark_id } = (
      await it.call("benchmarks.upload", { files: [{ name: "lamps.jsonl", content: benchmark }] })
    ).body;
    const recipe = recipeOf((recipe) => ({
      ...recipe,
      optimizer: { ...recipe.optimizer, learning_rate: 0.02 },
      guards: { retained_items: 2, prose_paragraphs: 1, max_loss: 100, max_kl: 100, max_perplexity_rise: 1_000_000 },
    }));
    const alignment_id = await insertEndedProject(store, join(it.data, "runs"), {
      user: "ada",
      base,
      document,
      recipe,
    });

    const accepted = await it.call("alignments.auto_align", {
      params: { alignment_id },
      body: { ...request, benchmark_id },
    });
    assert.equal(accepted.status, 202, JSON.stringify(accepted.body));
    const params = { alignment_id, auto_align_id: accepted.body.auto_align_id };
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
    let record: any;
    await eventually(async () => {
      record = (await it.call("alignments.auto_align_record", { params })).body;
      return ["REACHED", "BUDGET_SPENT", "PAUSED", "STOPPED", "FAILED"].includes(record.status);
    }, 1_200_000);
    const told = JSON.stringify({ ...record, log: it.log.filter(({ level }) => level === "error") }, null, 1);
    assert.deepEqual([record.status, record.phases, record.model_id, record.error], ["REACHED", 0, null, null], told);
    assert.deepEqual([record.looks.length, record.looks[0].n, record.looks[0].checkpoint], [1, 4, "base"], told);
    const ordered = readFileSync(join(it.data, "runs", params.auto_align_id, "request.json"), "utf8");
    assert.ok(!ordered.includes("shines"));
    return record.looks;
  } finally {
    store.close();
    await it.close();
  }
}
