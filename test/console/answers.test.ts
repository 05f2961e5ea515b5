// The console with models that answer by a script: the playground, a model's page, an agent, a key.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { insertAlignment, insertBase } from "../helpers/rows.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";
import { openBrowser, openPage, picture, seriousFindings, signIn, visit, withoutBrowser } from "./browser.ts";

describe("with an aligned model", { skip: withoutBrowser }, () => {
  let it: Scripted;
  let browser: Browser;
  let modelId: string;
  before(async () => {
    it = await scriptedHouse();
    ({ modelId } = await it.align());
    browser = await openBrowser();
  });
  after(async () => {
    await browser?.close();
    await it?.close();
  });

  test("the playground streams both answers, and shows the confidence of the aligned one", async () => {
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await visit(page, `#/playground?model=${modelId}`);
    await page.getByLabel("Question").fill("When does the harbour open?");
    await page.getByRole("button", { name: "Ask" }).click();
    await page.locator(".score").waitFor();
    await page.getByText("Base models have no confidence score.").waitFor();
    assert.equal(await page.locator(".answer").count(), 2);
    assert.match((await page.locator(".answer").first().textContent())!, /^[0-9a-f]{6} to \d+$/);
    assert.equal(await page.locator(".answer mark:not(.unsure)").count(), 1);
    assert.match((await page.locator("pre").first().textContent())!, /curl [\s\S]*\$PLUMBLINE_KEY/);
    assert.deepEqual(await seriousFindings(page), []);
    await picture(page, "playground-answers");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("a model is promoted only with a reason where nothing proves it, and is taken out and rolled back", async () => {
    const { page, wrong } = await openPage(browser, it.url, { refused: /\/promote$/ });
    await signIn(page, it.key);
    await visit(page, `#/models/${modelId}`);
    await page.getByRole("button", { name: "Promote" }).click();
    await page.getByText("The promotion was refused").waitFor();
    assert.deepEqual(await seriousFindings(page), []);
    await picture(page, "model-refused");
    await page.getByLabel("Reason").fill("It was tried by hand");
    await page.getByRole("button", { name: "Promote" }).click();
    await page.getByRole("listitem").getByText("Promoted to the channel mine.").waitFor();
    await page.getByRole("button", { name: "Roll back" }).click();
    await page.getByRole("dialog").getByText("If there is none, the channel is left without a model.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
    await page.getByRole("listitem").getByText("Promoted to the channel mine.").waitFor({ state: "detached" });
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("an agent is made and asked; a key is made and shown once", async () => {
    // This key has not the scope admin, so the list of users is refused.
    const { page, wrong } = await openPage(browser, it.url, { refused: /\/users\b/ });
    await signIn(page, it.key);
    await visit(page, "#/agents/new");
    await page.getByLabel("Name").fill("desk");
    await page.getByRole("button", { name: "Make the agent" }).click();
    await page.getByRole("heading", { name: "desk" }).waitFor();
    await page.getByLabel("Question").fill("When?");
    const answered = page.waitForResponse(/\/run\/$/);
    await page.getByRole("button", { name: "Ask" }).click();
    const requestId = (await answered).headers()["x-request-id"];
    await page.locator(".answer").waitFor();
    await page.getByRole("button", { name: "Good answer" }).click();
    await page.getByText("Thank you").waitFor();
    const feedback = it.store.prepare<[], { request_id: string }>("SELECT request_id FROM agent_feedback").all();
    assert.deepEqual(feedback, [{ request_id: requestId }]);
    assert.deepEqual(await seriousFindings(page), []);
    await picture(page, "agent");
    await visit(page, "#/keys");
    await page.getByLabel("Name", { exact: true }).fill("a script");
    // A key may ask models, and no more than is ticked.
    await page.getByLabel(/^agents:/).check();
    await page.getByRole("button", { name: "Make the key" }).click();
    const key = await page.getByRole("dialog").locator("pre").textContent();
    assert.equal((await it.get("/api/v3/agents", { headers: { authorization: `Bearer ${key}` } })).status, 200);
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("row", { name: /a script/ }).waitFor();
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("an agent keeps its deleted model and its temperature when its description is changed", async () => {
    const base_model = insertBase(it.store, "old");
    const asked = { name: "desk", base_model, temperature: 0.25 };
    const agent_id = (await it.call("agents.create", { body: asked })).body.data.id as string;
    it.store.prepare<string[]>("DELETE FROM base_model WHERE id = ?").run(base_model);
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await visit(page, `#/agents/${agent_id}`);
    const model = page.getByLabel("Model", { exact: true });
    assert.equal(await model.locator("option:checked").textContent(), "old");
    const patched = page.waitForResponse((response) => response.request().method() === "PATCH", { timeout: 20_000 });
    await page.getByLabel("Description").fill("Answers at the desk");
    await page.getByRole("button", { name: "Save" }).click();
    assert.equal((await patched).status(), 200);
    const { data } = (await it.call("agents.get", { params: { agent_id } })).body;
    assert.deepEqual([data.description, data.base_model, data.temperature], ["Answers at the desk", base_model, 0.25]);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("auto-align of an alignment that failed is about that alignment", async () => {
    const failedId = insertAlignment(it.store, "ada", it.baseId, "failed");
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await visit(page, `#/auto-align/${failedId}`);
    assert.equal(await page.getByLabel("Alignment").inputValue(), failedId);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("why a model could not be deployed is said in the list and on Home", async () => {
    const failed = await it.align();
    const error = "The memory of this machine does not suffice";
    it.store
      .prepare<string[]>(
        "UPDATE aligned_model SET name = 'large', deployment_status = 'UNDEPLOYED', error = ? WHERE id = ?",
      )
      .run(error, failed.modelId);
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await page.locator(".card", { hasText: "Needs attention" }).getByText(`large${error}`).waitFor();
    await visit(page, "#/models");
    await page.getByRole("row", { name: /large/ }).getByText(error).waitFor();
    assert.deepEqual(wrong, []);
    await page.context().close();
  });
});
