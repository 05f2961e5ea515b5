// Files through the browser: 60 MB arrive with progress, 100 MB are refused by the setting's name, and a folder because it is one. An
// upload goes on while another screen is shown.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";
import { openBrowser, openPage, picture, signIn, visit, withoutBrowser } from "./browser.ts";

const MB = 1_000_000;
/** Bytes a second that the browser may send: so slow that progress is seen. */
const rate = 20 * MB;

describe("large uploads", { skip: withoutBrowser }, () => {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-uploads-"));
  let it: Scripted;
  let browser: Browser;
  before(async () => {
    [it, browser] = await Promise.all([scriptedHouse(), openBrowser()]);
  });
  after(async () => {
    await browser?.close();
    await it?.close();
    rmSync(folder, { recursive: true });
  });

  async function chosen(name: string, bytes: number, uploadThroughput = rate) {
    const path = join(folder, name);
    writeFileSync(path, Buffer.alloc(bytes, "The quay opens at seven, and closes with the tide.\n\n"));
    const { page, wrong } = await openPage(browser, it.url, { refused: /documents\/upload$/ });
    await signIn(page, it.key);
    await visit(page, "#/documents");
    const network = await page.context().newCDPSession(page);
    await network.send("Network.emulateNetworkConditions", {
      ...{ offline: false, latency: 0, downloadThroughput: -1, uploadThroughput },
    });
    await page.getByLabel("Choose files").setInputFiles(path);
    return { page, wrong, line: page.getByRole("list", { name: "Uploads" }).getByRole("listitem") };
  }

  test("60 MB arrive, and how much has arrived is seen", async () => {
    const { page, wrong, line } = await chosen("Quays.txt", 60 * MB);
    const seen: number[] = [];
    const badge = line.getByText(/^(read|refused)$/);
    while ((await badge.count()) === 0) {
      const value = await line
        .locator("progress[value]")
        .evaluateAll((all) => all.map((one) => (one as HTMLProgressElement).value));
      if (value.length > 0) seen.push(value[0]!);
      await page.waitForTimeout(100);
    }
    assert.equal(await badge.textContent(), "read", (await line.textContent())!);
    const between = [...new Set(seen)].filter((share) => share > 0 && share < 1);
    assert.ok(between.length >= 3, `seen: ${seen.join(" ")}`);
    assert.deepEqual(
      between,
      [...between].sort((a, b) => a - b),
    );
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("an upload goes on while another screen is shown, and the browser asks before it leaves the page", async () => {
    const { page, wrong, line } = await chosen("Tides.txt", MB, MB / 4);
    const isAsked = () => page.evaluate(() => !dispatchEvent(new Event("beforeunload", { cancelable: true })));
    await line.locator("progress[value]").waitFor();
    assert.equal(await isAsked(), true);
    await visit(page, "#/benchmarks");
    await page.getByText("1 read, 0 refused").waitFor();
    assert.equal(await isAsked(), false);
    await visit(page, "#/documents");
    await line.getByText("read", { exact: true }).waitFor();
    await page.getByRole("row", { name: /Tides/ }).waitFor();
    // What has been seen is not shown again.
    await visit(page, "#/benchmarks");
    await visit(page, "#/documents");
    assert.equal(await line.count(), 0);
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("a dropped folder is refused as one that cannot be read", async () => {
    const path = join(folder, "harbour");
    mkdirSync(path);
    const { page, wrong } = await openPage(browser, it.url);
    await signIn(page, it.key);
    await visit(page, "#/documents");
    const zone = (await page.locator(".drop").boundingBox())!;
    const input = await page.context().newCDPSession(page);
    for (const type of ["dragEnter", "dragOver", "drop"] as const)
      await input.send("Input.dispatchDragEvent", {
        ...{ type, x: zone.x + 5, y: zone.y + 5 },
        data: { items: [], files: [path], dragOperationsMask: 1 },
      });
    await page.getByRole("listitem").getByText("If it is a folder, drop its files.").waitFor();
    assert.deepEqual(wrong, []);
    await page.context().close();
  });

  test("100 MB are refused, with the setting that limits them and the request", async () => {
    const { page, wrong, line } = await chosen("All quays.txt", 100 * MB);
    await line.getByText("refused", { exact: true }).waitFor();
    await line
      .getByText(/PLUMBLINE_UPLOAD_BYTES/)
      .first()
      .waitFor();
    await line.getByText(/req_/).waitFor();
    await picture(page, "upload-refused");
    assert.deepEqual(wrong, []);
    await page.context().close();
  });
});
