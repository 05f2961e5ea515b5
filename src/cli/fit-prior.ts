// `plumbline fit-prior`: makes config/confidence/<family>-prior.json. It aligns a base model of the family (for smollm2,
// the starter model) to made-up documents, and asks it questions that the documents answer and questions that they do
// not. On the answers it fits the calibrator that is used if a benchmark is too small for a calibrator of its own. For
// developers of plumbline; takes some minutes.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import type { Command } from "commander";
import { installation, readConfig } from "../base/config.ts";
import { makeFolder, writeJsonDurably } from "../base/files.ts";
import { fitModel, type LabelledAnswer, type Prior } from "../confidence/calibration.ts";
import { answerFeatures, featureNames } from "../confidence/features.ts";
import type { Recipe } from "../contract/recipe.ts";
import { makeRunFolder } from "../domain/alignments/snapshot.ts";
import { grade } from "../domain/evaluations/grade.ts";
import { formatChat } from "../engine/format/chat-format.ts";
import { alignHere, baseIn } from "./align-here.ts";
import { type Answer, answers, note } from "./output.ts";
import { type PriorQuestion, priorMaterial } from "./prior-material.ts";

/** Number of beers, and of people, in the made-up brewery; their questions give enough labels for all features. */
const size = 14;
const answerTokens = 48;

/** Stands in for the prior that is being made, because an alignment without a benchmark needs one. */
const placeholder: Prior = {
  format: 1,
  family: "none",
  about: "Gives every answer a score of 50",
  model: { features: [], means: [], scales: [], weights: [], bias: 0, platt: { a: 1, b: 0 } },
  statistics: { n: 0, accuracy: null, auroc: null, brier: null },
};

export function register(program: Command): void {
  answers<FitPrior>(
    program
      .command("fit-prior", { hidden: true })
      .description("fit the prior calibrator of a family of base models")
      .option("--base <file>", "GGUF file of the family (default: the starter model)")
      .option(
        "--family <name>",
        "the beginning of general.basename in its header, in lower case and without spaces",
        "smollm2",
      )
      .option("--seed <number>", "seed of the material", "20")
      .option("--recipe <name>", "preset of the alignment", "quick"),
    fitPrior,
  );
}

interface FitPrior {
  base?: string;
  family: string;
  seed: string;
  recipe: string;
}

async function fitPrior({ base, family, seed: seedText, recipe: recipeName }: FitPrior): Promise<Answer> {
  const seed = Number(seedText);
  const basePath = base === undefined ? readConfig().starterModel : resolve(base);
  const runs = await mkdtemp(join(tmpdir(), "fit-prior-"));
  try {
    const { labelled, answered } = await labelAnswers(runs, basePath, seed, recipeName);
    const { model, statistics } = fitModel(labelled, featureNames);
    const prior: Prior = {
      format: 1,
      family,
      about:
        `${basename(basePath, ".gguf")} aligned to made-up documents (seed ${seed}, recipe ${recipeName}); ${answered} questions that they ` +
        `answer and ${labelled.length - answered} that they do not, the latter counted as wrong`,
      model,
      statistics,
    };
    const path = join(installation, "config/confidence", `${family}-prior.json`);
    await makeFolder(join(installation, "config/confidence"));
    await writeJsonDurably(path, prior);
    return { json: prior, text: `${path}: ${JSON.stringify(statistics)}` };
  } finally {
    await rm(runs, { recursive: true, force: true });
  }
}

async function labelAnswers(
  runs: string,
  path: string,
  seed: number,
  recipeName: string,
): Promise<{ labelled: LabelledAnswer[]; answered: number }> {
  const { documents, questions } = priorMaterial(seed, size);
  const recipe = JSON.parse(await readFile(join(installation, `config/recipes/${recipeName}.json`), "utf8")) as Recipe;
  const base = await baseIn(path, "base");
  await makeRunFolder(runs, {
    alignmentId: "fit-prior",
    recipeName,
    recipe,
    base,
    documents,
    dev: null,
    organisation: null,
    teacher: null,
  });
  const folder = join(runs, "fit-prior");
  note("aligning");
  const parts = await alignHere(
    folder,
    { by: "fit-prior", fence: 1, basePath: path },
    { prior: { prior: placeholder, isOwnFamily: true } },
  );

  note(`asking ${questions.length} questions`);
  const generator = await parts.openGenerator();
  const labelled: LabelledAnswer[] = [];
  try {
    const model = {
      baseId: base.id,
      basePath: path,
      adapter: { id: "fit-prior", path: join(folder, "artefact/adapter.gguf") },
    };
    await generator.pool.lease(model, "work");
    const tokenizer = generator.tokenizer(base.id);
    await generator.evaluate({
      model,
      prompts: questions.map(({ question }) => formatChat(tokenizer, [{ role: "user", content: question }])),
      maxTokens: answerTokens,
      signal: parts.control.signal,
      startAt: 0,
      onItem: (index, answer) => {
        if (answer.steps.length === 0) return;
        const correct = isRight(answer.text, questions[index]!);
        labelled.push({ features: answerFeatures(answer.steps, answer.finishReason), correct });
      },
    });
  } finally {
    await generator.dispose();
  }
  return { labelled, answered: questions.filter(({ gold }) => gold !== null).length };
}

const isRight = (answer: string, { gold }: PriorQuestion): boolean =>
  gold !== null && grade(answer, { response: gold, aliases: [], competitors: [] }).correct;
