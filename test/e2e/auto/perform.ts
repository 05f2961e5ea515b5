// An auto-align as the appliance carries it out, over a folder of its own: the run, the looks that it asks for, and at its end the sealed
// questions asked of what it made by the engine that serves. Whatever is finished is kept: a second start of the same commit goes on.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder, sha256, sha256OfFile } from "../../../src/base/files.ts";
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import type { Recipe } from "../../../src/contract/recipe.ts";
import type { RunRequest, RunResult } from "../../../src/contract/run-folder.ts";
import { thirdsOf } from "../../../src/domain/alignments/auto/thirds.ts";
import { makeRunFolder, writeRequest } from "../../../src/domain/alignments/snapshot.ts";
import { declines } from "../../../src/domain/evaluations/declines.ts";
import { competition, grade } from "../../../src/domain/evaluations/grade.ts";
import type { ModelRef } from "../../../src/engine/generator.ts";
import { readScores, writeScores } from "../../../src/run/folder/looks.ts";
import { rewardScore } from "../../../src/run/rewards/metric.ts";
import { commitNow } from "../../helpers/commit.ts";
import { answers, baseModel, eventsOf, starterModel, work } from "../prove/experiment.ts";
import type { Task } from "./tasks.ts";

export interface Carried {
  told: NonNullable<RunResult["auto_align"]>;
  /** Cards of its decisions, in order. */
  because: string[];
  /** Of the sealed questions. */
  given: string[];
}

/** `request` restricts the task's own, as `method` does. */
export async function carried(
  folder: string,
  task: Task,
  { request, recipe, threads }: { request: Partial<AutoAlignRequest>; recipe: Recipe; threads: number },
): Promise<Carried> {
  await makeFolder(folder);
  const run = join(folder, "run");
  const { items } = task;
  const competitors = competition(items);
  const numbered = items.map((item, index) => ({ ...item, sample_num: index + 1, competitors: competitors(index) }));
  const sealed = numbered.filter(({ split }) => split === "sealed");
  const thirds = thirdsOf(sealed)!;
  const reward = rewardScore(task.request.config, declines);
  const kept = join(folder, "run.sha256");
  const identity = sha256(JSON.stringify({ task, request, recipe, commit: commitNow() }));
  if (!existsSync(join(run, "order.json"))) {
    writeFileSync(kept, identity);
    await makeRunFolder(folder, {
      alignmentId: "run",
      recipeName: "standard",
      recipe,
      base: { id: "smollm2-135m-instruct", sha256: await sha256OfFile(starterModel), architecture: "llama" },
      documents: task.documents,
      organisation: null,
      teacher: null,
      dev: {
        benchmarkId: "prove",
        questions: items.map(({ instruction }) => instruction),
        items: numbered.flatMap(({ split, ...item }) => (split === "dev" ? [item] : [])),
      },
      autoAlign: {
        auto_align_id: "auto_align_prove",
        request: { ...task.request, max_compute_hours: task.hours, ...request },
        past: [],
        thirds: thirds.map(({ length }) => length) as [number, number, number],
      },
    });
  }
  // Otherwise the outcome of older code, or of other options, would be told as this one's.
  if (!existsSync(kept) || readFileSync(kept, "utf8") !== identity)
    throw new Error(`${run} was made of another task, request, recipe or commit: name another --dir`);
  const scoreOf = (model: ModelRef, name: string, asked: typeof sealed): Promise<string[]> =>
    answers(join(folder, `${name}.json`), model, asked, threads);
  for (let fence = 1, stopping = false; ; fence++) {
    const { outcome, error, auto_align: told } = await worked(run, { fence, threads, stopping });
    if (told == null || outcome === "failed") throw new Error(`${task.name}: ${error?.code} ${error?.message}`);
    if (outcome === "look") {
      const began = performance.now();
      const third = thirds[told.look!]! as typeof sealed;
      const said = await scoreOf(await modelOf(run, told.checkpoint), `look-${told.look}`, third);
      const hours = (performance.now() - began) / 3_600_000;
      const scores = third.map((item, at) =>
        reward === null ? Number(grade(said[at]!, item).correct) : reward(said[at]!, item),
      );
      if ((await readScores(run, told.look!)) === null)
        await writeScores(run, told.look!, { scores, clusters: third.map(({ cluster }) => cluster), hours });
    } else if (outcome === "paused") stopping = true;
    else {
      const given = await scoreOf(await modelOf(run, told.checkpoint), "sealed", sealed);
      return { told, because: becauseOf(run), given };
    }
  }
}

/** A run is started anew after a look and to stop one; a result that is the end stays. */
async function worked(
  run: string,
  { fence, threads, stopping }: { fence: number; threads: number; stopping: boolean },
): Promise<RunResult> {
  const path = join(run, "result.json");
  if (existsSync(path)) {
    const result = JSON.parse(readFileSync(path, "utf8")) as RunResult;
    if (result.outcome === "completed") return result;
    await rm(path);
  }
  await writeRequest(run, {
    fence,
    basePath: starterModel,
    budget: { memory_bytes: 0, threads },
    versions: { plumbline: "prove", trainer: "prove" },
    autoAlign: { resumes: [], stopping } satisfies Partial<NonNullable<RunRequest["auto_align"]>>,
  });
  return work(run);
}

async function modelOf(run: string, checkpoint: string): Promise<ModelRef> {
  if (checkpoint === "base") return baseModel;
  const path = join(run, "plan", checkpoint, "adapter.gguf");
  return { ...baseModel, adapter: { id: await sha256OfFile(path), path } };
}

const becauseOf = (run: string): string[] =>
  eventsOf(run).flatMap(({ kind, message }) => (kind === "decision" && message !== undefined ? [message] : []));
