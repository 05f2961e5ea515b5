// Every screen with one row and with two thousand of everything: it comes soon, shows a page of them and leads to the next, is no wider
// than the window, and leaves no error. (console.test.ts has every screen with none.)
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { places } from "../../src/base/config.ts";
import { newId } from "../../src/base/ids.ts";
import { insertAlignJob } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";
import { openBrowser, openPage, overflow, picture, seriousFindings, signIn, visit, withoutBrowser } from "./browser.ts";
import { allScopes } from "./worked-in.ts";

/** A name as long as people make them, without a place to break it. */
const longName = "Betriebshandbuch_der_Hafenverwaltung_und_der_angeschlossenen_Lagerhaeuser_2026";

interface Filled {
  it: Scripted;
  /** One of each, for their own screens. */
  alignmentId: string;
  benchmarkId: string;
  evaluationId: string;
}

/** A house with `n` of everything that has a list. */
async function filled(n: number): Promise<Filled> {
  const it = await scriptedHouse();
  const { key } = (await it.house.admin("key.create", { user: "ada", scopes: allScopes })) as { key: string };
  it.key = key;
  const rows = Array.from({ length: 60 }, (_, at) => ({ instruction: `Question ${at}?`, response: `answer ${at}` }));
  const content = rows.map((row) => JSON.stringify(row)).join("\n");
  const { body } = await it.call("benchmarks.upload", { files: [{ name: `${longName}.jsonl`, content }] });
  const benchmarkId = body.benchmark_id as string;
  const { alignmentId } = await it.align();
  const asked = { model_id: it.baseId, benchmark_id: benchmarkId };
  const evaluationId = (await it.call("evaluations.create", { body: asked })).body.evaluation_id as string;
  const store = it.store;
  const owner = store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!.id;
  const keyId = store.prepare<[], { id: string }>("SELECT id FROM api_key LIMIT 1").get()!.id;
  const at = new Date().toISOString();
  const add = (sql: string) => store.prepare<unknown[]>(sql);
  const document = add(
    `INSERT INTO document(id, owner_id, kind, name, media_type, bytes, characters, sha256, text_sha256, created_seq, created_at, format)
     VALUES(?, ?, 'document', ?, 'text/plain', 100, 100, ?, 'x', ?, ?, 'text')`,
  );
  const benchmark = add(
    `INSERT INTO benchmark(id, owner_id, document_id, name, sha256, created_seq, created_at, updated_at)
     SELECT ?, owner_id, document_id, ?, 'x', ?, ?, ? FROM benchmark WHERE id = ?`,
  );
  const item = add(
    `INSERT INTO benchmark_item(benchmark_id, sample_num, instruction, response, aliases_json, cluster, split)
     VALUES(?, ?, ?, 'an answer', '[]', ?, 'sealed')`,
  );
  const alignment = add(
    `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
     document_sha256s_json, created_seq, created_at) VALUES(?, ?, ?, 'quick', ?, '[]', '[]', '[]', ?, ?)`,
  );
  const model = add(
    `INSERT INTO aligned_model(id, owner_id, alignment_id, base_model_id, name, adapter_path, adapter_sha256, calibration_json,
     deployment_status, created_seq, created_at)
     SELECT ?, ?, ?, base_model_id, ?, adapter_path, adapter_sha256, calibration_json, 'UNDEPLOYED', ?, ? FROM aligned_model LIMIT 1`,
  );
  const evaluation = add(
    `INSERT INTO evaluation(id, owner_id, name, model_id, base_model_id, benchmark_id, n_samples, settings_json, created_seq,
     created_at, updated_at, completed_at)
     SELECT ?, owner_id, ?, model_id, base_model_id, benchmark_id, n_samples, settings_json, ?, ?, ?, ? FROM evaluation LIMIT 1`,
  );
  const job = add(
    `INSERT INTO job(id, owner_id, kind, subject_id, state, fence, created_seq, created_at, finished_at)
     VALUES(?, ?, 'evaluate', ?, 'succeeded', 1, ?, ?, ?)`,
  );
  const agent = add(
    `INSERT INTO agent(id, owner_id, name, description, model_id, model_name, system_prompt, temperature, saves_conversations,
     created_seq, created_at) VALUES(?, ?, ?, '', ?, 'small', '', 1, 0, ?, ?)`,
  );
  const apiKey = add(
    "INSERT INTO api_key(id, user_id, prefix, sha256, created_at, name) VALUES(?, ?, 'pl_abcdefgh', ?, ?, ?)",
  );
  const used = add(
    `INSERT INTO usage(request_id, owner_id, key_id, model_id, prompt_tokens, completion_tokens, outcome, created_at, ended_at)
     VALUES(?, ?, ?, ?, 10, 20, 'done', ?, ?)`,
  );
  const act = add(
    "INSERT INTO audit(seq, at, actor, key_id, act, subject, detail_json) VALUES(?, ?, 'ada', NULL, 'key.create', ?, '{}')",
  );
  store.transaction(() => {
    // The uploaded benchmark has items of its own; what is missing to `n` comes behind them.
    for (let sample = 61; sample <= n; sample++) item.run(benchmarkId, sample, `Question ${sample}?`, `c${sample}`);
    // The first of some lists is there already.
    for (let at0 = 0; at0 < n; at0++) {
      const name = `${longName} ${at0}`;
      const seq = () => store.nextSeq();
      document.run(newId("document"), owner, name, `sha ${at0}`, seq(), at);
      agent.run(newId("agent"), owner, name, it.baseId, seq(), at);
      apiKey.run(newId("key"), owner, `sha ${at0}`, at, name);
      const day = new Date(Date.UTC(2020, 0, 1 + at0)).toISOString();
      used.run(`req_${at0}`, owner, keyId, it.baseId, day, day);
      act.run(seq(), at, `key_${at0}`);
      if (at0 === 0) continue;
      benchmark.run(newId("benchmark"), name, seq(), at, at, benchmarkId);
      const id = newId("alignment");
      alignment.run(id, owner, name, it.baseId, seq(), at);
      insertAlignJob(store, id, owner, "succeeded");
      model.run(newId("model"), owner, id, name, seq(), at);
      const evaluated = newId("evaluation");
      evaluation.run(evaluated, name, seq(), at, at, at);
      job.run(newId("job"), owner, evaluated, seq(), at, at);
    }
  });
  writeCoverage(it, alignmentId, n);
  return { it, alignmentId, benchmarkId, evaluationId };
}

