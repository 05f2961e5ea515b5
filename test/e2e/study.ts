// npm run prove:study [-- --writer none|shipped|material --language en --passages 50 --phrasings 3 --stages 3 --epochs 2]: what rows of a
// study teach of passages that no writer was trained on. The writer's held-out passages are the documents; their own questions, in
// three manners, are asked. A bench to choose forms by. With --replay 0.25 the base's own rows are trained beside them, and the drift from
// the base on forty paragraphs is told. With --corpus the recorded teacher's wordings of a foreign corpus take the place of the writer's
// material: two thirds of them are trained, the others asked.
//
// Without --corpus, no corpus that results are measured on has a part in what is chosen by this bench. With --corpus one has: its documents
// and its recorded teacher's wordings, never a question of its benchmark. Say so wherever a choice rests on it.
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { normalised, wordsOf } from "../../src/base/text.ts";
import { documentOf, isHeldOut, type MaterialPassage, readMaterial } from "../../src/cli/train-writer.ts";
import type { Recipe } from "../../src/contract/recipe.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { competition, grade } from "../../src/domain/evaluations/grade.ts";
import { formatChat, formatTrainingRow } from "../../src/engine/format/chat-format.ts";
import { openTokenizer } from "../../src/engine/serve/generator.ts";
import type { AdapterShape } from "../../src/engine/train/trainer.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import type { Run } from "../../src/run/context.ts";
import { answerTokens } from "../../src/run/dev-check.ts";
import { joinSoftTargets, withSoftTargets } from "../../src/run/distil.ts";
import { readGuards } from "../../src/run/guards/material.ts";
import { divergence, type ProseSaid, proseSaid } from "../../src/run/guards/measure.ts";
import { naturalShareOf, replayRows } from "../../src/run/replay.ts";
import { countedAs, lengthOf, type TrainingRow, toTrainer, trainedTokens } from "../../src/run/rows.ts";
import { batchOf, learningRateAt, stepsPerEpoch } from "../../src/run/schedule.ts";
import { createSpeaker } from "../../src/run/speaker.ts";
import { rowTokensOf } from "../../src/run/training.ts";
import { installedWarmStart } from "../../src/run/warm-start/installed.ts";
import { canHold, embed } from "../../src/run/warm-start/start.ts";
import { languagesOf, mainLanguage } from "../../src/study/languages.ts";
import { type Passage, passagesOf } from "../../src/study/passages.ts";
import { study } from "../../src/study/study.ts";
import { installedWriter } from "../../src/study/writers/installed.ts";
import { shippedWriter } from "../../src/study/writers/shipped.ts";
import {
  furtherPrompt,
  joinedReplies,
  readReply,
  type TeacherReply,
  teacherPrompt,
  teacherWriter,
} from "../../src/study/writers/teacher.ts";
import type { Writer } from "../../src/study/writers/writer.ts";
import { readJsonLines } from "../helpers/json-lines.ts";
import { memoryInProcess } from "../helpers/memory.ts";
import { readFolder } from "./prove/material.ts";
import { answerOf, type Recorded } from "./prove/teacher.ts";

