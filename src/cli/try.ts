// plumbline try: runs the demo's steps in the appliance that is being served, where its model stays available.
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
    .description("align a model of the served appliance to a fictional company's documents, and keep it to talk to")
    .addOption(workflowOption())
    .addHelpText(
      "after",
      `
It does what you would do with documents of your own, over the API and with your key: uploads them and a benchmark, aligns the smallest
base model, deploys the result and asks it. Interrupt it with Ctrl-C: what is under way goes on, and the same command takes it up
again within a day.`,
    );
  asks<Options>(command, async (client, { workflow }) => {
    const material = await readMaterial();
    const report = await watched(`${ownCommand} try`, (progress, signal) =>
      drive(client, material, workflow, { progress, signal }),
    );
    const next = [
      `Talk to it:    ${ownCommand} chat ${report.model_id}`,
      `What it cost:  ${ownCommand} report ${report.alignment_id}`,
      `With documents of your own: ${ownCommand} document add FILE…, then as the README says`,
    ];
    return { json: report, text: `${textOf(report)}\n\n${next.join("\n")}` };
  });
}
