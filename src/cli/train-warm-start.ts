// `plumbline train-warm-start`: trains config/warm-start/adapter.gguf, from which alignments of the starter model start. It is itself an
// alignment: its documents are the passages in config/writer/material that have further wordings, and its teacher's questions are those
// written about them. Some wordings are kept out of training and are the dev questions. For developers of plumbline; takes hours on two cores. If it is
// interrupted, the same command continues it.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { installation, readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { makeFolder, sha256OfFile, writeJsonDurably } from "../base/files.ts";
import { createLog, type Level } from "../base/log.ts";
import type { Recipe } from "../contract/recipe.ts";
import { makeRunFolder, writeRequest } from "../domain/alignments/snapshot.ts";
import { shrinkAdapter } from "../engine/gguf/adapter-file.ts";
import { readGgufHeader } from "../engine/gguf/header.ts";
import { createControl } from "../run/control.ts";
import { shapeOf } from "../run/folder/adapter-shape.ts";
import { readRequest } from "../run/folder/request.ts";
import { askTeacher } from "../run/folder/teacher.ts";
import type { Report } from "../run/report.ts";
import { runAlignment } from "../run/run.ts";
import { type WarmStartCard, warmStartFolder } from "../run/warm-start/installed.ts";
import { passagesOf } from "../study/passages.ts";
import { type Answer, answers, note } from "./output.ts";
import { partsOf } from "./run.ts";
import { documentOf, isHeldOut, readMaterial } from "./train-writer.ts";
import { keptOut, teacherOf } from "./warm-start-material.ts";

export function register(program: Command): void {
  answers<Options>(
    program
      .command("train-warm-start", { hidden: true })
      .description("train the adapter from which alignments of the starter model start")
      .option("--languages <list>", "languages of the material (ISO 639-1)", "en,de,es,fr")
      .option("--dev <number>", "facts of which one wording is not trained but asked", "200")
      .requiredOption("--work <folder>", "folder of the run, which continues an earlier one")
      .option("--out <folder>", "folder for the result", warmStartFolder),
    trainWarmStart,
  );
}

interface Options {
  languages: string;
  dev: string;
  work: string;
  out: string;
}

const name = "warm-start";

async function trainWarmStart(options: Options): Promise<Answer> {
  const config = readConfig();
  const log = createLog(config.logLevel as Level);
  const languages = options.languages.split(",");
  const material = (await readMaterial()).filter(
    (one) =>
      languages.includes(one.language) &&
      one.asks.some(({ further = [] }) => further.length > 0) &&
      // What the writer is measured on is never trained.
      !isHeldOut(one),
  );
  const documents = material.map(documentOf);
  const facts = material.reduce((count, { asks }) => count + asks.length, 0);
  const { kept, items } = keptOut(material, Number(options.dev));

  const basePath = config.starterModel;
  const base = {
    id: basename(basePath, ".gguf"),
    sha256: await sha256OfFile(basePath),
    architecture: String(readGgufHeader(basePath).values.get("general.architecture")),
  };
  const standard = JSON.parse(await readFile(join(installation, "config/recipes/standard.json"), "utf8")) as Recipe;
  const recipe: Recipe = { ...standard, adapter: { ...standard.adapter, warm_start: false } };
  const folder = join(options.work, name);
  if (!existsSync(folder)) {
    await makeFolder(options.work);
    await makeRunFolder(options.work, {
      ...{ alignmentId: name, recipeName: name, recipe, base, documents, organisation: null },
      dev: { benchmarkId: name, items, questions: items.map(({ instruction }) => instruction) },
      teacher: { model: "material", provider: null },
    });
  }
  const passages = passagesOf(documents);
  await askTeacher(folder, passages, { say: teacherOf(passages, kept), together: 1 });
  await writeRequest(folder, {
    ...{ fence: 1, basePath },
    budget: { memory_bytes: config.memory, threads: config.threads },
    versions: { plumbline: name, trainer: name },
  });
  note(`training; its progress stands in ${join(folder, "events.jsonl")}`);
  const request = await readRequest(folder);
  const result = await runAlignment(
    folder,
    await partsOf(
      request,
      config,
      log,
      createControl(() => {}),
    ),
  );
  if (result.outcome !== "completed") throw new Failure("run_failed", result.error?.message);

  const {
    learned,
    training,
    base: opened,
  } = JSON.parse(await readFile(join(folder, "artefact/report.json"), "utf8")) as Report;
  await makeFolder(options.out);
  const file = join(options.out, "adapter.gguf");
  await shrinkAdapter(join(folder, "artefact/adapter.gguf"), file, "Q8_0");
  const shape = shapeOf(recipe, opened.layers);
  const card: WarmStartCard = {
    format: 1,
    base: { name: basename(basePath), sha256: base.sha256 },
    adapter: { ...shape, alpha: shape.alpha * training.chosen_scale, sha256: await sha256OfFile(file) },
    languages: [...new Set(material.map(({ language }) => language))].sort(),
    material: { passages: material.length, facts, held_out_questions: items.length },
    held_out: { base: learned.dev!.base.score, adapter: learned.dev!.aligned.score },
    steps: training.steps,
  };
  await writeJsonDurably(join(options.out, "card.json"), card);
  return { json: card, text: `${file}: ${JSON.stringify(card)}` };
}
