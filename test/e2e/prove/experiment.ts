// One experiment: documents and questions in, a run folder worked on by `plumbline run` as the appliance starts it, and at the end
// the sealed questions asked of base and artefact by the engine that serves. Whatever is finished is kept: a second start goes on.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readConfig } from "../../../src/base/config.ts";
import { makeFolder, sha256 as sha256Of, sha256OfFile, writeJsonDurably } from "../../../src/base/files.ts";
import { createLog } from "../../../src/base/log.ts";
import { startNode } from "../../../src/base/processes.ts";
import { type ClusteredScore, scoreOf } from "../../../src/base/statistics/intervals.ts";
import { compareScores } from "../../../src/base/statistics/paired.ts";
import type { Recipe } from "../../../src/contract/recipe.ts";
import type { RunEvent, RunResult, SnapshotDocument } from "../../../src/contract/run-folder.ts";
import { makeRunFolder, writeRequest } from "../../../src/domain/alignments/snapshot.ts";
import { competition, grade } from "../../../src/domain/evaluations/grade.ts";
import { formatChat } from "../../../src/engine/format/chat-format.ts";
import type { Generator, ModelRef } from "../../../src/engine/generator.ts";
import { createGpu } from "../../../src/engine/gguf/gpu.ts";
import { createGenerator } from "../../../src/engine/serve/generator.ts";
import type { Report } from "../../../src/run/report.ts";
import { installedWarmStart } from "../../../src/run/warm-start/installed.ts";
import { languagesOf, mainLanguage } from "../../../src/study/languages.ts";
import { passagesOf } from "../../../src/study/passages.ts";
import { installedWriter } from "../../../src/study/writers/installed.ts";
import { readJsonLines } from "../../helpers/json-lines.ts";
import { consultTeacher } from "./teacher.ts";

export const { starterModel } = readConfig({});
const tests = join(import.meta.dirname, "../..");
const cli = join(import.meta.dirname, "../../../src/cli/main.ts");
const quiet = createLog("error", () => {});
const slots = 8;
const answerTokens = 48;

export interface Item {
  instruction: string;
  response: string;
  aliases: string[];
  cluster: string;
  split: "dev" | "sealed";
}

export interface Experiment {
  name: string;
  documents: readonly SnapshotDocument[];
  items: readonly Item[];
  recipe: Recipe;
  /** The recorded teacher's file under test; null: none is asked. */
  teacher: string | null;
  /**
   * What an ablation puts in the place of the product's own: gates that let every question through, or a trainer that trains rows of
   * documents on what the base says with the passage in view.
   */
  hook?: "open-gates" | "soft-targets";
  threads: number;
}

export interface Outcome {
  name: string;
  facts: number;
  base: ClusteredScore;
  aligned: ClusteredScore;
  /** Of the paired comparison over the sealed questions, where those about one fact count together. */
  p: number;
  /** Of the run, between its events; what lay between two processes is left out. */
  minutes: number;
  /** On which the run ended. */
  date: string;
  report: Report;
}

interface Sealed {
  answers: string[];
}

export async function perform(folder: string, experiment: Experiment): Promise<Outcome> {
  const { name, items } = experiment;
  const run = join(folder, name);
  await makeFolder(folder);
  const sha256 = await sha256OfFile(starterModel);
  const competitors = competition(items);
  const identity = identityOf(experiment);
  const kept = join(folder, `${name}.sha256`);
  if (!existsSync(join(run, "order.json"))) {
    writeFileSync(kept, identity);
    await makeRunFolder(folder, {
      alignmentId: name,
      recipeName: "standard",
      recipe: experiment.recipe,
      base: { id: "smollm2-135m-instruct", sha256, architecture: "llama" },
      documents: experiment.documents,
      organisation: null,
      teacher: experiment.teacher === null ? null : { model: "recorded", provider: "recorded" },
      dev: {
        benchmarkId: "prove",
        questions: items.map(({ instruction }) => instruction),
        items: items.flatMap(({ instruction, response, aliases, cluster, split }, index) =>
          split === "dev"
            ? [{ sample_num: index + 1, instruction, response, aliases, cluster, competitors: competitors(index) }]
            : [],
        ),
      },
    });
  }
  if (!existsSync(kept) || readFileSync(kept, "utf8") !== identity)
    throw new Error(
      `${run} was made of another recipe, writer, warm start, documents, questions or teacher: name another --dir`,
    );
  const { teacher, documents, recipe } = experiment;
  if (teacher !== null) await consultTeacher(run, teacher, documents, { rounds: recipe.dataset.teacher_rounds });
  const request = {
    fence: 1,
    basePath: starterModel,
    budget: { memory_bytes: 0, threads: experiment.threads },
    versions: { plumbline: "prove", trainer: "prove" },
  };
  await writeRequest(run, request);
  const { hook } = experiment;
  const result = await work(
    run,
    hook === undefined ? [] : ["--import", join(import.meta.dirname, hook, "register.ts")],
  );
  if (result.outcome !== "completed") throw new Error(`${name}: ${result.error?.code} ${result.error?.message}`);

  const sealed = items.filter((item) => item.split === "sealed");
  const before = await answers(join(run, "sealed-base.json"), baseModel, sealed, experiment.threads);
  const after = await answers(join(run, "sealed-aligned.json"), await alignedModel(run), sealed, experiment.threads);
  const [was, is] = [sealedRight(items, before).map(Number), sealedRight(items, after).map(Number)];
  const clusters = sealed.map(({ cluster }) => cluster);
  const report = JSON.parse(readFileSync(join(run, "artefact/report.json"), "utf8")) as Report;
  if ((report.rows.teacher?.unasked ?? 0) > 0) throw new Error(`${name}: a part of the teacher's replies was not read`);
  return {
    name,
    facts: new Set(items.map((item) => item.cluster)).size,
    base: scoreOf(was, clusters),
    aligned: scoreOf(is, clusters),
    p: compareScores(is, was, clusters).p_value,
    minutes: secondsOf(run) / 60,
    date: eventsOf(run).at(-1)!.at.slice(0, 10),
    report,
  };
}

