// `plumbline train-warm-start`: trains config/warm-start/adapter.gguf, from which alignments of the starter model start, or that of one
// language, config/warm-start/<ISO 639-1>/adapter.gguf. It is itself an alignment: its documents are the passages in config/writer/material
// that have further wordings, and its teacher's questions are those written about them. Some wordings are kept out of training and are the
// dev questions. For developers of plumbline; takes hours on two cores. If it is interrupted, the same command continues it.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { installation, readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import {
  makeFolder,
  renameDurably,
  sha256,
  sha256OfFile,
  temporaryName,
  writeFileDurably,
  writeJsonDurably,
} from "../base/files.ts";
import { tryLock } from "../base/lock.ts";
import type { Recipe } from "../contract/recipe.ts";
import type { SnapshotDocument, SnapshotItem } from "../contract/run-folder.ts";
import { makeRunFolder } from "../domain/alignments/snapshot.ts";
import { shrinkAdapter } from "../engine/gguf/adapter-file.ts";
import { shapeOf } from "../run/folder/adapter-shape.ts";
import { readRequest } from "../run/folder/request.ts";
import { askTeacher } from "../run/folder/teacher.ts";
import type { Report } from "../run/report.ts";
import { installedWarmStart, type WarmStartCard, warmStartFolder } from "../run/warm-start/installed.ts";
import { passagesOf } from "../study/passages.ts";
import { alignHere, baseIn } from "./align-here.ts";
import { type Answer, answers, note } from "./output.ts";
import { documentOf, isHeldOut, type MaterialPassage, readMaterial } from "./train-writer.ts";
import { keptOut, teacherOf } from "./warm-start-material.ts";

export function register(program: Command): void {
  answers<Options>(
    program
      .command("train-warm-start", { hidden: true })
      .description("train the adapter from which alignments of the starter model start")
      .option("--languages <list>", "languages of the material (ISO 639-1)", "en,de,es,fr")
      .option("--from-general", "start from the installed general one, as those of one language do", false)
      .option("--dev <number>", "facts of which one wording is not trained but asked", "200")
      .requiredOption("--work <folder>", "folder of the run, which continues an earlier one")
      .option("--out <folder>", "folder for the result", warmStartFolder),
    trainWarmStart,
  );
}

interface Options {
  languages: string;
  fromGeneral: boolean;
  dev: string;
  work: string;
  out: string;
}

const name = "warm-start";

async function trainWarmStart(options: Options): Promise<Answer> {
  const asked = Number(options.dev);
  if (!Number.isInteger(asked) || asked < 1)
    throw new Failure("bad_request", "--dev must be a whole number of at least 1");
  const languages = options.languages.split(",");
  const material = (await readMaterial()).filter(
    (one) =>
      languages.includes(one.language) &&
      one.asks.some(({ further = [] }) => further.length > 0) &&
      // What the writer is measured on is never trained.
      !isHeldOut(one),
  );
  const { kept, items } = keptOut(material, asked);
  const basePath = readConfig().starterModel;
  const folder = join(options.work, name);
  const documents = material.map(documentOf);
  const general = options.fromGeneral ? installedWarmStart(null) : null;
  if (options.fromGeneral && general === null)
    throw new Failure("bad_request", `--from-general: no adapter is installed in ${warmStartFolder}`);
  const identity = sha256(JSON.stringify({ kept, items, ...(general !== null && { from: general.sha256 }) }));
  await order(options.work, { basePath, documents, items, identity });

  const lock = tryLock(join(folder, "lock"));
  if (lock === null) throw new Failure("run_locked");
  try {
    const passages = passagesOf(documents);
    await askTeacher(folder, passages, { say: teacherOf(passages, kept), together: 1 });
    note(`training; its progress is in ${join(folder, "events.jsonl")}`);
    // A later start has a larger fence, so that it tries again what failed.
    await alignHere(folder, { by: name, fence: Math.floor(Date.now() / 1000), basePath }, { warmStart: () => general });
    const card = await ship(folder, options.out, { material, basePath });
    return { json: card, text: `${join(options.out, "adapter.gguf")}: ${JSON.stringify(card)}` };
  } finally {
    lock.release();
  }
}

interface Ordered {
  basePath: string;
  documents: SnapshotDocument[];
  items: SnapshotItem[];
  /** Hash of the material, with what is kept out of training and what training starts from. */
  identity: string;
}

/** Makes the folder of the run, unless an earlier start made it. Throws bad_request if that was for other material. */
async function order(work: string, { basePath, documents, items, identity }: Ordered): Promise<void> {
  const kept = join(work, `${name}.sha256`);
  if (existsSync(join(work, name))) {
    if ((await readFile(kept, "utf8")) !== identity)
      throw new Failure("bad_request", `${work} was made of other material or options: name another --work`);
    return;
  }
  const standard = JSON.parse(await readFile(join(installation, "config/recipes/standard.json"), "utf8")) as Recipe;
  await makeFolder(work);
  await writeFileDurably(kept, identity);
  await makeRunFolder(work, {
    ...{ alignmentId: name, recipeName: name, documents, organisation: null },
    recipe: standard,
    base: await baseIn(basePath, basename(basePath, ".gguf")),
    dev: { benchmarkId: name, items, questions: items.map(({ instruction }) => instruction) },
    teacher: { model: "material", provider: null },
  });
}

/** Shrinks the adapter that the run made into the folder `out`, with its card. Throws run_failed if it harms the base beyond the limits. */
async function ship(
  folder: string,
  out: string,
  { material, basePath }: { material: readonly MaterialPassage[]; basePath: string },
): Promise<WarmStartCard> {
  const { recipe } = await readRequest(folder);
  const { training, learned, guards, base } = JSON.parse(
    await readFile(join(folder, "artefact/report.json"), "utf8"),
  ) as Report;
  const chosen = training.candidates.find(
    ({ step, scale }) => step === training.chosen_step && scale === training.chosen_scale,
  );
  if (guards === null || chosen === undefined || chosen.penalty > 0)
    throw new Failure(
      "run_failed",
      "The adapter harms the base more than the recipe allows, so nothing can start from it",
    );
  await makeFolder(out);
  const file = join(out, "adapter.gguf");
  const temporary = temporaryName(file);
  await shrinkAdapter(join(folder, "artefact/adapter.gguf"), temporary, "Q8_0");
  const shape = shapeOf(recipe, base.layers);
  const card: WarmStartCard = {
    format: 1,
    base: { name: basename(basePath), sha256: base.sha256 },
    adapter: { ...shape, alpha: shape.alpha * training.chosen_scale, sha256: await sha256OfFile(temporary) },
    languages: [...new Set(material.map(({ language }) => language))].sort(),
    material: { passages: material.length, facts: material.reduce((count, { asks }) => count + asks.length, 0) },
    held_out: { n: learned.dev!.base.n, base: learned.dev!.base.score, adapter: learned.dev!.aligned.score },
    drift: { kl: guards.drift.kl, perplexity_rise: guards.drift.perplexity_rise },
    step: training.chosen_step,
  };
  await renameDurably(temporary, file);
  await writeJsonDurably(join(out, "card.json"), card);
  return card;
}
