// plumbline demo: runs the whole product once, from an empty folder to an aligned model that answers better and knows
// when it is unsure.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { type Config, environmentOf, ownCommand, readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { makeFolder } from "../base/files.ts";
import { createClient } from "./client.ts";
import { type Appliance, startAppliance } from "./demo/appliance.ts";
import { drive } from "./demo/drive.ts";
import { readMaterial } from "./demo/material.ts";
import { textOf } from "./demo/report.ts";
import { workflowOption } from "./options.ts";
import { type Answer, answers, note } from "./output.ts";
import { startProgress } from "./progress.ts";

interface Options {
  dir?: string;
  keep?: boolean;
  workflow: string;
  json?: boolean;
}

export function register(program: Command): void {
  const command = program
    .command("demo")
    .description("align the starter model to a fictional company's documents, and show the gain")
    .option("--dir <folder>", "keep everything in this folder instead of a temporary one")
    .option("--keep", "keep the appliance serving at the end, until Ctrl-C; nothing is removed")
    .addOption(workflowOption());
  answers<Options>(command, perform);
}

async function perform(options: Options): Promise<Answer> {
  const folder = options.dir === undefined ? await mkdtemp(join(tmpdir(), "plumbline-demo-")) : resolve(options.dir);
  const stop = new AbortController();
  const interrupt = (): void => stop.abort(new Failure("interrupted"));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, interrupt);
  const ends: (() => Promise<unknown>)[] = [];
  if (options.dir === undefined && !options.keep)
    ends.push(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  const end = async (): Promise<void> => {
    for (const step of ends.reverse()) await step();
  };
  try {
    await makeFolder(folder);
    const material = await readMaterial();
    note(`Starting an appliance in ${folder}`);
    const appliance = await startAppliance(settingsOf(readConfig(), folder), join(folder, "serve.log"));
    ends.push(appliance.stop);
    // The demo ends if the appliance ends on its own, and on Ctrl-C.
    const gone = new AbortController();
    appliance.ended.catch((error) => gone.abort(error));
    const signal = AbortSignal.any([stop.signal, gone.signal]);
    const progress = startProgress();
    ends.push(async () => progress.end());
    const client = createClient(appliance.address, appliance.key);
    const report = await drive(client, material, options.workflow, { progress, signal }).catch((error) => {
      throw signal.aborted ? signal.reason : error;
    });
    const text = `${textOf(report)}\n\n${nextStep(folder, options)}`;
    if (!options.keep) {
      await end();
      return { json: report, text };
    }
    return { json: report, text, after: () => keepServing(appliance, stop.signal).finally(end) };
  } catch (error) {
    await end();
    // demo_failed has the hint to run the demo again with --keep, because otherwise the appliance is removed.
    throw error instanceof Failure && error.code === "work_failed" ? new Failure("demo_failed", error.message) : error;
  }
}

/** Keeps the appliance serving until Ctrl-C. Throws serve_failed if the appliance ends on its own. */
async function keepServing(appliance: Appliance, stop: AbortSignal): Promise<void> {
  note(`Serving at ${appliance.address} until Ctrl-C; key: ${appliance.key}`);
  const stopped = new Promise<void>((resolve) => {
    if (stop.aborted) resolve();
    stop.addEventListener("abort", () => resolve());
  });
  await Promise.race([stopped, appliance.ended]);
}

function nextStep(folder: string, options: Options): string {
  const own = `Next: run ${ownCommand} serve, which prints a link that creates your key; then add documents of your own as the README describes`;
  if (options.dir === undefined && !options.keep) return own;
  return `Everything is in ${folder}; to serve it again: PLUMBLINE_DATA=${join(folder, "data")} ${ownCommand} serve\n${own}`;
}

/** The user's own settings, except for the data folder and the address. */
const settingsOf = (config: Config, folder: string): Record<string, string> => ({
  ...environmentOf(config),
  PLUMBLINE_DATA: join(folder, "data"),
  PLUMBLINE_HOST: "127.0.0.1",
  PLUMBLINE_PORT: "0",
});
