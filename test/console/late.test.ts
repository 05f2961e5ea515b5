// Answers that arrive late: what the user did meanwhile stays, and what changed meanwhile is shown.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page, Route } from "playwright-core";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";
import { openBrowser, openPage, signIn, visit, withoutBrowser } from "./browser.ts";
import { allScopes } from "./worked-in.ts";

/** Holds the first request to a path back, and resolves to it when it has been sent. */
function held(page: Page, path: string): Promise<Route> {
  const { promise, resolve } = Promise.withResolvers<Route>();
  return page.route(path, resolve, { times: 1 }).then(() => promise);
}

const range = { low: 1, likely: 2, high: 3 };
const estimate = {
  ...{ passages: 2, targets: 4, rows: range, train_tokens: range },
  ...{ memory_bytes: 1, gpu_memory_bytes: 0, minutes: null, teacher_messages: range },
};

describe("what arrives late", { skip: withoutBrowser }, () => {
  let it: Scripted;
  let browser: Browser;
  before(async () => {
    [it, browser] = await Promise.all([scriptedHouse(), openBrowser()]);
    const { key } = (await it.house.admin("key.create", { user: "ada", scopes: allScopes })) as { key: string };
    it.key = key;
    await it.call("documents.upload", { files: [{ name: "Quays.txt", content: "Quay 7 opens at eight." }] });
  });
  after(async () => {
    await browser?.close();
    await it?.close();
  });

  test("an estimate for former values is dropped", async () => {
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await visit(page, "#/alignments/new");
    await page.getByLabel("Name", { exact: true }).fill("Harbour");
    const start = page.getByRole("button", { name: "Start the alignment" });
    const ask = page.getByRole("button", { name: "Estimate" });
    const former = held(page, "**/estimate");
    await ask.click();
    const sent = await former;
    await page.getByLabel("Quays.txt").uncheck();
    await sent.fulfill({ json: estimate });
    // The button can be pressed again once the answer has arrived.
    await page.locator("button.primary:not([aria-disabled])", { hasText: "Estimate" }).waitFor();
    assert.equal(await start.count(), 0);
    await page.getByLabel("Quays.txt").check();
    await page.route("**/estimate", (route) => route.fulfill({ json: estimate }));
    await ask.click();
    await start.waitFor();
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("an action that ends after the user has gone on leaves the other screen as it is", async () => {
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    const goOn = async (sent: Route, json: object): Promise<void> => {
      await visit(page, "#/playground");
      const question = page.getByLabel("Question");
      await question.fill("When does quay 7 open?");
      await Promise.all([page.waitForResponse(sent.request().url()), sent.fulfill({ json })]);
      await page.waitForTimeout(300);
      assert.equal(await question.inputValue(), "When does quay 7 open?");
    };
    await visit(page, "#/models");
    await page.locator("summary", { hasText: "Add a base model" }).click();
    await page.getByLabel("From the configured mirror of Hugging Face").fill("hf://harbour/small");
    const reloads = held(page, "**/models/import");
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await goOn(await reloads, {});
    await visit(page, "#/agents/new");
    await page.getByLabel("Name", { exact: true }).fill("desk");
    const leads = held(page, "**/agents");
    await page.getByRole("button", { name: "Make the agent" }).click();
    await goOn(await leads, { data: { id: "agent_made" } });
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("an action whose screen was loaded again meanwhile still loads it", async () => {
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    const { data } = (await it.call("agents.create", { body: { name: "desk", base_model: it.baseId } })).body;
    await visit(page, `#/agents/${data.id}`);
    const removal = held(page, `**/agents/${data.id}`);
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    const sent = await removal;
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved").waitFor();
    await page.locator("main .loading").waitFor({ state: "detached" });
    await sent.continue();
    await page.waitForURL(/#\/agents$/);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("an evaluation's badge follows its status", async () => {
    const content = JSON.stringify({ instruction: "When does quay 7 open?", response: "at eight" });
    const { benchmark_id } = (await it.call("benchmarks.upload", { files: [{ name: "Quays.jsonl", content }] })).body;
    const asked = { model_id: it.baseId, benchmark_id };
    const { evaluation_id } = (await it.call("evaluations.create", { body: asked })).body;
    const record = (await it.call("evaluations.get", { params: { evaluation_id } })).body;
    let status = "QUEUED";
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await page.route(`**/evaluations/${evaluation_id}`, (route) => route.fulfill({ json: { ...record, status } }));
    await visit(page, `#/evaluations/${evaluation_id}`);
    const badge = page.locator(".head .badge");
    assert.equal(await badge.textContent(), "queued");
    status = "PROCESSING";
    await badge.getByText("in progress", { exact: true }).waitFor({ timeout: 20_000 });
    assert.deepEqual(wrong, []);
    await page.context().close();
  });
});
