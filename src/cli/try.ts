// plumbline try: runs the demo's steps in the running appliance, where the aligned model then stays available.
import type { Command } from "commander";
import { ownCommand } from "../base/config.ts";
import { asks, watched } from "./asks.ts";
import { drive } from "./demo/drive.ts";
import { readMaterial } from "./demo/material.ts";
import { textOf } from "./demo/report.ts";
import { workflowOption } from "./options.ts";

interface Options {
  workflow: string;
}

export function register(program: Command): void {
  const command = program
    .command("try")
    .description("align a model of the running appliance to a fictional company's documents, and keep it to chat with")
    .addOption(workflowOption())
    .addHelpText(
      "after",
      `
It does what you would do with your own documents, over the API and with your key: it uploads documents and a benchmark, aligns the
smallest base model, deploys the result and asks it questions. Ctrl-C interrupts only the command: the work continues, and within a
day the same command picks it up again. What you have deleted of it can be made again after a day, or at once with another
--workflow.`,
    );
  asks<Options>(command, async (client, { workflow }) => {
    const material = await readMaterial();
    const report = await watched(`${ownCommand} try`, (progress, signal) =>
      drive(client, material, workflow, { progress, signal }),
    );
    const next = [
      `Chat with it:  ${ownCommand} chat ${report.model_id}`,
      `What it cost:  ${ownCommand} report ${report.alignment_id}`,
      `With your own documents: ${ownCommand} document add FILE…, then as the README describes`,
    ];
    return { json: report, text: `${textOf(report)}\n\n${next.join("\n")}` };
  });
}