/** What the alignment learned of `n` documents. */
function writeCoverage(it: Scripted, alignmentId: string, n: number): void {
  const documents = Array.from({ length: n }, (_, at) => ({
    document_id: `document_${at}`,
    name: `${longName} ${at}`,
    passages: [{ start: 0, end: 9, heading: "", rows: at % 3, written: 0, none: at % 3 === 0 ? "nothing_told" : null }],
  }));
  const coverage = { content: n, covered: n - Math.ceil(n / 3), written: 0, documents };
  const folder = join(places(it.data).runs, alignmentId, "prepared");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "report.json"), JSON.stringify({ rows: n, study: { coverage } }));
  writeFileSync(join(folder, "../events.jsonl"), "");
}

const screens = [
  ...["home", "documents", "benchmarks", "benchmarks/new", "alignments", "alignments/new", "auto-align", "models"],
  ...["evaluations", "evaluations/new", "evaluations/compare", "playground", "agents", "agents/new", "keys", "system"],
];
/** Screens of one list, which is told a page at a time. */
const lists = ["documents", "benchmarks", "alignments", "models", "evaluations", "agents"];
/** Seconds within which a screen has come, on a machine that has other things to do as well. */
const patience = 10;

for (const n of [1, 2000])
  describe(`with ${n} of everything`, { skip: withoutBrowser }, () => {
    let all: Filled;
    let browser: Browser;
    before(async () => {
      [all, browser] = await Promise.all([filled(n), openBrowser()]);
    });
    after(async () => {
      await browser?.close();
      await all?.it.close();
    });
    const show = async (page: Page, screen: string): Promise<number> => {
      const started = performance.now();
      await visit(page, `#/${screen}`);
      assert.equal(await page.locator(".notice.bad[role=alert]").count(), 0, screen);
      return (performance.now() - started) / 1000;
    };

    for (const width of [1280, 360])
      test(`every screen, ${width} pixels wide`, async () => {
        const { page, wrong } = await openPage(browser, all.it.url, { width });
        await signIn(page, all.it.key);
        const own = [
          `alignments/${all.alignmentId}`,
          `benchmarks/${all.benchmarkId}`,
          `evaluations/${all.evaluationId}`,
        ];
        const seconds: Record<string, string> = {};
        for (const screen of [...screens, ...own]) {
          const took = await show(page, screen);
          seconds[screen.replace(/_.*/, "")] = took.toFixed(2);
          assert.ok(took < patience, `${screen} took ${took} s`);
          assert.ok((await overflow(page)) <= 0, `${screen} scrolls sideways`);
          const shown = await page.locator("main tbody > tr").count();
          assert.ok(shown <= 100, `${screen} shows ${shown} rows at once`);
          if (width === 360) assert.deepEqual(await seriousFindings(page), [], screen);
          if (width === 360) await picture(page, `rows-${n}-${screen.replace(/[/]/g, "-").replace(/_.*/, "")}`);
        }
        console.table(seconds);
        assert.deepEqual(wrong, []);
        await page.context().close();
      });

    if (n === 1)
      test("one row has no pages", async () => {
        const { page, wrong } = await openPage(browser, all.it.url);
        await signIn(page, all.it.key);
        for (const screen of lists) {
          await show(page, screen);
          assert.equal(await page.locator("main table").first().locator("tbody tr").count(), 1, screen);
          assert.equal(await page.getByRole("button", { name: "Next" }).count(), 0, screen);
        }
        assert.deepEqual(wrong, []);
        await page.context().close();
      });
    else
      test("a list is told a page at a time, and Back leads to the page", async () => {
        const { page, wrong } = await openPage(browser, all.it.url);
        await signIn(page, all.it.key);
        for (const screen of lists) {
          await show(page, screen);
          const pager = page.locator(".pager").first();
          const rowsOn = async (from: number): Promise<void> => {
            await pager.getByText(`Rows ${from.toLocaleString("en-GB")}–`).waitFor();
            assert.equal(await page.locator("main table").first().locator("tbody tr").count(), 25, screen);
          };
          await rowsOn(1);
          if (screen !== "agents") await pager.getByText("of 2,000").waitFor();
          await pager.getByRole("button", { name: "Next" }).click();
          await rowsOn(26);
          // The button is still where the keyboard is.
          assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Next");
          await pager.getByRole("button", { name: "Next" }).click();
          await rowsOn(51);
          // To another screen and back.
          await page.evaluate(() => {
            location.hash = "#/agents/new";
          });
          await page.getByRole("heading", { name: "New agent" }).waitFor();
          await page.goBack();
          await rowsOn(51);
          await pager.getByRole("button", { name: "Previous" }).click();
          await rowsOn(26);
        }
        // A document of a long list is found by its name.
        await show(page, "alignments/new");
        await page.getByLabel("Search Documents").fill("_2026 1999");
        assert.equal(await page.locator(".checks label.check:visible").count(), 1);
        // Enter in the search does not submit the form around it.
        await show(page, "benchmarks/new");
        const posted: string[] = [];
        page.on("request", (request) => void (request.method() === "POST" && posted.push(request.url())));
        await page.getByLabel("Search Documents").fill("_2026 1999");
        await page.keyboard.press("Enter");
        await page.getByLabel("Questions wanted").fill("5");
        assert.deepEqual(posted, []);
        await show(page, `benchmarks/${all.benchmarkId}`);
        await page.getByText("2,000 of 2,000").waitFor();
        assert.equal(await page.locator(".list > li").count(), 50);
        await page.getByLabel("Search").fill("Question 1999?");
        await page.getByText("1 of 2,000").waitFor();
        assert.deepEqual(wrong, []);
        await page.context().close();
      });
  });
