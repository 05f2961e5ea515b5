// npm run prove [-- --only NAME,NAME --dir FOLDER --seed N --threads N]: what an alignment by the preset standard teaches the starter
// model and what it costs, measured from documents to sealed answers, and written to test/e2e/RESULTS.md. Start it again after an
// interruption, and it goes on where it was.
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type ClusteredScore, type Score, wilson } from "../../src/base/statistics/intervals.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import { readRecipes } from "../../src/domain/alignments/recipes.ts";
import { grade } from "../../src/domain/evaluations/grade.ts";
import { readSection, resultsOf, writeSection } from "../helpers/results.ts";
import { answers, baseModel, type Experiment, type Outcome, perform } from "./prove/experiment.ts";
import { examQuestions, sitExam } from "./prove/hamexam.ts";
import {
  coincidenceMaterial,
  companyMaterial,
  demoMaterial,
  foreignMaterial,
  type Material,
  rewordedMaterial,
  unseenMaterial,
  veraCandidates,
  veraItems,
  veraMaterial,
} from "./prove/material.ts";

const root = resolve(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    only: { type: "string", default: "company,vera,subset,no-replay,no-restatements,no-repair" },
    dir: { type: "string", default: join(root, ".cache/prove") },
    seed: { type: "string", default: "7" },
    threads: { type: "string", default: "2" },
    facts: { type: "string", default: "300" },
    preset: { type: "string", default: "standard" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const seed = Number(values.seed);
const threads = Number(values.threads);
const recipes = await readRecipes(join(root, "config/recipes"));
const preset = recipes.get(values.preset)!;
const names = values.only.split(",");
const results = resultsOf(import.meta.dirname);

const how = `--seed ${seed} --threads ${threads} --preset ${values.preset} --facts ${values.facts}`;
const earlier = readSection(results, "prove");
// Rows that stay are shown under the same heading, so they must have been made in the same way.
if (values.write && !earlier.includes(`${how}\``) && [...rowsOf(earlier).keys()].some((name) => !names.includes(name)))
  throw new Error("RESULTS.md has rows that were made with other options: give --no-write");

const without = {
  replay: (recipe: Recipe): Recipe => ({ ...recipe, dataset: { ...recipe.dataset, replay_share: 0 } }),
  // One row a target, trained as often as all its rows would be.
  restatements: ({ dataset, training, ...recipe }: Recipe): Recipe => ({
    ...recipe,
    dataset: { ...dataset, phrasings: 1, rungs: 1 },
    training: { ...training, epochs: training.epochs * dataset.phrasings * (dataset.rungs ?? 1) },
  }),
  repair: ({ repair: _, ...recipe }: Recipe): Recipe => recipe,
};

/** Of an ablation: a third of what standard trains, and nothing but the dev questions watched. */
const shortened = ({ repair: _, guards: __, ...recipe }: Recipe): Recipe => ({
  ...recipe,
  dataset: { ...recipe.dataset, phrasings: 2 },
  training: { ...recipe.training, epochs: 1 },
});

/** The same rows in every stage, as often as others would be trained. */
const repeated = (recipe: Recipe): Recipe => ({
  ...recipe,
  dataset: { ...recipe.dataset, rungs: 1 },
  training: { ...recipe.training, epochs: recipe.training.epochs * (recipe.dataset.rungs ?? 1) },
});

const plain = (recipe: Recipe): Recipe => ({
  ...recipe,
  dataset: { ...recipe.dataset, synthetic: { enabled: false } },
});

const cold = (recipe: Recipe): Recipe => ({ ...recipe, adapter: { ...recipe.adapter, warm_start: false } });

/** Acronyms that are learned, and how many are put to the base to find so many that it does not know. */
const [acronyms, candidates] = [300, 400];

async function vera(): Promise<Material> {
  const entries = veraCandidates(values.dir, candidates, seed);
  const items = veraItems(entries);
  const said = await answers(join(values.dir, `vera-base-${seed}.json`), baseModel, items, threads);
  const failed = entries.filter((_, at) => !grade(said[at]!, { ...items[at]!, competitors: [] }).correct);
  if (failed.length < acronyms) throw new Error(`The base fails ${failed.length} of ${candidates} acronyms only`);
  return veraMaterial(failed.slice(0, acronyms));
}

/** Facts of the company that the ablations learn. */
const subset = 100;

const corpora = ["water", "vets", "baeckerei"];

/** The recorded teacher of a corpus. */
const teacherOf = (corpus: string): string => `foreign/teacher/${corpus}`;

type Make = () => Promise<
  Pick<Experiment, "documents" | "items" | "recipe"> & Partial<Pick<Experiment, "teacher" | "hook">>
>;

/** Documents with what the appliance has itself, and with the recorded teacher. */
function bothWays(name: string, teacher: string, read: () => Promise<Material>): [string, Make][] {
  const alone: Make = async () => ({ ...(await read()), recipe: preset });
  const withTeacher: Make = async () => ({ ...(await read()), recipe: preset, teacher });
  return [
    [name, alone],
    [`${name}-taught`, withTeacher],
  ];
}

/**
 * One factor each, beside «short», which has all. A recorded teacher is the writer, because few questions of the shipped one pass the gates
 * on these documents: a run without a teacher would have nothing to lose by most factors.
 */
function ablations(corpus: string): Record<string, Make> {
  const made =
    (change: (recipe: Recipe) => Recipe, more: Partial<Experiment> = {}): Make =>
    async () => ({
      ...(await foreignMaterial(corpus)),
      recipe: change(shortened(preset)),
      teacher: teacherOf(corpus),
      ...more,
    });
  return {
    [`${corpus}-short`]: made((recipe) => recipe),
    [`${corpus}-no-writer`]: made(plain, { teacher: null }),
    [`${corpus}-no-warm-start`]: made(cold),
    [`${corpus}-no-gates`]: made((recipe) => recipe, { hook: "open-gates" }),
    [`${corpus}-soft`]: made((recipe) => recipe, { hook: "soft-targets" }),
    [`${corpus}-no-fresh`]: made(repeated),
  };
}

const experiments: Record<string, Make> = {
  ...Object.fromEntries([
    ...bothWays("company", "company/teacher/original", () => companyMaterial(Number(values.facts), seed)),
    ...bothWays("reworded", "company/teacher/reworded", rewordedMaterial),
    ...corpora.flatMap((corpus) => bothWays(corpus, teacherOf(corpus), () => foreignMaterial(corpus))),
  ]),
  subset: async () => ({ ...(await companyMaterial(subset, seed)), recipe: preset }),
  demo: async () => ({ ...demoMaterial(), recipe: preset }),
  coincidence: async () => ({ ...coincidenceMaterial(), recipe: preset }),
  unseen: async () => ({ ...(await unseenMaterial()), recipe: preset }),
  vera: async () => ({ ...(await vera()), recipe: preset }),
  "no-replay": async () => ({ ...(await companyMaterial(subset, seed)), recipe: without.replay(preset) }),
  "no-restatements": async () => ({ ...(await companyMaterial(subset, seed)), recipe: without.restatements(preset) }),
  ...ablations("vets"),
  "no-repair": async () => ({ ...(await companyMaterial(subset, seed)), recipe: without.repair(preset) }),
};

/** Questions of the exam, of some 1,500. */
const examined = 400;

interface Proven extends Outcome {
  /** null: of corpora by other hands it is not asked. */
  exam: { base: Score; aligned: Score } | null;
}

/** The exam before and after: the base sits it once. */
async function exam(name: string): Promise<Proven["exam"]> {
  if (["reworded", "coincidence", "unseen", ...corpora].some((corpus) => name.startsWith(corpus))) return null;
  const questions = examQuestions(values.dir, examined, seed);
  const run = join(values.dir, name);
  const before = await sitExam(join(values.dir, `hamexam-base-${seed}.json`), null, questions, threads);
  const after = await sitExam(join(run, "hamexam.json"), run, questions, threads);
  const score = (right: readonly boolean[]): Score => wilson(right.filter(Boolean).length, right.length);
  return { base: score(before), aligned: score(after) };
}

const outcomes: Proven[] = [];
for (const name of names) {
  const make = experiments[name];
  if (make === undefined) throw new Error(`--only ${name}: is none of ${Object.keys(experiments).join(", ")}`);
  const given = await make();
  const recipe = { ...given.recipe, training: { ...given.recipe.training, seed } };
  const performed = await perform(values.dir, { teacher: null, ...given, recipe, name, threads });
  const outcome = { ...performed, exam: await exam(name) };
  outcomes.push(outcome);
  process.stdout.write(`${JSON.stringify(summary(outcome), null, 1)}\n`);
}
if (values.write) await writeSection(results, "prove", (old) => sectionOf(outcomes, old));

function summary({ name, facts, base, aligned, p, minutes, report, exam }: Proven) {
  const { guards, training, learned } = report;
  return {
    name,
    facts,
    sealed: { base, aligned, p },
    minutes,
    dev: learned.dev,
    guards: guards?.suites.map(({ name: suite, n, base: was, aligned: is }) => ({ suite, n, was, is })),
    drift: guards?.drift,
    exam,
    warm_start: training.warm_start,
    steps: training.steps,
    rungs: training.rungs,
    chosen: [training.chosen_step, training.chosen_scale, training.repaired_steps],
    tokens: training.processed_tokens,
    candidates: training.candidates,
    rows: briefly(report),
    help: report.help,
  };
}

/** What the rows were made of, without the coverage passage by passage. */
function briefly({ rows }: Outcome["report"]): object {
  const { study, ...counts } = rows;
  const { coverage, ...told } = study;
  return {
    ...counts,
    study: { ...told, content: coverage.content, covered: coverage.covered, written: coverage.written },
  };
}

/** Lines of the section's table, by experiment. */
function rowsOf(section: string): Map<string, string> {
  return new Map(
    section
      .split("\n")
      .filter((line) => /^\| [\w-]+ \|/.test(line) && !line.startsWith("| Experiment"))
      .map((line) => [line.split("|")[1]!.trim(), line]),
  );
}

/** The section with the rows of these experiments; the others keep theirs. */
function sectionOf(done: readonly Proven[], old: string): string {
  const rows = rowsOf(old);
  for (const outcome of done) rows.set(outcome.name, rowOf(outcome));
  const titles =
    "Experiment|Date|Facts|Sealed, base|Sealed, aligned|p|Retention|General|Format|Refusals|hamexam|Perplexity|KL, nats|Tokens|Minutes|Chosen";
  return [
    "## Knowledge and forgetting",
    "",
    `\`npm run prove -- --only EXPERIMENT ${how}\`, a row each;`,
    "SmolLM2-135M-Instruct Q4_1. Scores in points with their 95 % intervals (Wilson); p of the paired comparison over the sealed questions. Where a",
    "row says of how many facts they are, questions about one fact count together in both; where it does not, each counts alone. Guards: points",
    "before → after, retention over items that the base gets right twice. hamexam: 400 questions of Debian's package by likelihood, chance 25. Minutes: of the run, repair included.",
    "",
    `| ${titles.replaceAll("|", " | ")} |`,
    `|${titles.replace(/[^|]+/g, "---")}|`,
    ...rows.values(),
  ].join("\n");
}

function rowOf({ name, date, facts, base, aligned, p, minutes, report, exam }: Proven): string {
  const score = (one: Score): string =>
    `${one.score.toFixed(1)} (${one.low.toFixed(1)}–${one.high.toFixed(1)}), n ${one.n}`;
  const ofFacts = (one: ClusteredScore): string => `${score(one)} of ${one.clusters} facts`;
  const { guards, training } = report;
  const suites = guards?.suites.map(
    ({ base: was, aligned: is, n }) => `${was.toFixed(1)} → ${is.toFixed(1)}, n ${n}`,
  ) ?? ["", "", "", ""];
  const { drift } = guards ?? {};
  const moved = drift ? [`${drift.perplexity_rise.toFixed(2)} %`, drift.kl.toFixed(3)] : ["", ""];
  const chosen = `step ${training.chosen_step}, scale ${training.chosen_scale}, ${training.repaired_steps} of repair`;
  const sat = exam === null ? "" : `${score(exam.base)} → ${score(exam.aligned)}`;
  const cells = [name, date, facts, ofFacts(base), ofFacts(aligned), p.toExponential(1), ...suites, sat, ...moved];
  return `| ${[...cells, training.processed_tokens, minutes.toFixed(1), chosen].join(" | ")} |`;
}
