// plumbline report: shows what an alignment learned, lost and cost, through the API.
import { resolve } from "node:path";
import type { Command } from "commander";
import { Failure } from "../base/errors.ts";
import { writeFileDurably } from "../base/files.ts";
import { unwritable } from "../base/unwritable.ts";
import { statusText } from "./align.ts";
import { asks } from "./asks.ts";
import type { AlignmentStatus } from "./follow.ts";
import { table } from "./output.ts";

export function register(program: Command): void {
  const report = program
    .command("report")
    .description("show what a finished alignment learned, what it lost, what it cost, and what would help most")
    .argument("<id>", "the alignment's id, alignment_…")
    .option("--html <file>", "write the whole report to this file, as a web page");
  asks<{ html?: string }>(report, async (client, { html }, id) => {
    const params = { alignment_id: id };
    const status = await client.api["alignments.status"]({ params });
    if (status.report == null)
      throw new Failure("not_found", `The alignment is ${status.status} and has no report yet`);
    const { verdict = null, report: figures } = status;
    if (html === undefined) return { json: { ...params, verdict, report: figures }, text: reportText(status) };
    const path = resolve(html);
    const page = await client.text("alignments.report", { params });
    await writeFileDurably(path, page).catch((error) => {
      throw unwritable(path, error);
    });
    return { json: { ...params, verdict, report: figures, html: path }, text: path };
  });
}

/** A summary that fits a terminal; the page of --html has the rest. */
function reportText(status: AlignmentStatus): string {
  const metrics = Object.entries(status.performance_metrics ?? {}).map(([name, value]) => [
    name.replaceAll("_", " "),
    value === null ? "" : String(Math.round(value * 1000) / 1000),
  ]);
  const fell = (status.verdict?.fell ?? []).map((one) => [
    one.name,
    one.base.toFixed(2),
    one.aligned.toFixed(2),
    one.beyond_chance ? "more than chance explains" : "chance may explain it",
  ]);
  return [
    statusText(status),
    ...(metrics.length > 0 ? ["", table([["metric", "value"], ...metrics])] : []),
    ...(fell.length > 0 ? ["", table([["worse in", "base", "aligned", ""], ...fell])] : []),
  ].join("\n");
}
