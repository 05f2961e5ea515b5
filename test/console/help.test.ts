// Help in a browser: linked from every screen, readable in both themes and on a narrow screen. test/api/help.test.ts checks what it says.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { type TestHouse, testHouse } from "../helpers/house.ts";
import { openBrowser, openPage, overflow, picture, seriousFindings, signIn, visit, withoutBrowser } from "./browser.ts";

describe("help", { skip: withoutBrowser }, () => {
  let it: TestHouse;
  let browser: Browser;
  before(async () => {
    [it, browser] = await Promise.all([testHouse(), openBrowser()]);
  });
  after(async () => {
    await browser?.close();
    await it?.close();
  });

  test("it is linked from every screen in its language, and leads back with the key still there", async () => {
    const { page, wrong } = await openPage(browser, it.url);
    assert.equal(await page.getByRole("link", { name: "Help" }).getAttribute("href"), "/help");
    await signIn(page, it.key);
    await visit(page, "#/documents");
    await page.getByRole("link", { name: "Help" }).click();
    await page.getByRole("heading", { name: "First alignment" }).waitFor();
    await page.getByRole("link", { name: "Documents", exact: true }).first().click();
    await page.getByRole("heading", { name: "Documents", level: 1 }).waitFor();
    await page.goto(`${it.url}/help`);
    await page.getByRole("link", { name: "Deutsch" }).click();
    await page.getByRole("heading", { name: "Glossar" }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  for (const view of [{ colorScheme: "light" }, { colorScheme: "dark" }, { width: 360 }] as const)
    test(`it can be read: ${JSON.stringify(view)}`, async () => {
      const { page, wrong } = await openPage(browser, `${it.url}/help`, view);
      await page.getByRole("heading", { name: "Glossary" }).waitFor();
      assert.deepEqual(await seriousFindings(page), []);
      assert.ok((await overflow(page)) <= 0);
      await picture(page, `help-${Object.values(view)[0]}`);
      assert.deepEqual(wrong, []);
      await page.context().close();
    });
});
