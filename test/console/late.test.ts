// Answers that arrive late, or not at all: what the user did meanwhile stays, and what changed meanwhile is shown.
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
  let documentId: string;
  before(async () => {
    [it, browser] = await Promise.all([scriptedHouse(), openBrowser()]);
    const { key } = (await it.house.admin("key.create", { user: "ada", scopes: allScopes })) as { key: string };
    it.key = key;
    const files = [{ name: "Quays.txt", content: "Quay 7 opens at eight." }];
    documentId = (await it.call("documents.upload", { files })).body.documents[0].document_id;
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

  test("an action that fails after the user has gone on says so on the other screen", async () => {
    const { page, wrong } = await openPage(browser, it.url, { refused: /\/models\/upload/ });
    await signIn(page, it.key);
    await visit(page, "#/models");
    await page.locator("summary", { hasText: "Add a base model" }).click();
    await page.getByLabel("GGUF file").setInputFiles({ name: "small.gguf", mimeType: "", buffer: Buffer.from("GGUF") });
    const sends = held(page, "**/models/upload?*");
    await page.getByRole("button", { name: "Upload", exact: true }).click();
    const sent = await sends;
    await visit(page, "#/playground");
    await sent.fulfill({ status: 422, json: { error: { message: "The file is no model" } } });
    await page.getByRole("dialog", { name: "Upload" }).getByText("The file is no model").waitFor();
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("a passage that could not be loaded is asked for again", async () => {
    const citations = [{ document: documentId, quote: "Quay 7 opens" }];
    const content = JSON.stringify({ instruction: "When does quay 7 open?", response: "at eight", citations });
    const { benchmark_id } = (await it.call("benchmarks.upload", { files: [{ name: "Cited.jsonl", content }] })).body;
    const { page, wrong } = await openPage(browser, it.url, { refused: /\/text$/ });
    await signIn(page, it.key);
    await visit(page, `#/benchmarks/${benchmark_id}`);
    await page.route("**/text", (route) => route.fulfill({ status: 500, json: {} }), { times: 1 });
    const show = page.getByRole("button", { name: "Show the passage" });
    await show.click();
    await page.getByRole("alert").getByText("HTTP 500").waitFor();
    await show.click();
    await page.locator("blockquote mark").getByText("Quay 7 opens").waitFor();
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

  test("an evaluation's badge follows its status, and tells what was stopped and when nothing answers", async () => {
    const content = JSON.stringify({ instruction: "When does quay 7 open?", response: "at eight" });
    const { benchmark_id } = (await it.call("benchmarks.upload", { files: [{ name: "Quays.jsonl", content }] })).body;
    const asked = { model_id: it.baseId, benchmark_id };
    const { evaluation_id } = (await it.call("evaluations.create", { body: asked })).body;
    const record = (await it.call("evaluations.get", { params: { evaluation_id } })).body;
    let status = "QUEUED";
    let isDown = false;
    let stopped = false;
    const { page, wrong } = await openPage(browser, it.url, { refused: /\/evaluations\/evaluation_/ });
    await signIn(page, it.key);
    await page.route(`**/evaluations/${evaluation_id}`, (route) =>
      isDown ? route.abort() : route.fulfill({ json: { ...record, status, stopped, error: null } }),
    );
    await visit(page, `#/evaluations/${evaluation_id}`);
    const badge = page.locator(".head .badge");
    assert.equal(await badge.textContent(), "queued");
    status = "PROCESSING";
    await badge.getByText("in progress", { exact: true }).waitFor({ timeout: 20_000 });
    isDown = true;
    const unreachable = page.locator("#announcements").getByText("The appliance does not answer");
    await unreachable.waitFor();
    isDown = false;
    await unreachable.waitFor({ state: "detached" });
    [status, stopped] = ["FAILED", true];
    await badge.getByText("stopped", { exact: true }).waitFor();
    const listed = { evaluations: [{ ...record, status, stopped, error: "The evaluation was stopped" }], total: 1 };
    await page.route(/\/evaluations\?/, (route) => route.fulfill({ json: listed }));
    await visit(page, "#/evaluations");
    await page.getByRole("row").getByText("stopped", { exact: true }).waitFor();
    await visit(page, "#/home");
    await page.getByText("Nothing needs your attention.").waitFor();
    assert.deepEqual(wrong, []);
    await page.context().close();
  });
});