const { values } = parseArgs({
  options: {
    writer: { type: "string", default: "none" },
    language: { type: "string", default: "en" },
    passages: { type: "string", default: "50" },
    companions: { type: "string", default: "0" },
    phrasings: { type: "string", default: "3" },
    stages: { type: "string", default: "3" },
    epochs: { type: "string", default: "2" },
    rate: { type: "string", default: "0.001" },
    batch: { type: "string", default: "12" },
    rank: { type: "string", default: "32" },
    replay: { type: "string", default: "0" },
    "replay-weight": { type: "string", default: "1" },
    "weight-decay": { type: "string", default: "0" },
    eps: { type: "string", default: "1e-8" },
    /** Power p: each token of a row of n answer tokens weighs n^−p, so that 1 gives every row the same weight. */
    "row-power": { type: "string", default: "0" },
    beta2: { type: "string", default: "0.95" },
    /** Attention stays as it is. */
    "feed-forward-alone": { type: "boolean", default: false },
    /** Share of the layers, counted from the output, that have an adapter. */
    "top-layers": { type: "string", default: "1" },
    /** Share of the inputs of every matrix of the adapter that a step leaves out. */
    dropout: { type: "string", default: "0" },
    /** Weight of a question's tokens together, beside 1 of its answer's. */
    "question-weight": { type: "string", default: "0" },
    /** A corpus under test/foreign, of which --passages count. */
    corpus: { type: "string" },
    /** Maximum wordings of a fact of the corpus that are trained. */
    wordings: { type: "string", default: "8" },
    /** What training starts from: none, the installed warm start, or an adapter of the same shape (GGUF or PEFT). */
    start: { type: "string", default: "none" },
    threads: { type: "string", default: "2" },
    /** Every question with its gold and the last answer. */
    show: { type: "boolean", default: false },
  },
});
const stages = Number(values.stages);
/** Maximum facts that are asked about, of which there are more in long corpora. */
const mostFacts = 200;
/** Words that an answer begins with, to know it by as a document's. */
const knownBy = 6;
const config = readConfig();
const log = createLog("error", () => {});
const shape: AdapterShape = {
  rank: Number(values.rank),
  alpha: 32,
  dropout: Number(values.dropout),
  seed: 7,
  targets: [
    ...(values["feed-forward-alone"] ? [] : (["attn_q", "attn_k", "attn_v", "attn_output"] as const)),
    ...(["ffn_gate", "ffn_up", "ffn_down"] as const),
  ],
};

