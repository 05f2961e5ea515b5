// npm run prove:confidence [-- --run FOLDER --dir FOLDER --facts N --seed N --threads N]: what the confidence of an aligned model is
// worth, over more than a thousand answers that neither training nor the calibrator that scored them had seen. The model is the one
// that `npm run prove -- --only company` made, of as many facts and with the same seed. Written to test/e2e/RESULTS.md. Start it again
// after an interruption, and it goes on where it was.
//
//   FOLDER/answers.jsonl    every question's answer with its features and whether it is right, in groups of the fixed batch shape
//   FOLDER/vectors.jsonl    what the sentence encoder makes of every text
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { makeFolder, sha256, sha256OfFile } from "../../src/base/files.ts";
import { spread } from "../../src/base/spread.ts";
import {
  brierSkill,
  debiasedCalibrationError,
  expectedCalibrationError,
  perfectScoreBand,
} from "../../src/base/statistics/calibration.ts";
import { seeded } from "../../src/base/statistics/random.ts";
import { aurocOf, predictionRejectionRatio } from "../../src/base/statistics/ranking.ts";
import { fitModel, type LabelledAnswer } from "../../src/confidence/calibration.ts";
import { driftSpace, fitDrift, mostExemplars } from "../../src/confidence/drift.ts";
import { answerFeatures, featureNames } from "../../src/confidence/features.ts";
import { groundingReference, groundingSpace } from "../../src/confidence/grounding.ts";
import { grade } from "../../src/domain/evaluations/grade.ts";
import { formatChat } from "../../src/engine/format/chat-format.ts";
import type { ModelRef } from "../../src/engine/generator.ts";
import { readRequest, readSnapshot } from "../../src/run/folder/request.ts";
import type { RowText } from "../../src/run/folder/rows.ts";
import { findOverlap } from "../../src/study/leakage.ts";
import { statementsOf } from "../../src/study/passages.ts";
import { makeCompany } from "../company/company.ts";
import { commitNow } from "../helpers/commit.ts";
import { writeEncoder } from "../helpers/encoder.ts";
import { resultsOf, writeSection } from "../helpers/results.ts";
import { baseModel, withModel } from "./prove/experiment.ts";

