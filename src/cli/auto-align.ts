// plumbline auto-align: improves an alignment until it reaches a target score, through the API.
import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { Failure } from "../base/errors.ts";
import { asks, watched } from "./asks.ts";
import type { Client } from "./client.ts";
import type { Exit } from "./exit-codes.ts";
import { type AutoAlignRecord, followAutoAlign } from "./follow.ts";
import { listOf, number, optional, said } from "./options.ts";
import { note, table } from "./output.ts";

interface CreateOptions {
  target: string;
  benchmark?: string;
  method?: string;
  representations?: string;
  sequencing?: string;
  maxHours?: string;
  config?: string;
  notify: boolean;
  detach?: boolean;
}

export function register(program: Command): void {
  const auto = program
    .command("auto-align")
    .description("improve an alignment until it reaches a target score: create, list, show, watch, resume, stop");

  const create = auto
    .command("create")
    .description("request a target score, and follow the work on it")
    .argument("<alignment>", "the project's id, alignment_…")
    .requiredOption("--target <score>", "from 0 to 99")
    .option("--benchmark <id>", "id of the benchmark (default: the project's)")
    .option("--max-hours <n>", "maximum hours on the device (default: no limit)")
    .option("--method <family>", "which kinds of phases may be used (default: auto)")
    .option("--representations <kind>", "a kind of edit, none, or auto")
    .option("--sequencing <phases>", "the order of phases, separated by commas (default: chosen automatically)")
    .option("--config <file>", "JSON file that sets parts of the run; it is stored byte for byte")
    .option("--no-notify", "send no webhooks when phases change")
    .option("--detach", "do not wait until it ends");
  asks<CreateOptions>(create, async (client, options, alignmentId) => {
    const body = said({
      target_score: number("--target", options.target),
      benchmark_id: options.benchmark,
      max_compute_hours: optional(number, "--max-hours", options.maxHours),
      method: options.method,
      representations: options.representations,
      sequencing: options.sequencing === undefined ? undefined : listOf(options.sequencing),
      notify_on_phase_transition: options.notify ? undefined : false,
    });
    const config = options.config === undefined ? undefined : await readConfiguration(options.config);
    const accepted = await client.api["alignments.auto_align"]({
      params: { alignment_id: alignmentId },
      // The configuration is sent as written, because parsing and serialising it again could change its numbers.
      ...(config === undefined ? { body } : { json: withField(body, "config", config) }),
    });
    const text = `${accepted.auto_align_id} is ${accepted.status}: ${accepted.message}`;
    if (options.detach) return { json: accepted, text };
    note(text);
    return watch(client, alignmentId, accepted.auto_align_id);
  });

  const list = auto
    .command("ls")
    .description("list a project's latest auto-aligns, newest first")
    .argument("<alignment>", "the project's id, alignment_…");
  asks(list, async (client, _, id) => {
    const { auto_align = [] } = await client.api["alignments.status"]({ params: { alignment_id: id } });
    const rows = auto_align.map((one) => [
      one.auto_align_id,
      one.phase === null ? one.status : `${one.status}, ${one.phase}`,
      String(one.target_score),
      one.dev === null ? "" : one.dev.score.toFixed(1),
      one.hours.toFixed(2),
      String(one.phases),
      one.model_id ?? "",
      one.created_date,
    ]);
    const head = ["id", "status", "target", "dev score", "hours", "phases", "model", "created"];
    return { json: { auto_align }, text: table([head, ...rows]) };
  });

  const show = withIds(
    auto.command("show").description("show the status of an auto-align, and why each phase was chosen"),
  );
  asks(show, async (client, _, ...ids) => {
    const record = await client.api["alignments.auto_align_record"]({ params: paramsOf(ids) });
    return { json: record, text: recordText(record) };
  });

  const follow = withIds(auto.command("watch").description("follow an auto-align until it ends or pauses"));
  asks(follow, (client, _, alignmentId, id) => watch(client, alignmentId, id));

  const resume = withIds(auto.command("resume").description("continue an auto-align that is PAUSED"));
  asks(resume, async (client, _, ...ids) => {
    const reply = await client.api["alignments.auto_align_resume"]({ params: paramsOf(ids) });
    return { json: reply, text: `${reply.auto_align_id} is ${reply.status}: ${reply.message}` };
  });

  const stop = withIds(
    auto
      .command("stop")
      .description("stop an auto-align: no further phase starts, and the best checkpoint so far becomes a model"),
  );
  asks(stop, async (client, _, ...ids) => {
    const reply = await client.api["alignments.auto_align_stop"]({ params: paramsOf(ids) });
    return { json: reply, text: `${reply.auto_align_id} is ${reply.status}: ${reply.message}` };
  });
}

const withIds = (command: Command): Command =>
  command
    .argument("<alignment>", "the project's id, alignment_…")
    .argument("<id>", "the auto-align's id, auto_align_…");

const paramsOf = ([alignment_id = "", auto_align_id = ""]: string[]) => ({ alignment_id, auto_align_id });

async function readConfiguration(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((error) => {
    throw new Failure("usage", `${path} cannot be read: ${(error as Error).message}`);
  });
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Failure("usage", `${path} is not valid JSON: ${(error as Error).message}`);
  }
  return text.trim();
}

/** Serialises `body` with one more field, `name`, whose value is `json`. `body` must not be empty. */
const withField = (body: object, name: string, json: string): string =>
  `${JSON.stringify(body).slice(0, -1)},${JSON.stringify(name)}:${json}}`;

async function watch(client: Client, alignment_id: string, auto_align_id: string) {
  const record = await watched(`plumbline auto-align watch ${alignment_id} ${auto_align_id}`, (progress, signal) =>
    followAutoAlign(client, { alignment_id, auto_align_id }, progress, signal),
  );
  // A stopped one may have a model, so its record is printed.
  const exit: Exit = record.status === "STOPPED" ? "stopped" : "ok";
  return { json: record, text: recordText(record), exit };
}

function recordText(record: AutoAlignRecord): string {
  const { dev, hours } = record;
  const lines: [string, string | null][] = [
    ["id", record.auto_align_id],
    ["status", record.phase === null ? record.status : `${record.status}, ${record.phase}`],
    ["target", String(record.target_score)],
    [
      "dev score",
      dev && `${dev.score.toFixed(1)} (${dev.low.toFixed(1)} to ${dev.high.toFixed(1)}) of ${dev.n} questions`,
    ],
    ["hours", `${hours.spent.toFixed(2)}${hours.left === null ? "" : `, ${hours.left.toFixed(2)} left`}`],
    ...record.cards.map(({ step, next, because }): [string, string] => [
      `decision ${step}`,
      `${next.phase?.arm ?? next.kind}: ${because}`,
    ]),
    ...record.looks.map((look): [string, string] => [
      "sealed",
      `${look.score.toFixed(1)} (lower bound ${look.low.toFixed(1)}) on ${look.n} questions`,
    ]),
    ...record.help.map((help): [string, string] => ["would help", help]),
    ["model", record.model_id],
    ["evaluation", record.evaluation_id],
    ["error", record.error && `${record.error.message}. ${record.error.hint}`],
  ];
  return table(lines.filter((line): line is [string, string] => typeof line[1] === "string"));
}
