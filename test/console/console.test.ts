// The console in a browser, against a served appliance with a new data folder: the key, every screen without anything in it, and
// the upload of documents.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { type Serving, startServing } from "../cli/plumbline.ts";
import { openBrowser, openPage, overflow, picture, seriousFindings, signIn, visit, withoutBrowser } from "./browser.ts";

const screens = [
  "home",
  "documents",
  "benchmarks",
  "benchmarks/new",
  "alignments",
  "alignments/new",
  "auto-align",
  "models",
  "evaluations",
  "evaluations/new",
  "evaluations/compare",
  "playground",
  "agents",
  "agents/new",
  "keys",
  "system",
];

describe("the console", { skip: withoutBrowser }, () => {
  let serving: Serving;
  let browser: Browser;
  let data: string;
  let key: string;

  before(async () => {
    data = mkdtempSync(join(tmpdir(), "plumbline-console-"));
    const settings = { PLUMBLINE_DATA: data, PLUMBLINE_STARTER_MODEL: "none.gguf", PLUMBLINE_FREE_DISK: "0" };
    [serving, browser] = await Promise.all([startServing(settings), openBrowser()]);
  });
  after(async () => {
    await browser?.close();
    serving?.child.stdin.end();
    await serving?.child.ended;
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  });

  test("the link that serve prints makes the first key, and opens the console with it", async () => {
    const { page, wrong } = await openPage(browser, serving.claim!);
    await page.getByLabel("Your name").fill("ada");
    await picture(page, "first-key");
    await page.getByRole("button", { name: "Make the key" }).click();
    key = (await page.locator("pre").first().textContent())!;
    assert.match(key, /^pl_/);
    assert.ok(!page.url().includes("#"), page.url());
    // Choosing a language loads the page again.
    await page.reload();
    assert.equal(await page.locator("pre").first().textContent(), key);
    await page.getByRole("button", { name: "Open the console with it" }).click();
    await page.getByRole("heading", { name: "Home" }).waitFor();
    assert.ok(!page.url().includes(key));
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("a wrong key is told apart, and the right one is entered once for the session", async () => {
    const { page, wrong } = await openPage(browser, serving.address, { refused: /\/api\/v3\/keys/ });
    // The first is a key as the console's own list shortens it.
    for (const text of ["pl_abcdefgh…", "pl_wrong"]) {
      await page.getByLabel("API key").fill(text);
      await page.getByRole("button", { name: "Open the console" }).click();
      await page.getByRole("alert").getByText("does not know this key").waitFor();
    }
    assert.deepEqual(await seriousFindings(page), []);
    await picture(page, "sign-in");
    await signIn(page, key);
    await page.reload();
    await page.getByRole("heading", { name: "Home" }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  for (const [name, view] of Object.entries({
    light: {},
    dark: { colorScheme: "dark", locale: "de-DE" },
    narrow: { width: 360 },
    "narrow-german": { width: 360, locale: "de-DE" },
  } as const))
    test(`every screen says what to do while there is nothing: ${name}`, async () => {
      const { page, wrong } = await openPage(browser, serving.address, view);
      await signIn(page, key);
      for (const screen of screens) {
        await visit(page, `#/${screen}`);
        assert.equal(await page.locator(".notice.bad").count(), 0, screen);
        assert.ok((await overflow(page)) <= 0, `${screen} scrolls sideways`);
        assert.doesNotMatch((await page.locator("main").textContent())!, /`/, screen);
        const bar = await page.locator(".bar").evaluate((one) => one.clientHeight);
        assert.ok(bar < 85, `${screen}: the bar is ${bar} pixels high`);
        assert.deepEqual(await seriousFindings(page), [], screen);
        await picture(page, `${name}-${screen.replace("/", "-")}`);
      }
      assert.deepEqual(wrong, []);
      await page.context().close();
    });

  test("documents are uploaded by the file input; one that is refused says why and in which request", async () => {
    const { page, wrong } = await openPage(browser, serving.address, { refused: /\/documents\/upload/ });
    await signIn(page, key);
    await visit(page, "#/documents");
    const markup = '<img src="x" onerror="document.title = 1"> The harbour opens at six.';
    const files = {
      "harbour.md": `# Harbour\n\n${markup}\n`,
      "tides.txt": "High tide is at noon.",
      "broken.pdf": "%PDF-1.7 no",
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(data, name), text);
    await page.locator("input[type=file]").setInputFiles(Object.keys(files).map((name) => join(data, name)));
    await page.getByText("refused", { exact: true }).waitFor();
    await page.getByText(/Request id for support: req_/).waitFor();
    await page.getByRole("row", { name: /harbour/ }).waitFor();
    assert.equal(await page.getByRole("row").count(), 3);
    await picture(page, "documents-uploaded");
    await page
      .getByRole("row", { name: /harbour/ })
      .getByRole("link")
      .click();
    await page.getByRole("region", { name: "Text of the document" }).getByText("opens at six").waitFor();
    assert.equal(await page.locator("main img").count(), 0);
    assert.deepEqual(await seriousFindings(page), []);
    await picture(page, "document");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("the theme and the language can be chosen, and stay", async () => {
    const { page, wrong } = await openPage(browser, serving.address);
    await signIn(page, key);
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), "light");
    await page.getByRole("button", { name: "Light / dark" }).click();
    assert.equal(await theme(), "dark");
    await page.getByLabel("Language").selectOption("de");
    await page.getByRole("heading", { name: "Start" }).waitFor();
    assert.deepEqual([await theme(), await page.evaluate(() => document.documentElement.lang)], ["dark", "de"]);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("the keyboard is enough", async () => {
    const { page, wrong } = await openPage(browser, serving.address, { width: 700 });
    await signIn(page, key);
    await page.reload();
    await page.getByRole("heading", { name: "Home" }).waitFor();
    const focused = (): Promise<string | null> => page.evaluate(() => document.activeElement?.textContent ?? null);
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "Skip to the content");
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "Menu");
    await page.keyboard.press("Enter");
    await pressUntil(page, async () => (await focused()) === "Documents");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Documents", level: 1 }).waitFor();
    await page.waitForFunction(() => document.activeElement?.tagName === "H1");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });
});

async function pressUntil(page: Page, isThere: () => Promise<boolean>): Promise<void> {
  for (let presses = 0; presses < 30; presses++) {
    if (await isThere()) return;
    await page.keyboard.press("Tab");
  }
  assert.fail("the keyboard does not get there");
}
