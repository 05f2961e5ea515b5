// A browser for the console's tests: Debian's Chromium, with everything noted that a page should not do.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { installation } from "../../src/base/config.ts";

const executablePath = "/usr/bin/chromium";

/** Why the tests of the console cannot run; false when they can. */
export const withoutBrowser: string | false = existsSync(executablePath) ? false : `no browser at ${executablePath}`;

export const openBrowser = (): Promise<Browser> => chromium.launch({ executablePath, args: ["--no-sandbox"] });

export interface Watched {
  page: Page;
  /** Console errors, uncaught errors, and requests to other origins. */
  wrong: string[];
}

export interface View {
  width?: number;
  colorScheme?: "light" | "dark";
  locale?: string;
  /** Paths whose refusal is part of the test: the browser logs each. */
  refused?: RegExp;
}

/** Without any aligned model the API answers 404, as its contract says. */
const alwaysRefused = /\/models\/aligned\b/;

/** A page of a session of its own, at `address`. */
export async function openPage(browser: Browser, address: string, view: View = {}): Promise<Watched> {
  const { width = 1280, colorScheme = "light", locale = "en-GB", refused } = view;
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, locale });
  // The machine may be busy with other things.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const wrong: string[] = [];
  page.on("console", (message) => {
    const { url } = message.location();
    if (message.type() === "error" && !alwaysRefused.test(url) && !refused?.test(url))
      wrong.push(`${message.text()} ${url}`);
  });
  page.on("pageerror", (error) => void wrong.push(String(error)));
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(address).origin && protocol !== "blob:") wrong.push(`asks ${request.url()}`);
  });
  await page.goto(address);
  return { page, wrong };
}

/** Enters the key as a user does. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel(/^(API key|API-Schlüssel)$/).fill(key);
  await page.getByRole("button", { name: /^(Open the console|Konsole öffnen)$/ }).click();
  await page.locator("body.signed-in main h1").waitFor();
}

/** Goes to a screen and waits until it has loaded. */
export async function visit(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.waitForTimeout(50);
  await page.locator("main h1").waitFor();
  await page.locator("main .loading").waitFor({ state: "detached" });
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Serious and critical findings of axe-core on what the page shows. */
export async function seriousFindings(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    // biome-ignore lint/suspicious/noExplicitAny: axe defines a global without types here.
    const { violations } = await (globalThis as any).axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    });
    return violations
      .filter(({ impact }: { impact: string }) => impact === "serious" || impact === "critical")
      .map(
        ({ id, nodes }: { id: string; nodes: { target: string[]; failureSummary: string }[] }) =>
          `${id}: ${nodes.map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary}`).join("; ")}`,
      );
  });
}

/** By how many pixels the page is wider than the window. */
export const overflow = (page: Page): Promise<number> =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Keeps a picture under build/screens, for people to look at. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = join(installation, "build/screens");
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
