// Twelve tasks of somebody who is new here, each done by clicks alone, beginning at home. A choice in a list and a file that is
// picked count as a click; what is typed does not. At most four clicks a task.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import { openBrowser, openPage, signIn, visit, type Watched, withoutBrowser } from "./browser.ts";
import { type WorkedIn, workedInHouse } from "./worked-in.ts";

const most = 4;

/** Does one task and counts. */
interface Hand {
  page: Page;
  click(target: Locator): Promise<void>;
  choose(target: Locator, option: string): Promise<void>;
  pick(target: Locator, file: string): Promise<void>;
}

describe("a newcomer's tasks", { skip: withoutBrowser }, () => {
  let it: WorkedIn;
  let browser: Browser;
  let watched: Watched;
  const table: { task: string; clicks: number }[] = [];
  before(async () => {
    it = await workedInHouse();
    browser = await openBrowser();
    watched = await openPage(browser, it.url, { refused: /\/promote$/ });
    await signIn(watched.page, it.key);
  });
  after(async () => {
    await browser?.close();
    await it?.close();
    console.table(table);
  });

  const task = (name: string, perform: (hand: Hand) => Promise<void>): void =>
    void test(name, async () => {
      const { page, wrong } = watched;
      await visit(page, "#/home");
      let clicks = 0;
      await perform({
        page,
        async click(target) {
          clicks++;
          await target.click();
        },
        async choose(target, option) {
          clicks++;
          await target.selectOption(option);
        },
        async pick(target, file) {
          clicks++;
          await target.setInputFiles(file);
        },
      });
      table.push({ task: name, clicks });
      assert.ok(clicks <= most, `${clicks} clicks`);
      assert.deepEqual(wrong, []);
    });
  const screen = (page: Page, name: string): Locator => page.getByRole("navigation").getByRole("link", { name });
  const row = (page: Page, name: string): Locator => page.getByRole("row", { name: new RegExp(name) });

  task("give the appliance a document", async ({ page, click, pick }) => {
    const file = join(it.data, "Pilots.md");
    writeFileSync(file, "# Pilots\n\nA pilot boards at buoy 4.\n");
    await click(screen(page, "Documents"));
    await pick(page.locator("input[type=file]"), file);
    await row(page, "Pilots").waitFor();
  });

  task("have questions made of the documents, to prove a gain with", async ({ page, click }) => {
    await click(screen(page, "Benchmarks"));
    await click(page.getByRole("link", { name: "New benchmark" }));
    await page.getByLabel("Questions wanted").fill("5");
    await click(page.getByRole("button", { name: "Make from documents" }));
    await page.waitForURL(/#\/benchmarks\/benchmark_/);
  });

  task("how long will what runs now take, and how does it go?", async ({ page, click }) => {
    await page.locator(".card", { hasText: "Running" }).getByText("9 minutes left").waitFor();
    await click(page.getByRole("link", { name: "Harbour, third" }));
    await page.getByText(/Step 40: loss 0\.\d+/).waitFor();
    await page.getByText(/Step 40: 69\.0 \(48\.0 to 82\.0\) of 100 on 12 dev questions/).waitFor();
  });

  task("was the last alignment worth it?", async ({ page, click }) => {
    await click(page.locator(".card", { hasText: "Latest completed alignments" }).getByRole("link").first());
    await page
      .getByText(/^Gain on the dev questions; .*: format$/)
      .first()
      .waitFor();
  });

  task("which document taught the model nothing?", async ({ page, click }) => {
    await click(page.getByRole("link", { name: "Harbour, second" }).last());
    await page.getByText("1 document taught the model nothing").waitFor();
    await click(page.getByRole("table", { name: "What it learned" }).getByRole("link").first());
    await page.getByRole("heading", { name: "Annex.txt" }).waitFor();
    await page.locator(".passage.nothing").first().waitFor();
  });

  task("which questions did the new model lose?", async ({ page, click }) => {
    await click(page.getByRole("link", { name: "Its evaluation" }).first());
    const lost = page
      .locator("dt", { hasText: /^Lost$/ })
      .locator("xpath=following-sibling::dd")
      .getByRole("link");
    const count = Number(await lost.textContent());
    assert.ok(count > 0);
    await click(lost);
    await page.getByRole("heading", { name: "Question by question" }).waitFor();
    assert.equal(await page.locator(".list .badge.bad").count(), count);
    assert.equal(await page.locator(".list .badge.good").count(), 0);
  });

  task("find out why this answer is unsure", async ({ page, click }) => {
    await click(page.getByRole("link", { name: "Ask it" }).first());
    await page.getByLabel("Question").fill("When does quay 3 open?");
    await click(page.getByRole("button", { name: "Ask", exact: true }));
    await page.getByRole("heading", { name: "Why this score" }).waitFor();
    await page.getByText(/The least certain word is “.+”: the model gave it a probability of \d+%/).waitFor();
    await page.getByText("Calibrated on 400 graded answers").waitFor();
  });

  task("from which confidence on can answers go out unread?", async ({ page, click }) => {
    await click(screen(page, "Models"));
    await click(row(page, "Harbour, second").getByRole("link"));
    await page.getByLabel("Threshold", { exact: true }).fill("80");
    await page.getByText(/From 80 on: \d+\.\d% of the answers are accepted, \d+\.\d% of them are wrong/).waitFor();
  });

  task("put last week's model back", async ({ page, click }) => {
    await click(screen(page, "Models"));
    await row(page, "Harbour, second").getByText("harbour", { exact: true }).waitFor();
    await click(row(page, "Harbour, second").getByRole("button", { name: "Roll back" }));
    await click(page.getByRole("dialog").getByRole("button", { name: "Roll back" }));
    await row(page, "Harbour, first").getByText("harbour", { exact: true }).waitFor();
  });

  task("take a bad question out of the benchmark", async ({ page, click }) => {
    await click(screen(page, "Benchmarks"));
    await click(row(page, "Opening hours").getByRole("link"));
    await click(page.getByRole("button", { name: "Remove: 3", exact: true }));
    await page.getByLabel("Reason").fill("The rule was withdrawn");
    await click(page.getByRole("dialog").getByRole("button", { name: "Remove" }));
    await page.getByRole("heading", { name: /Opening hours.* v2/ }).waitFor();
  });

  task("give a colleague a key that may ask, and nothing else", async ({ page, click }) => {
    await click(screen(page, "Keys and usage"));
    await page.getByRole("textbox", { name: "User" }).fill("grace");
    await click(page.getByRole("button", { name: "Make the key" }));
    const key = (await page.getByRole("dialog").locator("pre").textContent())!;
    const { body } = await it.call("keys.current", { key });
    assert.deepEqual([body.user, body.scopes], ["grace", ["inference"]]);
    await page.keyboard.press("Escape");
  });

  task("make the model better until it reaches 90", async ({ page, click }) => {
    await click(page.getByRole("link", { name: "Improve with Auto-align" }).nth(1));
    await page.getByLabel("Target score").fill("90");
    await click(page.getByRole("button", { name: "Start auto-align" }));
    await page.getByText("The first decision is still to come").waitFor();
  });
});