const material = (await readMaterial()).filter(({ language }) => language === values.language);
const corpus = values.corpus === undefined ? null : await readCorpus(values.corpus);
const held = corpus?.asked ?? material.filter(isHeldOut).slice(0, Number(values.passages));
/** Passages that are trained with their own questions beside the plain forms; nothing is asked about them. */
const companions = material.filter((one) => !isHeldOut(one)).slice(0, Number(values.companions));
const { tokenizer, dispose } = await openTokenizer(config.starterModel, log);
const trainer = startTrainer({ executable: config.trainer, log });
const other = formatChat(tokenizer, [{ role: "user", content: "~" }]);
try {
  const { layers } = await trainer.open({
    path: config.starterModel,
    threads: Number(values.threads),
    memoryBytes: 0,
  });
  const began = performance.now();
  const options = { phrasings: Number(values.phrasings), stages, seed: 7 };
  const { rows, report } = await study(
    { documents: corpus?.documents ?? held.map(documentOf), organisation: null },
    { base: speaker(null), writer: openWriter, progress: async () => {} },
    options,
  );
  if (companions.length > 0) {
    const { rows: more } = await study(
      { documents: companions.map(documentOf), organisation: null },
      { base: speaker(null), writer: async () => companionWriter(), progress: async () => {} },
      options,
    );
    process.stdout.write(`${JSON.stringify({ own: rows.length, companions: more.length })}\n`);
    rows.push(...more);
  }
  const { coverage, ...told } = report;
  process.stdout.write(`${JSON.stringify({ ...told, covered: coverage.covered, seconds: secondsSince(began) })}\n`);
  const firstLayer = Math.round((1 - Number(values["top-layers"])) * layers);
  await trainer.createAdapter("main", { ...shape, firstLayer });
  await startFrom({ ...shape, firstLayer });
  const training = {
    batch_size: Number(values.batch),
    epochs: Number(values.epochs),
    max_steps: null,
    seed: 7,
  } as Recipe["training"];
  const configured = (file: string) => JSON.parse(readFileSync(join("config", file), "utf8")) as string[];
  const share = Number(values.replay);
  const own = Array.from({ length: stages }, (_, stage) => rows.filter((row) => row.stage === stage));
  const counts = own.map((some) => Math.round((some.length * share) / (1 - share)));
  const topK = 64;
  const replayed = await replayRows(
    {
      tokenizer,
      parts: { replayPrompts: configured("replay-prompts.json"), replayOpenings: configured("replay-openings.json") },
      request: { recipe: { training, dataset: { replay_tokens: 32, replay_top_k: topK } } },
      turn: async () => {},
      progress: async () => {},
    } as unknown as Run,
    trainer,
    counts,
    { memory: memoryInProcess(), natural: naturalShareOf(rows) },
  );
  const byStage = own.map((some, stage) => [
    ...some.map(
      ({ messages, kind }): TrainingRow => ({
        kind,
        messages,
        rung: stage,
        ...toArrays(formatTrainingRow(tokenizer, messages)),
      }),
    ),
    ...replayed.filter(({ rung }) => rung === stage),
  ]);
  const prose =
    share === 0
      ? null
      : await proseSaid(
          { trainer, tokenizer, turn: async () => {} },
          (await readGuards("config/guards")).prose.slice(0, 40),
        );
  const answers = byStage.flat().filter(({ softTargets }) => softTargets === undefined);
  const meanTokens = rowTokensOf(answers);
  const steps = byStage.map((some) => stepsPerEpoch(some.length, training.batch_size) * training.epochs);
  const total = steps.reduce((sum, count) => sum + count, 0);
  let [done, computed] = [0, 0];
  for (const [stage, some] of byStage.entries()) {
    for (let step = 1; step <= steps[stage]!; step++) {
      const batch = batchOf(step, some.length, training).map((at) => some[at]!);
      const distilled = batch.filter(({ softTargets }) => softTargets !== undefined);
      const call = toTrainer(
        [
          ...batch
            .filter(({ softTargets }) => softTargets === undefined)
            .map(evened(meanTokens))
            .map(withQuestion),
          ...distilled,
        ],
        1 / batch.reduce((sum, row) => sum + trainedTokens(row), 0),
      );
      const first = call.tokens.length - lengthOf(distilled);
      const passed = trainer.forwardBackward(
        "main",
        distilled.length === 0
          ? call
          : withSoftTargets(
              call,
              joinSoftTargets(
                topK,
                distilled.map(({ softTargets }) => softTargets!),
              ),
              { first, factor: Number(values["replay-weight"]) },
            ),
      );
      const curve = { warmup_ratio: 0.05, lr_schedule: "linear" } as Recipe["optimizer"];
      const learningRate = learningRateAt(++done, total, Number(values.rate), curve);
      const [beta2, eps, weightDecay] = [values.beta2, values.eps, values["weight-decay"]].map(Number);
      const adam = { beta1: 0.9, beta2: beta2!, eps: eps!, weightDecay: weightDecay!, gradClipNorm: 1 };
      await trainer.optimStep("main", { learningRate, ...adam });
      computed += (await passed).computedTokens;
    }
    const scores = await asked(values.show && stage === stages - 1);
    process.stdout.write(
      `${JSON.stringify({ stage: stage + 1, steps: done, tokens: computed, ...scores, ...(await drifted(prose)), seconds: secondsSince(began) })}\n`,
    );
  }
} finally {
  await trainer.close();
  await dispose();
}

async function drifted(prose: ProseSaid | null): Promise<object> {
  if (prose === null) return {};
  const { kl, perplexity_rise } = await divergence(
    { trainer, tokenizer, adapter: "main", turn: async () => {} },
    prose,
  );
  return { kl: Number(kl.toFixed(3)), perplexity_rise: Number(perplexity_rise.toFixed(1)) };
}

function toArrays(row: {
  tokens: Iterable<number>;
  weights: Iterable<number>;
}): Pick<TrainingRow, "tokens" | "weights"> {
  return { tokens: Int32Array.from(row.tokens), weights: Float32Array.from(row.weights) };
}

/** `mean`: answer tokens of a row on average, at which its tokens keep their weight. */
function evened(mean: number): (row: TrainingRow) => TrainingRow {
  const power = Number(values["row-power"]);
  return (row) => countedAs(row, mean ** power * trainedTokens(row) ** (1 - power));
}

