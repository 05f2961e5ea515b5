// npm run prove:first-run: the first run by clicks alone, from the link that serve prints to the first answer of a model aligned to the
// demo's documents, with the minutes of each part; and what the first paint of the console takes while that alignment trains.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Locator, Page } from "playwright-core";
import { installation } from "../../src/base/config.ts";
import { startServing } from "../cli/plumbline.ts";
import { openBrowser, openPage, picture } from "./browser.ts";

const demo = join(installation, "config/demo");
/** Times that the console is opened while the alignment trains. */
const opened = 10;
const limitMs = 30 * 60_000;
/** For what takes seconds. */
const shortMs = 120_000;

const data = mkdtempSync(join(tmpdir(), "plumbline-first-run-"));
await using open = new AsyncDisposableStack();
open.defer(() => rmSync(data, { recursive: true, force: true, maxRetries: 5 }));
const serving = await startServing({ PLUMBLINE_DATA: data });
open.defer(async () => {
  serving.child.stdin.end();
  await serving.child.ended;
});
const browser = await openBrowser();
open.defer(() => browser.close());
const start = performance.now();
const parts: { part: string; minutes: string; since_start: string }[] = [];
let last = start;
const minutes = (from: number): string => ((performance.now() - from) / 60_000).toFixed(2);
const done = (part: string): void => {
  parts.push({ part, minutes: minutes(last), since_start: minutes(start) });
  last = performance.now();
  console.log(JSON.stringify(parts.at(-1)));
};
const { page, wrong } = await openPage(browser, serving.claim!, { refused: /./ });
try {
  const press = (name: string | RegExp): Promise<void> => page.getByRole("button", { name }).click();
  const screen = (name: string): Promise<void> =>
    page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
  await page.getByLabel("Your name").fill("ada");
  await press("Make the key");
  await press("Open the console with it");
  await page.getByRole("heading", { name: "Home" }).waitFor();
  done("signed in");

  await screen("Documents");
  const documents = readdirSync(join(demo, "documents")).map((name) => join(demo, "documents", name));
  await page.getByLabel("Choose files").setInputFiles(documents);
  await page
    .getByRole("list", { name: "Uploads" })
    .getByText("read", { exact: true })
    .nth(documents.length - 1)
    .waitFor({ timeout: shortMs });
  await screen("Benchmarks");
  await page.getByRole("link", { name: "New benchmark" }).click();
  await page.getByLabel("JSONL or CSV file").setInputFiles(join(demo, "benchmark.jsonl"));
  await press("Upload questions");
  await page.waitForURL(/#\/benchmarks\/benchmark_/);
  done("documents and benchmark uploaded");

  await screen("Alignments");
  await page.getByRole("link", { name: "New alignment" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Demo");
  await page.getByLabel(/^Preset/).selectOption("quick");
  await press("Estimate");
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/#\/alignments\/alignment_/);
  done("alignment started");

  await unlessFailed(page.getByText(/Step \d+: loss/));
  done("the first step is trained");
  const paints = [];
  for (let at = 0; at < opened; at++) paints.push(await firstPaint(browser, serving.address));
  paints.sort((a, b) => a - b);
  console.log(JSON.stringify({ first_paint_ms: { median: paints[opened >> 1], most: paints.at(-1) } }));

  await unlessFailed(page.getByRole("link", { name: "Its model" }));
  done("aligned");
  await picture(page, "first-run-aligned");
  await page.getByRole("link", { name: "Its model" }).first().click();
  await press("Deploy");
  await page.getByText("deployed", { exact: true }).first().waitFor({ timeout: shortMs });
  await page.getByRole("link", { name: "Ask it" }).click();
  await page.getByLabel("Question").fill("Who is the managing director?");
  await press(/^Ask$/);
  await page.locator(".score").waitFor({ timeout: shortMs });
  done("the first answer, with its confidence");
  await picture(page, "first-run-answer");
  console.table(parts);
  console.log(JSON.stringify({ wrong: wrong.filter((one) => one.startsWith("asks ")) }));
} catch (error) {
  await picture(page, "first-run-failed");
  throw error;
}

/** Waits until it is shown. Throws if the alignment fails before. */
async function unlessFailed(shown: Locator): Promise<void> {
  const failed = page.getByText("failed", { exact: true });
  await shown.or(failed).first().waitFor({ timeout: limitMs });
  if (!(await shown.first().isVisible())) throw new Error("the alignment failed");
}

/** Milliseconds from the navigation to the first contentful paint, in a session of its own. */
async function firstPaint(opener: Browser, address: string): Promise<number> {
  const { page } = await openPage(opener, address);
  const read = (one: Page): Promise<number> =>
    one.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  const began = performance.now();
  let ms = 0;
  for (; ms === 0 && performance.now() - began < shortMs; await page.waitForTimeout(50)) ms = await read(page);
  await page.context().close();
  if (ms === 0) throw new Error(`nothing was painted in ${shortMs} ms`);
  return Math.round(ms);
}