/** Whether each of the sealed questions was answered right. Answers to the other items compete, too. */
export function sealedRight(items: readonly Item[], given: readonly string[]): boolean[] {
  const competitors = competition(items);
  return items
    .flatMap((item, index) => (item.split === "sealed" ? [{ ...item, competitors: competitors(index) }] : []))
    .map((item, at) => grade(given[at]!, item).correct);
}

/** Hash of what an experiment is made of. A folder is not continued with anything else. */
const identityOf = ({ recipe, documents, items, teacher, hook }: Experiment): string =>
  sha256Of(
    JSON.stringify({
      recipe,
      documents,
      items,
      teacher: teacher === null ? null : sha256Of(readFileSync(join(tests, `${teacher}.jsonl`))),
      hook: hook ?? null,
      // A teacher writes in the place of the shipped writer.
      ...(teacher === null && recipe.dataset.synthetic?.enabled !== false && { writer: installedWriter()?.sha256 }),
      ...(recipe.adapter.warm_start !== false && {
        warmStart: installedWarmStart(mainLanguage(languagesOf(passagesOf(documents))))?.sha256,
      }),
    }),
  );

export const baseModel: ModelRef = { baseId: "base", basePath: starterModel };

/** What a finished run made, as it is served. */
async function alignedModel(run: string): Promise<ModelRef> {
  const path = join(run, "artefact/adapter.gguf");
  return { ...baseModel, adapter: { id: await sha256OfFile(path), path } };
}

/** The run of a folder, as the appliance starts it, unless its result is there. */
export async function work(folder: string, nodeFlags: string[] = []): Promise<RunResult> {
  const path = join(folder, "result.json");
  if (!existsSync(path)) {
    const child = startNode(cli, ["run", folder], { nodeFlags });
    child.stdout.resume();
    child.stderr.pipe(process.stderr);
    await child.ended;
  }
  if (!existsSync(path)) throw new Error(`${folder}: the run ended without a result`);
  return JSON.parse(readFileSync(path, "utf8")) as RunResult;
}

/** Longest pause between two events of one process. */
const longestPause = 240;

function secondsOf(folder: string): number {
  const times = eventsOf(folder).map(({ at }) => Date.parse(at) / 1000);
  return times.slice(1).reduce((sum, time, at) => sum + (time - times[at]! > longestPause ? 0 : time - times[at]!), 0);
}

export const eventsOf = (folder: string): RunEvent[] => readJsonLines(join(folder, "events.jsonl"));

/** Loads a model into a generator of its own for as long as it is used. */
export async function withModel<T>(
  model: ModelRef,
  threads: number,
  use: (generator: Generator) => Promise<T>,
): Promise<T> {
  const generator = createGenerator({
    config: { threads, slots, slotContext: 1024, queueLimit: 64 },
    log: quiet,
    gpu: createGpu({ memoryBytes: 4 * 2 ** 30, gpuBytes: 0, threads }),
  });
  try {
    await generator.pool.lease({ baseId: model.baseId, basePath: model.basePath }, "work");
    await generator.pool.lease(model, "work");
    return await use(generator);
  } finally {
    await generator.dispose();
  }
}

/** Greedy answers in the fixed shape of an evaluation, kept in a file. */
export async function answers(
  path: string,
  model: ModelRef,
  items: readonly Pick<Item, "instruction">[],
  threads: number,
): Promise<string[]> {
  if (existsSync(path)) return (JSON.parse(readFileSync(path, "utf8")) as Sealed).answers;
  const given: string[] = items.map(() => "");
  await withModel(model, threads, (generator) => {
    const tokenizer = generator.tokenizer(model.baseId);
    return generator.evaluate({
      model,
      prompts: items.map((item) => formatChat(tokenizer, [{ role: "user", content: item.instruction }])),
      maxTokens: answerTokens,
      signal: new AbortController().signal,
      onItem: (index, answer) => {
        given[index] = answer.text;
      },
      startAt: 0,
    });
  });
  await writeJsonDurably(path, { answers: given } satisfies Sealed);
  return given;
}