/** The row with weights on its question's tokens, too. */
function withQuestion(row: TrainingRow): TrainingRow {
  const share = Number(values["question-weight"]);
  if (share === 0) return row;
  const prompt = formatChat(tokenizer, row.messages.slice(0, -1));
  const [first, last] = [begins(prompt, other), begins([...prompt].reverse(), [...other].reverse())];
  const weights = row.weights.slice();
  const count = prompt.length - last - first;
  const sum = weights.reduce((all, weight) => all + weight, 0);
  for (let at = first; at < first + count; at++) weights[at] = (share * sum) / count;
  return { ...row, weights };
}

/** Number of tokens that both begin with. */
function begins(one: readonly number[], two: readonly number[]): number {
  const at = one.findIndex((token, index) => token !== two[index]);
  return at === -1 ? one.length : at;
}

function secondsSince(began: number): number {
  return Math.round((performance.now() - began) / 1000);
}

function speaker(adapter: string | null) {
  const memory = memoryInProcess();
  const name = adapter ?? "base";
  return createSpeaker({ turn: async () => {} }, { name, tokenizer, memory, trainer: async () => trainer, adapter });
}

/** Documents of a corpus, what its recorded teacher wrote but for every third wording, and of each fact three of these others to ask. */
async function readCorpus(name: string) {
  const recorded = readJsonLines<Recorded>(`test/foreign/teacher/${name}.jsonl`);
  const documents: SnapshotDocument[] = [];
  for (const document of await readFolder(`test/foreign/${name}`))
    if (passagesOf(documents).length < Number(values.passages)) documents.push(document);
  const replies = new Map<string, TeacherReply>();
  const asked: MaterialPassage[] = [];
  const isAsked = (_: string, at: number): boolean => at % 3 === 2;
  for (const passage of passagesOf(documents)) {
    const first = readReply(answerOf(recorded, teacherPrompt(passage)), passage);
    const further = readReply(answerOf(recorded, furtherPrompt(passage, first)), passage);
    const facts = joinedReplies(first, further).asks;
    replies.set(passage.id, {
      unfounded: 0,
      asks: facts.map(({ answer, questions }) => ({
        answer,
        questions: questions.filter((one, at) => !isAsked(one, at)).slice(0, Number(values.wordings)),
      })),
    });
    const asks = facts
      .map(({ answer, questions }) => ({ answer, questions: questions.filter(isAsked).slice(0, 3) }))
      .filter(({ questions }) => questions.length === 3) as MaterialPassage["asks"];
    asked.push({ title: "", passage: passage.text, genre: name, language: passage.language ?? "", asks });
  }
  return { documents, replies, asked };
}

/** Loads what --start names into the new adapter. */
async function startFrom(of: AdapterShape): Promise<void> {
  if (values.start === "none") return;
  if (values.start !== "installed") {
    await trainer.load("main", values.start);
    return;
  }
  const warmStart = installedWarmStart(
    corpus === null ? values.language : mainLanguage(languagesOf(passagesOf(corpus.documents))),
  );
  if (warmStart === null) throw new Error("no warm start is installed; run plumbline train-warm-start");
  if (!canHold(of, warmStart.shape)) throw new Error("the warm start needs another --rank or --top-layers");
  await embed(trainer, { adapter: "main", shape: of }, warmStart, tmpdir());
}

/** material: the first two manners of its questions are trained, so that the third alone is new. */
async function openWriter(): Promise<Writer | null> {
  if (corpus !== null && values.writer !== "shipped") return teacherWriter("recorded", corpus.replies);
  if (values.writer === "none") return null;
  if (values.writer === "material") return teacherOfMaterial(held, 2);
  const writer = installedWriter();
  if (writer === null) throw new Error("no writer is installed; run plumbline train-writer");
  await trainer.createAdapter("writer", writer.shape);
  await trainer.load("writer", writer.path);
  return shippedWriter(speaker("writer"), { languages: writer.languages, seed: 7 });
}

