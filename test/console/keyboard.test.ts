// The keyboard is enough: everything is reached, the focus is seen, dialogs keep it and give it back, and keys lead to screens.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { insertAlignment } from "../helpers/rows.ts";
import { openBrowser, openPage, picture, seriousFindings, signIn, visit, withoutBrowser } from "./browser.ts";
import { type WorkedIn, workedInHouse } from "./worked-in.ts";

/** What has the focus, in words. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(() => {
    const one = document.activeElement!;
    return one.textContent?.trim() || one.getAttribute("aria-label") || one.tagName;
  });

describe("the keyboard", { skip: withoutBrowser }, () => {
  let it: WorkedIn;
  let browser: Browser;
  let page: Page;
  let wrong: string[];
  before(async () => {
    [it, browser] = await Promise.all([workedInHouse(), openBrowser()]);
    ({ page, wrong } = await openPage(browser, it.url));
    await signIn(page, it.key);
  });
  after(async () => {
    await browser?.close();
    await it?.close();
  });

  test("Tab reaches everything that can be pressed or filled in, and the focus is always seen", async () => {
    const [first] = it.made;
    const screens = [
      ...["home", "documents", "benchmarks/new", "alignments/new", "models", `models/${first!.modelId}`],
      ...[`alignments/${first!.alignmentId}`, `benchmarks/${it.benchmarkId}`, "playground", "keys", "system"],
    ];
    for (const screen of screens) {
      await visit(page, `#/${screen}`);
      // A run's events draw its screen anew.
      await page.waitForLoadState("networkidle");
      const wanted = await page.evaluate(() => {
        document.querySelector<HTMLElement>("main h1")!.focus();
        const all = document.querySelectorAll<HTMLElement>(
          "main :is(a[href], button, input, select, textarea, summary)",
        );
        // A radio or a disabled button is none of its own; what a closed detail holds is reached once that is open.
        const can = [...all].filter(
          (one) => !one.matches(":disabled") && one.checkVisibility({ visibilityProperty: true }),
        );
        for (const [at, one] of can.entries()) one.dataset.stop = String(at);
        return can.length;
      });
      const reached = new Set<string>();
      for (let presses = 0; reached.size < wanted && presses < wanted + 20; presses++) {
        await page.keyboard.press("Tab");
        const { stop, seen } = await page.evaluate(() => {
          const one = document.activeElement as HTMLElement;
          // A file input lies over its button, which shows the focus for it.
          const shown = one.matches("input[type=file]") ? (one.closest<HTMLElement>(".button") ?? one) : one;
          const { outlineStyle, outlineWidth } = getComputedStyle(shown);
          return { stop: one.dataset.stop, seen: outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 2 };
        });
        if (stop === undefined) continue;
        assert.ok(seen, `${screen}: no outline around ${await focused(page)}`);
        reached.add(stop);
      }
      assert.equal(reached.size, wanted, screen);
    }
    assert.deepEqual(wrong, []);
  });

  test("a question keeps the focus inside, Escape leaves it, and the focus is where it was", async () => {
    await visit(page, `#/evaluations/${it.evaluations[0]}`);
    const remove = page.getByRole("button", { name: "Delete" });
    await remove.focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await dialog.waitFor();
    assert.deepEqual(await seriousFindings(page), []);
    const inside: string[] = [];
    for (let presses = 0; presses < 6; presses++) {
      assert.ok(
        await page.evaluate(() => {
          const { activeElement } = document;
          // Between the last and the first the browser may pass by its own controls.
          return activeElement === document.body || activeElement!.closest("dialog") !== null;
        }),
      );
      inside.push(await focused(page));
      await page.keyboard.press("Tab");
    }
    assert.ok(inside.includes("Delete") && inside.includes("Cancel"), inside.join());
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement?.textContent === "Delete");
    // And with Enter on Cancel as well.
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Cancel" }).focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.textContent === "Delete");
    assert.equal((await it.call("evaluations.get", { params: { evaluation_id: it.evaluations[0]! } })).status, 200);
    assert.deepEqual(wrong, []);
  });

  test("? shows the keys; they lead to screens, to the search and to what is new, and can be turned off", async () => {
    await visit(page, "#/home");
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keyboard" });
    await dialog.getByText("Show keyboard shortcuts").waitFor();
    assert.deepEqual(await seriousFindings(page), []);
    await picture(page, "keyboard");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });

    await page.keyboard.press("g");
    await page.keyboard.press("b");
    await page.getByRole("heading", { name: "Benchmarks", level: 1 }).waitFor();
    await page.waitForFunction(() => document.activeElement?.tagName === "H1");
    await page.keyboard.press("n");
    await page.getByRole("heading", { name: "New benchmark" }).waitFor();
    // What is typed into a field is no shortcut.
    await page.getByLabel("Name").first().focus();
    await page.keyboard.type("g?d");
    assert.equal(await page.getByLabel("Name").first().inputValue(), "g?d");
    await visit(page, `#/benchmarks/${it.benchmarkId}`);
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => (document.activeElement as HTMLInputElement).type), "search");

    await visit(page, "#/home");
    await page.keyboard.press("?");
    await page.getByLabel("Shortcuts without Ctrl are on").uncheck();
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("d");
    await page.waitForTimeout(200);
    assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "Home");
    // The button in the bar still shows them.
    await page.getByRole("button", { name: "Keyboard" }).click();
    await page.getByLabel("Shortcuts without Ctrl are on").check();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.activeElement?.textContent === "Keyboard");
    assert.deepEqual(wrong, []);
  });

  test("a screen that is drawn anew leaves the focus where it is", async () => {
    await visit(page, "#/home");
    await page.getByRole("link", { name: "Was it worth it?" }).first().focus();
    insertAlignment(it.store, "ada", it.baseId, "failed");
    await page.locator(".card", { hasText: "Needs attention" }).getByText("it", { exact: true }).waitFor();
    assert.equal(await focused(page), "Was it worth it?");
    assert.deepEqual(wrong, []);
  });
});