const root = resolve(import.meta.dirname, "../..");
const { values } = parseArgs({
  options: {
    run: { type: "string", default: join(root, ".cache/prove/company") },
    dir: { type: "string", default: join(root, ".cache/prove-confidence") },
    facts: { type: "string", default: "300" },
    seed: { type: "string", default: "7" },
    threads: { type: "string", default: "2" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const [facts, seed, threads] = [values.facts, values.seed, values.threads].map(Number) as [number, number, number];
const say = (text: string): void => void process.stderr.write(`${text}\n`);
await makeFolder(values.dir);

interface Question {
  text: string;
  cluster: string;
  gold: string;
  aliases: string[];
}

const adapter = join(values.run, "artefact/adapter.gguf");
if (!existsSync(adapter)) throw new Error(`${adapter} is not there: npm run prove -- --only company makes it`);
const { documents } = await readSnapshot(values.run, await readRequest(values.run));
const statements = statementsOf(documents);
const questions = asked();
const answered = await answerAll(adapter);
const vectors = await embedAll();
const report = measure();
say(report);
if (values.write) await writeSection(resultsOf(import.meta.dirname), "confidence", () => report);

/** Three wordings of every fact, each as a sentence and as one types it, without those that a row of the run gives away. */
function asked(): Question[] {
  const all = makeCompany({ seed, facts }).facts.flatMap((fact) =>
    fact.questions
      .flatMap((question) => [question, question.toLowerCase().replace(/\?$/, "")])
      .map((text) => ({ text, cluster: fact.id, gold: fact.value, aliases: fact.aliases })),
  );
  const rows = readLines<RowText>(join(values.run, "prepared/rows.jsonl"));
  const { items } = findOverlap(
    all.map(({ text }) => text),
    rows,
  );
  const given = new Set(items.map((item) => item.question));
  return all.filter((_, index) => !given.has(index));
}

interface Kept extends LabelledAnswer {
  index: number;
  text: string;
}

async function answerAll(adapterPath: string): Promise<Kept[]> {
  // Answers of another adapter, to other questions, or by other code, are another file's.
  const identity = sha256(JSON.stringify([await sha256OfFile(adapterPath), questions, commitNow()]));
  const path = join(values.dir, `answers-${identity.slice(0, 12)}.jsonl`);
  const kept = readLines<Kept>(path);
  if (kept.length === questions.length) return kept;
  // A group is answered whole, or again.
  const startAt = kept.length - (kept.length % 8);
  const whole = kept.slice(0, startAt);
  writeFileSync(path, whole.map((one) => `${JSON.stringify(one)}\n`).join(""));
  say(`asking ${questions.length} questions, from ${startAt} on`);
  let group: Kept[] = [];
  const model = { ...baseModel, adapter: { id: "proof", path: adapterPath } };
  await withModel(model, threads, (generator) => {
    const tokenizer = generator.tokenizer(model.baseId);
    return generator.evaluate({
      model,
      prompts: questions.map(({ text }) => formatChat(tokenizer, [{ role: "user", content: text }])),
      maxTokens: 48,
      signal: new AbortController().signal,
      startAt,
      onItem: (index, answer) => {
        const { gold, aliases, cluster } = questions[index]!;
        const { correct } = grade(answer.text, { response: gold, aliases, competitors: [] });
        group.push({
          index,
          text: answer.text,
          cluster,
          correct,
          features: answerFeatures(answer.steps, answer.finishReason),
        });
        if ((index + 1) % 8 !== 0 && index + 1 < questions.length) return;
        appendFileSync(path, group.map((one) => `${JSON.stringify(one)}\n`).join(""));
        group = [];
      },
    });
  });
  return readLines<Kept>(path);
}

/** A line that an interruption tore is dropped. */
function readLines<T>(path: string): T[] {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, "utf8");
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  if (whole !== text) writeFileSync(path, whole);
  return whole
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as T);
}

/** Texts about anything that a person may ask, and questions about another company drawn from the same templates. */
function strangers(): { far: string[]; near: string[] } {
  const lines = (name: string): string[] => JSON.parse(readFileSync(join(root, name), "utf8")) as string[];
  const other = makeCompany({ seed: seed + 1, facts: 60 });
  return {
    far: [...lines("config/demo/off-topic.json"), ...lines("test/e2e/far-questions.json")],
    near: other.facts.map((fact) => fact.questions[0]!),
  };
}

async function embedAll(): Promise<Map<string, Float32Array>> {
  const path = join(values.dir, "vectors.jsonl");
  const kept = readLines<{ text: string; vector: number[] }>(path);
  const known = new Map<string, Float32Array>(kept.map(({ text, vector }) => [text, Float32Array.from(vector)]));
  const { far, near: neighbours } = strangers();
  const general = JSON.parse(readFileSync(join(root, "config/replay-prompts.json"), "utf8")) as string[];
  const near = spread(statements, mostExemplars);
  const texts = [...new Set([...questions.map(({ text }) => text), ...near, ...general, ...far, ...neighbours])];
  const missing = texts.filter((text) => !known.has(text));
  if (missing.length === 0) return known;
  say(`embedding ${missing.length} texts`);
  const encoder = join(values.dir, "encoder.gguf");
  if (!existsSync(encoder)) await writeEncoder(encoder);
  const model: ModelRef = { baseId: "encoder", basePath: encoder };
  await withModel(model, threads, async (generator) => {
    for (let at = 0; at < missing.length; at += 32) {
      const some = missing.slice(at, at + 32);
      const options = { truncate: true, signal: new AbortController().signal };
      for (const [place, { vector }] of (await generator.embed(model, some, options)).entries()) {
        known.set(some[place]!, vector);
        appendFileSync(path, `${JSON.stringify({ text: some[place], vector: [...vector] })}\n`);
      }
    }
  });
  return known;
}

function measure(): string {
  const vectorOf = (text: string): Float32Array => vectors.get(text)!;
  const general = JSON.parse(readFileSync(join(root, "config/replay-prompts.json"), "utf8")) as string[];
  const measured = (isIn: (at: number) => boolean) =>
    answered
      .filter((_, at) => isIn(at))
      .map(({ index, cluster }) => ({ vector: vectorOf(questions[index]!.text), cluster: cluster! }));
  const fit = (isIn: (at: number) => boolean) =>
    fitDrift({
      encoderSha256: "",
      passages: spread(statements, mostExemplars).map(vectorOf),
      questions: measured(isIn),
      background: general.map(vectorOf),
    });
  const { outOfDomain } = fit(() => true);

  // What the documents say for each answer, as the artefact of a run has it.
  const said = groundingSpace(groundingReference(statements)!);
  const answers = answered.map((answer, at) => {
    const { text } = questions[answer.index]!;
    return { ...answer, outOfDomain: outOfDomain[at]!, grounding: said.about(text)(answer.text) };
  });
  const labels = answers.map(({ correct }) => correct);
  const { scores } = fitModel(answers, featureNames);
  const alone = answers.map(({ grounding: _, ...answer }) => answer);
  const bare = alone.map(({ outOfDomain: _, ...answer }) => answer);
  const feature = (name: (typeof featureNames)[number], sign: 1 | -1): number[] =>
    answers.map(({ features }) => sign * features[featureNames.indexOf(name)]!);
  const random = seeded(seed);
  const ways: [string, number[]][] = [
    ["confidence_score", scores],
    ["the same without grounding", fitModel(alone, featureNames).scores],
    ["token features only", fitModel(bare, featureNames).scores],
    ["mean log-probability", feature("logprob_mean", 1)],
    ["maximum sequence probability", feature("logprob_sum", 1)],
    ["mean entropy, negated", feature("entropy_mean", -1)],
    ["chance", answers.map(() => random())],
  ];
  const clusters = [...Map.groupBy(answers.keys(), (at) => answers[at]!.cluster).values()];
  const drawn = draws(clusters);
  const unshown = new Set<string>();
  const rows = ways.map(([name, values]) => {
    const [auroc, prr] = [aurocOf, predictionRejectionRatio].map((figure) => {
      const found = figure(values, labels)!;
      if (values === scores) return found.toFixed(3);
      const lead = drawn.map(
        (ats) =>
          figure(
            ats.map((at) => scores[at]!),
            ats.map((at) => labels[at]!),
          )! -
          figure(
            ats.map((at) => values[at]!),
            ats.map((at) => labels[at]!),
          )!,
      );
      lead.sort((a, b) => a - b);
      const at = (share: number): string => lead[Math.round(share * (lead.length - 1))]!.toFixed(3);
      if (Number(at(0.025)) <= 0) unshown.add(name);
      return `${found.toFixed(3)} (lead ${at(0.025)} to ${at(0.975)})`;
    });
    return `| ${name} | ${auroc} | ${prr} |`;
  });

  const [ece, band] = [expectedCalibrationError(scores, labels), perfectScoreBand(scores)];
  // Half of the facts are the benchmark's, the other half what people ask later.
  const half = new Set(clusters.flatMap((members, at) => (at % 2 === 0 ? members : [])));
  const space = driftSpace(fit((at) => half.has(at)).reference);
  const near = (texts: string[]): number[] => texts.map((text) => -space.measure(vectorOf(text)).distance);
  const own = near(answers.flatMap(({ index }, at) => (half.has(at) ? [] : [questions[index]!.text])));
  const { far, near: neighbours } = strangers();
  const apart = (texts: string[]): string =>
    aurocOf([...own, ...near(texts)], [...own.map(() => true), ...texts.map(() => false)])!.toFixed(3);
  const right = labels.filter(Boolean).length;
  return [
    "## Confidence",
    "",
    `\`npm run prove:confidence -- --facts ${facts} --seed ${seed}\` on ${new Date().toISOString().slice(0, 10)}; ` +
      "SmolLM2-135M-Instruct Q4_1 as `npm run prove -- --only company` aligned it to a fictional company.",
    `${answers.length} answers to questions about ${clusters.length} facts, in words no row has; ${right} right ` +
      `(${((100 * right) / answers.length).toFixed(1)} %). Every score is from a regression and a calibrator that had seen no answer about the same fact.`,
    "Lead: of confidence_score, 95 % interval of 2,000 draws of whole facts.",
    "",
    "| Ranked by | AUROC | PRR |",
    "|---|---|---|",
    ...rows,
    "",
    unshown.size === 0 ? "Every lead is shown." : `No lead is shown over: ${[...unshown].join(", ")}.`,
    `Calibration error ${ece.toFixed(4)}; of a perfect score with these values ${band.mean.toFixed(4)} in the mean, ${band.p95.toFixed(4)} at 95 %` +
      ` (${ece <= band.p95 ? "inside" : "OUTSIDE"}). Debiased ${debiasedCalibrationError(scores, labels).toFixed(4)}; ` +
      `Brier's skill ${brierSkill(scores, labels)!.toFixed(3)}.`,
    `Drift, from the questions of half of the facts to those of the other (${own.length}): AUROC ${apart(far)} against ${far.length} far-off questions, ` +
      `${apart(neighbours)} against ${neighbours.length} about another company in the same templates.`,
  ].join("\n");
}

/** Answers of as many facts as there are, drawn with replacement. */
function draws(clusters: readonly number[][]): number[][] {
  const random = seeded(seed);
  return Array.from({ length: 2000 }, () => clusters.flatMap(() => clusters[Math.floor(random() * clusters.length)]!));
}