function companionWriter(): Writer {
  return {
    ...teacherWriter("companions", new Map()),
    propose: async (passages) => passages.map(() => []),
    write: async (targets) =>
      targets.map(({ passage, answer }) => {
        const asks = companions[Number(passage.document)]!.asks.filter((ask) => answer.includes(ask.answer));
        return [0, 1, 2].flatMap((manner) => asks.map(({ questions }) => questions[manner]!));
      }),
  };
}

function teacherOfMaterial(of: readonly MaterialPassage[], manners: number): Writer {
  const asksOf = ({ document, text }: Passage) =>
    of[Number(document)]!.asks.filter(({ answer }) => text.includes(answer)).map(({ answer, questions }) => ({
      answer,
      questions: questions.slice(0, manners),
    }));
  return {
    ...teacherWriter("material", new Map()),
    propose: async (passages) => passages.map((passage) => asksOf(passage).map(({ answer }) => answer)),
    write: async (targets) =>
      targets.map(({ passage, answer, kind }) =>
        asksOf(passage)
          .filter((ask) => (kind === "clause" ? answer.includes(ask.answer) : ask.answer === answer))
          .flatMap(({ questions }) => questions),
      ),
    answerTo: ({ passage }, question) =>
      asksOf(passage).find(({ questions }) => questions.includes(question))?.answer ?? null,
  };
}

/**
 * Per cent right of each manner: plain, in other words, as somebody who describes a situation. `strict`: as a benchmark grades, where an
 * answer that holds another question's gold is wrong; passages are asked about so densely here that it is stricter than most. `elsewhere`:
 * per cent of all that is wrong and begins as the documents say something else; the rest of the wrong is the base's chat.
 */
async function asked(show: boolean): Promise<{ right: number[]; strict: number[]; elsewhere: number }> {
  const told = held.map(({ passage }) => normalised(passage)).join("\n");
  let elsewhere = 0;
  const facts = held.flatMap(({ asks }) =>
    asks.map(({ answer, questions }) => questions.map((question, manner) => ({ question, answer, manner }))),
  );
  const every = Math.ceil(facts.length / mostFacts);
  const questions = facts.filter((_, at) => at % every === 0).flat();
  const [right, strict] = [
    [0, 0, 0],
    [0, 0, 0],
  ];
  const rivals = competition(
    questions.map(({ question, answer }) => ({ instruction: question, response: answer, aliases: [] })),
  );
  for (let from = 0; from < questions.length; from += 64) {
    const some = questions.slice(from, from + 64);
    const prompts = some.map(({ question }) => formatChat(tokenizer, [{ role: "user", content: question }]));
    const said = await trainer.sample(
      "main",
      { tokens: Int32Array.from(prompts.flat()), rowLengths: Int32Array.from(prompts, ({ length }) => length) },
      { maxTokens: answerTokens, temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0, stopTokens: [...tokenizer.eog] },
    );
    for (const [at, { tokens }] of said.entries()) {
      const text = tokenizer.decode([...tokens].filter((token) => !tokenizer.eog.has(token))).trim();
      const { question, answer, manner } = some[at]!;
      const isRight = grade(text, { response: answer, aliases: [], competitors: [] }).correct;
      if (isRight) right[manner]!++;
      else if (told.includes(wordsOf(text).slice(0, knownBy).join(" "))) elsewhere++;
      const competitors = rivals(from + at);
      if (grade(text, { response: answer, aliases: [], competitors }).correct) strict[manner]!++;
      if (show) process.stdout.write(`${isRight ? "+" : "-"}${manner} ${question} [${answer}] ${text}\n`);
    }
  }
  const shares = (counts: number[]): number[] =>
    counts.map((count) => Math.round((3000 * count) / questions.length) / 10);
  return {
    right: shares(right),
    strict: shares(strict),
    elsewhere: Math.round((1000 * elsewhere) / questions.length) / 10,
  };
}
