// plumbline align: manages alignment projects, through the API.
import type { Command } from "commander";
import { asks, watched } from "./asks.ts";
import type { Client, Replies } from "./client.ts";
import { type AlignmentStatus, followAlignment } from "./follow.ts";
import { listOf, type Page, paged, pageOf, said } from "./options.ts";
import { bytesText, secondsText, table } from "./output.ts";
import { lineOf } from "./progress.ts";

interface CreateOptions {
  name: string;
  base: string;
  documents: string;
  benchmark?: string;
  preset?: string;
  description?: string;
  organisation?: string;
  teacher?: string;
  provider?: string;
  detach?: boolean;
}

export function register(program: Command): void {
  const align = program
    .command("align")
    .description("alignments of a base model to documents: estimate, create, list, show, watch, stop, delete");

  const estimate = ordered(
    align.command("estimate").description("estimate what an alignment would take, without starting it"),
  );
  asks<CreateOptions>(estimate, async (client, options) => {
    const reply = await client.api["alignments.estimate"]({ body: bodyOf(options) });
    return { json: reply, text: estimateText(reply) };
  });

  const create = ordered(align.command("create").description("start an alignment, and follow it until it ends")).option(
    "--detach",
    "do not wait until it ends",
  );
  asks<CreateOptions>(create, async (client, options) => {
    const made = await client.api["alignments.create"]({ body: bodyOf(options) });
    const { alignment_id: id, message } = made;
    if (options.detach) return { json: made, text: message === undefined ? `${id} has started` : `${id}: ${message}` };
    return watch(client, id);
  });

  const list = paged(align.command("ls").description("list alignments, newest first")).option(
    "--status <status>",
    "PENDING, COMPLETED, FAILED or STOPPED",
  );
  asks<Page & { status?: string }>(list, async (client, options) => {
    const reply = await client.api["alignments.list"]({ query: { status: options.status, ...pageOf(options) } });
    const rows = reply.alignment_projects.map((one) => [
      one.id,
      one.name,
      one.status,
      `${Math.floor(one.progress ?? 100)} %`,
      one.base_model,
      String(one.document_count),
      one.model_id ?? "",
      one.created_date,
      one.error ?? "",
    ]);
    const head = ["id", "name", "status", "progress", "base", "documents", "model", "created", "error"];
    return { json: reply, text: table([head, ...rows]) };
  });

  const show = withId(align.command("show").description("show an alignment's status and results"));
  asks(show, async (client, _, id) => {
    const status = await client.api["alignments.status"]({ params: { alignment_id: id } });
    return { json: status, text: statusText(status) };
  });

  const follow = withId(
    align.command("watch").description("follow an alignment until it ends, whoever started it and when"),
  );
  asks(follow, (client, _, id) => watch(client, id));

  const coverage = withId(
    align.command("coverage").description("show which parts of the documents became training rows"),
  );
  asks(coverage, async (client, _, id) => {
    const reply = await client.api["alignments.coverage"]({ params: { alignment_id: id } });
    const rows = reply.documents.map(({ name, passages }) => {
      const rowsOf = passages.reduce((sum, passage) => sum + passage.rows, 0);
      return [name, String(passages.length), String(passages.filter(({ rows }) => rows > 0).length), String(rowsOf)];
    });
    const text = `${reply.covered} of ${reply.content} passages have a row\n${table([["document", "passages", "with rows", "rows"], ...rows])}`;
    return { json: reply, text };
  });

  const stop = withId(align.command("stop").description("stop an alignment that is training; no model is made"));
  asks(stop, async (client, _, id) => {
    const reply = await client.api["alignments.stop"]({ params: { alignment_id: id } });
    return { json: reply, text: `${id} is ${reply.status}` };
  });

  const remove = withId(
    align
      .command("rm")
      .description(
        "delete an alignment that has ended, or cancel one that has not started training; its model is kept",
      ),
  );
  asks(remove, async (client, _, id) => {
    const reply = await client.api["alignments.delete"]({ params: { alignment_id: id } });
    return { json: reply, text: `${id}: ${reply.message}` };
  });
}

const withId = (command: Command): Command => command.argument("<id>", "the alignment's id, alignment_…");

const ordered = (command: Command): Command =>
  command
    .requiredOption("--name <text>", "name of the project and of its model")
    .requiredOption("--base <model>", "the base model: its id or name, or hf://organisation/name[/file.gguf]")
    .requiredOption("--documents <ids>", "ids of the documents to align to, separated by commas")
    .option(
      "--benchmark <id>",
      "id of the benchmark; its dev questions guide the run, its sealed questions prove the result",
    )
    .option("--preset <name>", "quick, standard or thorough (default: standard)")
    .option("--description <text>", "a description for people")
    .option("--organisation <name>", "the organisation that the documents belong to, so that questions can name it")
    .option("--teacher <model>", "the model that reads the documents and writes the training questions")
    .option("--provider <name>", "the configured upstream that serves the teacher");

const bodyOf = (options: CreateOptions): object =>
  said({
    alignment_name: options.name,
    base_model_id: options.base,
    document_ids: listOf(options.documents),
    benchmark_id: options.benchmark,
    workflow_id: options.preset,
    description: options.description,
    organisation: options.organisation,
    teacher_model: options.teacher,
    teacher_provider: options.provider,
  });

async function watch(client: Client, id: string) {
  const status = await watched(`plumbline align watch ${id}`, (progress, signal) =>
    followAlignment(client, id, progress, signal),
  );
  return { json: status, text: statusText(status) };
}

function estimateText(reply: Replies["alignments.estimate"]): string {
  const range = (of: { low: number; likely: number; high: number }): string =>
    `${Math.round(of.likely)} (${Math.round(of.low)} to ${Math.round(of.high)})`;
  return table([
    ["passages", String(reply.passages)],
    ["rows", range(reply.rows)],
    ["tokens", range(reply.train_tokens)],
    ["memory", bytesText(reply.memory_bytes)],
    ["GPU memory", reply.gpu_memory_bytes === 0 ? "not used" : bytesText(reply.gpu_memory_bytes)],
    ["minutes", reply.minutes === null ? "the device's speed is unknown" : range(reply.minutes)],
    ...(reply.teacher_messages === null
      ? []
      : [["messages to the teacher", `${range(reply.teacher_messages)}, in time of their own`]]),
  ]);
}

export function statusText(status: AlignmentStatus): string {
  const { progress_detail: detail, verdict } = status;
  const left = detail?.seconds_left;
  const lines: [string, string | null | undefined][] = [
    ["id", status.alignment_id],
    ["name", status.name],
    ["status", `${status.status}, ${status.phase}, ${status.progress.toFixed(1)} %`],
    ["progress", detail && lineOf({ ...detail, secondsLeft: null })],
    ["left", left == null ? null : secondsText(left)],
    ["waiting for", status.waiting_for],
    ["verdict", verdict?.headline],
    ...(verdict?.why ?? []).map((why): [string, string] => ["because", why]),
    ...(verdict?.help ?? []).map((help): [string, string] => ["would help", help]),
    ["model", status.model_id],
    ["evaluation", status.evaluation_id],
    ["error", status.error],
  ];
  return table(lines.filter((line): line is [string, string] => typeof line[1] === "string"));
}
