// plumbline evaluate: evaluates models on benchmarks, through the API.
import type { Command } from "commander";
import { asks, watched } from "./asks.ts";
import type { Client, Replies } from "./client.ts";
import { followEvaluation } from "./follow.ts";
import { listOf, type Page, paged, pageOf, said } from "./options.ts";
import { table } from "./output.ts";

interface CreateOptions {
  name?: string;
  splits?: string;
  judge?: string;
  detach?: boolean;
}

interface Filters extends Page {
  status?: string;
  model?: string;
  benchmark?: string;
}

type Results = Replies["evaluations.results"];

export function register(program: Command): void {
  const evaluate = program
    .command("evaluate")
    .description("evaluations of models on benchmarks: create, list, show, watch, compare, stop, delete");

  const create = evaluate
    .command("create")
    .description("evaluate a base or aligned model, deployed or not, and follow the evaluation until it ends")
    .argument("<model>", "the model's id or name")
    .argument("<benchmark>", "the benchmark's id, benchmark_…")
    .option("--name <text>", "name of the evaluation")
    .option("--splits <names>", "dev, sealed, retention, separated by commas; each use of sealed is recorded")
    .option("--judge <model>", "the model that judges long answers (default: the model's base)")
    .option("--detach", "do not wait until it ends");
  asks<CreateOptions>(create, async (client, options, model_id, benchmark_id) => {
    const { name: evaluation_name, judge: judge_model_id } = options;
    const splits = options.splits === undefined ? undefined : listOf(options.splits);
    const body = said({ model_id, benchmark_id, evaluation_name, splits, judge_model_id });
    const record = await client.api["evaluations.create"]({ body });
    if (options.detach) return { json: record, text: `${record.evaluation_id} is ${record.status}` };
    return watch(client, record.evaluation_id);
  });

  const list = paged(evaluate.command("ls").description("list evaluations, newest first"))
    .option("--status <status>", "QUEUED, PROCESSING, READY or FAILED")
    .option("--model <id>", "only evaluations of this model")
    .option("--benchmark <id>", "only evaluations on this benchmark");
  asks<Filters>(list, async (client, options) => {
    const { status, model: model_id, benchmark: benchmark_id } = options;
    const reply = await client.api["evaluations.list"]({
      query: { status, model_id, benchmark_id, ...pageOf(options) },
    });
    const rows = reply.evaluations.map((one) => [
      one.evaluation_id,
      one.evaluation_name,
      one.status,
      `${one.n_samples_completed}/${one.n_samples}`,
      one.model_id,
      one.benchmark_id,
      one.created_at,
      one.error ?? one.waiting_for ?? "",
    ]);
    return {
      json: reply,
      text: table([["id", "name", "status", "items", "model", "benchmark", "created", "note"], ...rows]),
    };
  });

  const show = withId(
    evaluate.command("show").description("show the scores of an evaluation that is READY, with their intervals"),
  );
  asks(show, async (client, _, id) => {
    const results = await client.api["evaluations.results"]({ params: { evaluation_id: id } });
    return { json: results, text: resultsText(results) };
  });

  const follow = withId(evaluate.command("watch").description("follow an evaluation until it ends"));
  asks(follow, (client, _, id) => watch(client, id));

  const compare = evaluate
    .command("compare")
    .description("compare two models item by item on a benchmark, by their latest evaluations")
    .argument("<model>", "the model to compare")
    .argument("<other>", "the model to compare it with")
    .argument("<benchmark>", "the benchmark's id, benchmark_…");
  asks(compare, async (client, _, model_id, compared_with, benchmark_id) => {
    const reply = await client.api["evaluations.compare"]({ body: { model_id, compared_with, benchmark_id } });
    const rows = Object.entries(reply.splits).map(([split, one]) => [
      split,
      String(one.n),
      String(one.gained),
      String(one.lost),
      differenceText(one),
      one.p_value.toPrecision(2),
    ]);
    return { json: reply, text: table([["split", "items", "gained", "lost", "points", "p"], ...rows]) };
  });

  const stop = withId(evaluate.command("stop").description("stop one of your evaluations; its answers are not used"));
  asks(stop, async (client, _, id) => {
    const record = await client.api["evaluations.stop"]({ params: { evaluation_id: id } });
    return { json: record, text: `${id} is ${record.status}` };
  });

  const remove = withId(evaluate.command("rm").description("delete an evaluation with its answers"));
  asks(remove, async (client, _, id) => {
    const reply = await client.api["evaluations.delete"]({ params: { evaluation_id: id } });
    return { json: reply, text: `${id}: ${reply.message}` };
  });
}

const withId = (command: Command): Command => command.argument("<id>", "the evaluation's id, evaluation_…");

async function watch(client: Client, id: string) {
  const results = await watched(`plumbline evaluate watch ${id}`, (progress, signal) =>
    followEvaluation(client, id, progress, signal),
  );
  return { json: results, text: resultsText(results) };
}

const differenceText = ({ difference, low, high }: { difference: number; low?: number; high?: number }): string =>
  low === undefined || high === undefined
    ? difference.toFixed(1)
    : `${difference.toFixed(1)} (${low.toFixed(1)} to ${high.toFixed(1)})`;

function resultsText(results: Results): string {
  const rows = Object.entries(results.splits).map(([split, one]) => [
    split,
    one.score.toFixed(1),
    `${one.low.toFixed(1)} to ${one.high.toFixed(1)}`,
    String(one.n),
  ]);
  const { paired } = results;
  return [
    `${results.evaluation_id}: ${results.model_id} on ${results.benchmark_id}`,
    ...(results.headline === null ? [] : [results.headline]),
    table([["split", "score", "95 %", "items"], ...rows]),
    ...(paired === null
      ? []
      : [
          `Compared with ${paired.compared_with}: ${differenceText(paired)} points; ${paired.gained} items gained, ${paired.lost} lost, p = ${paired.p_value.toPrecision(2)}`,
        ]),
    `A true difference of ${results.minimum_detectable.toFixed(1)} points would have been detected in 80 % of all cases.`,
  ].join("\n");
}
