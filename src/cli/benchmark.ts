// plumbline benchmark: manages the questions that success is measured by, through the API.
import type { Command } from "commander";
import { asks, watched } from "./asks.ts";
import type { Client, Replies } from "./client.ts";
import { fileToSend } from "./document.ts";
import { followBenchmark } from "./follow.ts";
import { listOf, optional, type Page, paged, pageOf, said, whole } from "./options.ts";
import { table } from "./output.ts";

type BenchmarkRecord = Replies["benchmarks.get"];

interface CreateOptions {
  documents: string;
  name?: string;
  samples?: string;
  model?: string;
  generator?: string;
  provider?: string;
  seed?: string;
  detach?: boolean;
}

export function register(program: Command): void {
  const benchmark = program
    .command("benchmark")
    .description("benchmarks: add, create, list, show, watch, stop, strike items, delete");

  const add = benchmark
    .command("add")
    .description("upload a benchmark: rows of instruction and response, with the optional fields listed in /docs")
    .argument("<path>", "JSON Lines or CSV");
  asks(add, async (client, _, path) => {
    const record = await client.api["benchmarks.upload"]({ files: [await fileToSend(path)] });
    return { json: record, text: recordText(record) };
  });

  const create = benchmark
    .command("create")
    .description("create a benchmark from documents: a model writes the questions, a second pass checks each one")
    .requiredOption("--documents <ids>", "ids of the documents, separated by commas")
    .option("--name <text>", "name of the benchmark")
    .option("--samples <n>", "number of items (default: 100)")
    .option("--model <id>", "the model that checks the items; may be omitted if only one base model is installed")
    .option("--generator <model>", "the model that writes the questions (default: fixed templates)")
    .option("--provider <name>", "the configured upstream that serves the generator")
    .option("--seed <n>", "seed of the random choices (default: 1)")
    .option("--detach", "do not wait until it ends");
  asks<CreateOptions>(create, async (client, options) => {
    const body = said({
      document_ids: listOf(options.documents),
      benchmark_name: options.name,
      n_samples: optional(whole, "--samples", options.samples),
      model: options.model,
      generator_model: options.generator,
      generator_provider: options.provider,
      seed: optional(whole, "--seed", options.seed),
    });
    const record = await client.api["benchmarks.create"]({ body });
    if (options.detach) return { json: record, text: `${record.benchmark_id} is being created` };
    return watch(client, record.benchmark_id);
  });

  const list = paged(benchmark.command("ls").description("list benchmarks, newest first"));
  asks<Page>(list, async (client, options) => {
    const reply = await client.api["benchmarks.list"]({ query: pageOf(options) });
    return { json: reply, text: recordsTable(reply.benchmarks) };
  });

  const show = withId(benchmark.command("show").description("show a benchmark's status, and how it was made"));
  asks(show, async (client, _, id) => {
    const record = await client.api["benchmarks.get"]({ params: { benchmark_id: id } });
    return { json: record, text: recordText(record) };
  });

  const data = withId(benchmark.command("data").description("show a benchmark's items, with their answers"));
  asks(data, async (client, _, id) => {
    const reply = await client.api["benchmarks.data"]({ params: { benchmark_id: id } });
    const rows = reply.samples.map((one) => [
      String(one.sample_num),
      one.split,
      one.type,
      one.instruction,
      one.response,
    ]);
    return { json: reply, text: table([["item", "split", "type", "instruction", "response"], ...rows]) };
  });

  const follow = withId(benchmark.command("watch").description("follow the creation of a benchmark until it ends"));
  asks(follow, (client, _, id) => watch(client, id));

  const stop = withId(benchmark.command("stop").description("stop creating a benchmark; nothing of it is kept"));
  asks(stop, async (client, _, id) => {
    const record = await client.api["benchmarks.stop"]({ params: { benchmark_id: id } });
    return { json: record, text: `${id} is ${record.status}` };
  });

  const strike = withId(
    benchmark.command("strike").description("create a new version without some items; the old version is kept"),
  )
    .requiredOption("--items <numbers>", "numbers of the items, separated by commas")
    .requiredOption("--reason <text>", "the reason; stored with the version");
  asks<{ items: string; reason: string }>(strike, async (client, { items, reason }, id) => {
    const body = { items: listOf(items).map((text) => whole("--items", text)), reason };
    const record = await client.api["benchmarks.strike"]({ params: { benchmark_id: id }, body });
    return { json: record, text: recordText(record) };
  });

  const remove = withId(benchmark.command("rm").description("delete a benchmark permanently")).option(
    "--evaluations",
    "also delete the finished evaluations on it",
  );
  asks<{ evaluations?: boolean }>(remove, async (client, { evaluations }, id) => {
    const reply = await client.api["benchmarks.delete"]({ params: { benchmark_id: id }, query: { evaluations } });
    return { json: reply, text: `${id}: ${reply.message}` };
  });
}

const withId = (command: Command): Command => command.argument("<id>", "the benchmark's id, benchmark_…");

async function watch(client: Client, id: string) {
  const record = await watched(`plumbline benchmark watch ${id}`, (progress, signal) =>
    followBenchmark(client, id, progress, signal),
  );
  return { json: record, text: recordText(record) };
}

function recordsTable(records: readonly BenchmarkRecord[]): string {
  const rows = records.map((one) => [
    one.benchmark_id,
    one.name,
    one.status,
    String(one.n_samples),
    `${one.splits.dev}/${one.splits.sealed}/${one.splits.retention}`,
    String(one.version),
    one.created_at,
  ]);
  return table([["id", "name", "status", "items", "dev/sealed/retention", "version", "created"], ...rows]);
}

function recordText(record: BenchmarkRecord): string {
  return [
    recordsTable([record]),
    ...(record.generation?.gates ?? []).map((gate) => `gate     ${gate.gate}: ${gate.out} of ${gate.in} passed`),
    ...record.warnings.map(({ message }) => `warning  ${message}`),
    ...(record.error ? [`error    ${record.error}`] : []),
  ].join("\n");
}
