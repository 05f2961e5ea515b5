// Screens of a house in which work has been done: charts with something in them, verdict, decision cards, flips, a refused promotion;
// in both themes and on a narrow screen. A key that may little sees little.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { eventually } from "../helpers/house.ts";
import { openBrowser, openPage, overflow, picture, seriousFindings, signIn, visit, withoutBrowser } from "./browser.ts";
import { type WorkedIn, workedInHouse } from "./worked-in.ts";

describe("with work done", { skip: withoutBrowser }, () => {
  let it: WorkedIn;
  let browser: Browser;
  before(async () => {
    [it, browser] = await Promise.all([workedInHouse(), openBrowser()]);
  });
  after(async () => {
    await browser?.close();
    await it?.close();
  });

  /** Screens with what must be seen on them, and how many charts there are. */
  const screens = (): [name: string, hash: string, seen: RegExp[], charts: number][] => {
    const [, second, hasty] = it.made;
    const compared = `model=${hasty!.modelId}&with=${second!.modelId}&benchmark=${it.benchmarkId}`;
    return [
      ["home", "home", [/Harbour, third/, /ran out of memory/], 0],
      ["documents", "documents", [/Quays\.md/], 0],
      [
        "document",
        `documents/${it.documents[0]!.id}?alignment=${second!.alignmentId}`,
        [/Quay 7 opens at/, /40 (of|von) 41/],
        0,
      ],
      ["alignments", "alignments", [/Harbour, third/, /140 \/ 400 (steps|Schritte)/], 0],
      ["running", `alignments/${it.runningId}`, [/140 \/ 400 (steps|Schritte)/, /69[.,]0/], 2],
      [
        "ended",
        `alignments/${second!.alignmentId}`,
        [
          /^(Gain on the dev|Gewinn auf den Dev-Fragen)/,
          /^(On 12 dev|Auf 12 Dev)/,
          /3 (of|von) 60 Benchmark-?/i,
          /Annex\.txt/,
        ],
        2,
      ],
      ["auto-align", `auto-align/${second!.alignmentId}`, [/83[.,]3/], 0],
      [
        "auto-align-one",
        `auto-align/${second!.alignmentId}?run=${it.autoAlignId}`,
        [
          /5\. (End|Ende)/,
          /85[.,]7, (at least|mindestens) 81[.,]2, (on|auf) 14/,
          /(promises the most points|Diese Phase, .*, verspricht 9,0 Punkte)/,
        ],
        1,
      ],
      ["models", "models", [/harbour/, /SmolLM2-135M/], 0],
      ["model", `models/${second!.modelId}`, [/AUROC/, /0[.,]79/], 2],
      ["evaluations", "evaluations", [/Opening hours/], 0],
      ["evaluation", `evaluations/${it.evaluations[3]}`, [/(A gain of 40\.5 points|Ein Gewinn von 40,5 Punkten)/], 0],
      ["compare", `evaluations/compare?${compared}`, [/quay 10/i], 0],
      ["benchmark", `benchmarks/${it.benchmarkId}`, [/60 (of|von) 60/], 0],
      ["agent", `agents/${it.agentId}`, [/quay 8/], 0],
      ["keys", "keys", [/console/], 0],
      ["system", "system", [/key: made|Schlüssel: angelegt/, /(Rows|Zeilen) 1–25/], 0],
    ];
  };

  for (const [name, view] of Object.entries({
    light: {},
    dark: { colorScheme: "dark", locale: "de-DE" },
    narrow: { width: 360 },
  } as const))
    test(`every screen shows what was made: ${name}`, async () => {
      const { page, wrong } = await openPage(browser, it.url, view);
      await signIn(page, it.key);
      for (const [screen, hash, seen, charts] of screens()) {
        await visit(page, `#/${hash}`);
        const text = page.locator("main");
        for (const one of seen) await text.getByText(one).first().waitFor({ state: "attached" });
        assert.equal(await page.locator(".chart canvas").count(), charts, screen);
        for (let at = 0; at < charts; at++) await eventually(async () => (await inkOf(page, at)) > 200, 30_000);
        for (const one of await page.locator("main details").all())
          await one.evaluate((details) => details.setAttribute("open", ""));
        assert.ok((await overflow(page)) <= 0, `${screen} scrolls sideways`);
        // The log tells paths, and paths have ids.
        if (screen !== "system") assert.doesNotMatch(await proseOf(page), rawId, screen);
        assert.deepEqual(await seriousFindings(page), [], screen);
        await picture(page, `worked-${name}-${screen}`);
      }
      assert.deepEqual(wrong, []);
      await page.context().close();
    });

  test("a refused promotion shows each question that would be lost, with both answers", async () => {
    const { page, wrong } = await openPage(browser, it.url, { refused: /\/promote$/ });
    await signIn(page, it.key);
    await visit(page, `#/models/${it.made[2]!.modelId}`);
    await page.getByLabel("Channel").fill("harbour");
    await page.getByRole("button", { name: "Promote" }).click();
    await page.getByText("The promotion was refused").waitFor();
    const lost = page.locator(".notice.bad .list > li");
    assert.ok((await lost.count()) > 5);
    assert.match(
      (await page.locator(".notice.bad").textContent())!,
      /Opening hours v1: .* compared with Harbour, second/,
    );
    const first = (await lost.first().textContent())!;
    assert.match(first, /quay \d+ open/);
    assert.match(first, /Expected\d+ o'clock.*BeforeIt opens at \d+ o'clock.*NowIt does not say/);
    assert.deepEqual(await seriousFindings(page), []);
    await picture(page, "worked-refused");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("a threshold on the risk–coverage curve is moved by the keyboard", async () => {
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await visit(page, `#/models/${it.made[1]!.modelId}`);
    const slider = page.getByLabel("Threshold", { exact: true });
    await slider.fill("80");
    await slider.press("ArrowRight");
    await page.getByText(/From 81 on: \d/).waitFor();
    assert.match((await slider.getAttribute("aria-valuetext"))!, /^From 81 on/);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("a key that may ask and nothing else sees what it may, and nothing is refused", async () => {
    const { key } = (await it.house.admin("key.create", { user: "ada", scopes: ["inference"] })) as { key: string };
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, key);
    const links = await page.getByRole("navigation").getByRole("link").allTextContents();
    assert.deepEqual(links, ["Home", "Playground", "System"]);
    for (const screen of ["home", "system"]) await visit(page, `#/${screen}`);
    await page.getByText("need a key with the scope admin").waitFor();
    await picture(page, "worked-asking-key");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("what trains can be stopped; while a teacher is asked, which is counted, it can only be deleted, which cancels it", async () => {
    const { page, wrong } = await openPage(browser, it.url, { locale: "de-DE" });
    await signIn(page, it.key);
    const stop = page.getByRole("button", { name: "Anhalten" });
    const remove = page.getByRole("button", { name: "Löschen" });
    await visit(page, `#/alignments/${it.runningId}`);
    assert.deepEqual([await stop.count(), await remove.count()], [1, 0]);
    const detail = { phase: "preparing", done: 12, total: 40, rate: 0.1, seconds_left: 280 };
    const note = { detail: { ...detail, unit: "passages shown to the teacher" }, estimated_completion: null };
    it.store
      .prepare<unknown[]>("UPDATE alignment SET phase = 'preparing', progress_json = ? WHERE id = ?")
      .run(JSON.stringify(note), it.runningId);
    await visit(page, "#/alignments");
    await visit(page, `#/alignments/${it.runningId}`);
    await page.getByText("12 / 40 Passagen dem Lehrermodell gezeigt").waitFor();
    assert.deepEqual([await stop.count(), await remove.count()], [0, 1]);
    await remove.click();
    await page.getByText("Das bricht es ab.").waitFor();
    await picture(page, "worked-cancelling");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });
});

const rawId = /\b(model|benchmark|alignment|evaluation|agent|key)_[a-z0-9]{12,}/;

/** What stands on a screen, without what is set as code. */
const proseOf = (page: Page): Promise<string> =>
  page.locator("main").evaluate((main) => {
    const copy = main.cloneNode(true) as HTMLElement;
    for (const code of copy.querySelectorAll("code")) code.remove();
    return copy.textContent!;
  });

/** How many pixels of a chart are painted. */
const inkOf = (page: Page, at: number): Promise<number> =>
  page
    .locator(".chart canvas")
    .nth(at)
    .evaluate((canvas: HTMLCanvasElement) => {
      const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((value, index) => index % 4 === 3 && value > 0).length;
    });
