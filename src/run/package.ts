// Makes artefact/ from the chosen adapter. The adapter is exported, and the inference engine's log-probs with it are checked against the
// trainer's. Then the confidence is calibrated, and the finished folder is renamed to its final name in one step. The trainer does its part
// first (export, log-probs) and is closed. Then the inference engine does its part (log-probs, answers).
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../base/errors.ts";
import {
  makeFolder,
  renameDurably,
  sha256,
  sha256OfFile,
  syncFolder,
  temporaryName,
  writeFileDurably,
  writeJsonDurably,
} from "../base/files.ts";
import { spread } from "../base/spread.ts";
import { type Calibration, fitCalibration, type LabelledAnswer } from "../confidence/calibration.ts";
import { answerFeatures, featureNames } from "../confidence/features.ts";
import { groundingSpace } from "../confidence/grounding.ts";
import { artefactFiles, type RunResult } from "../contract/run-folder.ts";
import type { Generator, ModelRef } from "../engine/generator.ts";
import { type Comparison, compareScores } from "../engine/train/adapter-check.ts";
import type { References } from "../study/study.worker.ts";
import { openStudyThread } from "../study/thread.ts";
import type { AutoAlignReport } from "./auto/report.ts";
import type { Chosen } from "./choose.ts";
import type { Run } from "./context.ts";
import { answerTokens } from "./dev-check.ts";
import { measureDrift } from "./drift.ts";
import type { Exported } from "./exported.ts";
import { identityOf } from "./folder/request.ts";
import { type Report, reportOf } from "./report.ts";
import { reportPage } from "./report-page.ts";
import { packed } from "./rows.ts";
import type { Training } from "./training.ts";

/** Target number of row tokens on which trainer and inference engine are compared. The fixed text is compared in addition. */
const comparedTokens = 512;
/** Maximum number of rows that these tokens are taken from. The rows are spread evenly over all rows. */
const comparedRows = 64;

/**
 * Ordinary prose on a subject that no organisation's documents cover. With it, the comparison also covers what the adapter does
 * outside its rows, and a run of few rows has enough tokens.
 */
const fixedText = `The river rises in the hills above the old mill and runs for eleven miles before it meets the sea. In spring the
water is high and brown, and the ferryman ties his boat to the third post instead of the first. Most people who cross
are on their way to the market, with baskets of eggs, bundles of wool, or a goat that does not want to go. They pay with
a coin, a cheese, or a story, and the ferryman says that he has never been paid twice with the same one. When the wind
comes from the north he stays at home, mends his nets, and listens to the slates rattle on the roof.

His sister keeps the clock in the church tower. It has one hand, which was thought enough when it was made, and it loses
four minutes a day, which she gives back every evening before supper. Strangers laugh at it. Those who live there plan
their days by it all the same: bread at the first stroke, school at the second, and the long walk home when the shadow of
the tower touches the well. Once, in a dry year, the shadow did not reach the well at all, and nobody went home until it
was dark; they sat on the wall instead, ate plums, and argued about whether a day could be longer than its hours.

In autumn a man came who wanted to build a bridge. He measured the banks with a red and white pole, wrote figures in a
small book, and slept badly because of the frogs. A bridge, he explained, would save each traveller half an hour. The
council thanked him and asked what a traveller would do with half an hour on the other side, where the inn was closed on
weekdays and the road went only to the next river. He had no answer ready. He stayed for the harvest, learned to row, and
wrote to his office that the ground was too soft. It may have been. The pole still stands in the reeds, and herons like it.`;

/** Does the trainer's part: exports the chosen adapter as GGUF and PEFT, and scores fixed rows without and with it. */
export async function exportAdapter(
  run: Run,
  training: Training,
  chosen: Chosen,
  autoAlign: AutoAlignReport | null = null,
): Promise<Exported> {
  const { trainer } = training;
  const name = chosen.adapter;

  const folder = temporaryName(join(run.folder, "artefact"));
  await makeFolder(folder);
  const provenance = provenanceOf(run, training, chosen);
  const adapter = await trainer.exportGguf(name, join(folder, "adapter.gguf"), provenance);
  await trainer.exportPeft(name, join(folder, "peft"), provenance);

  const rows = fixedRows(run, training);
  const scored = packed(rows.map((row) => row.tokens));
  const from = Int32Array.from(rows, (row) => row.promptLength);
  const base = await trainer.score(null, scored, from);
  const aligned = await trainer.score(name, scored, from);
  return { folder, chosen, adapter, rows, base: perRow(base, rows), aligned: perRow(aligned, rows), autoAlign };
}

/**
 * Returns what the adapter was made from, which is stored in its files. There is no date, so that the same run gives exactly the same
 * files.
 */
const provenanceOf = (run: Run, { prepared, state }: Training, { step, scale }: Chosen): Record<string, string> => ({
  "plumbline.version": run.request.versions.plumbline,
  "plumbline.trainer": run.request.versions.trainer,
  "plumbline.alignment_id": run.request.alignment_id,
  "plumbline.recipe": run.request.recipe_name,
  "plumbline.base_sha256": run.request.base.sha256,
  "plumbline.request_sha256": identityOf(run.request),
  "plumbline.rows_sha256": prepared.sha256,
  ...(state.warmStart !== undefined && { "plumbline.warm_start_sha256": state.warmStart }),
  "plumbline.step": String(step),
  "plumbline.scale": String(scale),
});

/**
 * Returns the rows to compare. A row is compared only after the longest beginning that it shares with an earlier row. Rows begin alike
 * (template, the start of a question), and if these few tokens were counted in each row, a chance difference in them would look
 * like a shift of the mean.
 */
function fixedRows(run: Run, { prepared, model: { context } }: Training): Exported["rows"] {
  const rows: Exported["rows"] = [];
  let compared = 0;
  const from = spread(prepared.rows, comparedRows).map((row) => [...row.tokens]);
  for (const tokens of from) {
    if (compared >= comparedTokens) break;
    const promptLength = Math.max(1, ...rows.map((row) => sharedStart(row.tokens, tokens)));
    if (promptLength === tokens.length) continue;
    rows.push({ tokens, promptLength });
    compared += tokens.length - promptLength;
  }
  for (const paragraph of fixedText.split("\n\n"))
    rows.push({ tokens: run.tokenizer.encode(paragraph, false).slice(0, context), promptLength: 1 });
  return rows;
}

function sharedStart(a: readonly number[], b: readonly number[]): number {
  let length = 0;
  while (length < a.length && length < b.length && a[length] === b[length]) length++;
  return length;
}

/** Cuts log-probs [T] into rows, each from `promptLength` on. */
function perRow(logprobs: Float32Array, rows: Exported["rows"]): Float64Array[] {
  let at = 0;
  return rows.map((row) => {
    const part = Float64Array.from(logprobs.subarray(at + row.promptLength, at + row.tokens.length));
    at += row.tokens.length;
    return part;
  });
}

/**
 * Does the inference engine's part and makes the artefact. If the process dies before the rename, everything here is done again. Throws
 * adapter_unfaithful if the engine's log-probs differ too much from the trainer's.
 */
export async function finishPackage(run: Run, training: Training, exported: Exported): Promise<RunResult> {
  const generator = await run.parts.openGenerator();
  let finished: Finished;
  try {
    const { base } = run.request;
    const bare: ModelRef = { baseId: base.id, basePath: base.path };
    const aligned: ModelRef = {
      ...bare,
      adapter: { id: exported.adapter.sha256, path: join(exported.folder, "adapter.gguf") },
    };
    await generator.pool.lease(bare, "work");
    await generator.pool.lease(aligned, "work");
    const verification = compareScores({
      trainer: { base: exported.base, aligned: exported.aligned },
      generator: {
        base: await generator.score(bare, exported.rows, run.parts.control.signal),
        aligned: await generator.score(aligned, exported.rows, run.parts.control.signal),
      },
      quantised: training.model.fileType !== "f32",
    });
    if (!verification.faithful) throw new Failure("adapter_unfaithful", verification.message);
    const references = await readReferences(run);
    const calibration = await calibrate(run, training, exported, generator, aligned, references);
    finished = { verification, calibration, sources: references.sources };
  } finally {
    await generator.dispose();
  }
  return writeArtefact(run, training, exported, finished);
}

/** What the inference engine's part adds to the artefact. */
interface Finished {
  verification: Comparison;
  calibration: Calibration;
  sources: References["sources"];
}

/** Answers the dev questions as the served model will answer them, grades the answers, and fits the confidence calibration. */
async function calibrate(
  run: Run,
  training: Training,
  exported: Exported,
  generator: Generator,
  model: ModelRef,
  { exemplars, grounding }: References,
): Promise<Calibration> {
  const { dev } = training.prepared;
  const drift = await measureDrift(run, generator, dev, exemplars);
  const answers: LabelledAnswer[] = [];
  const told: Promise<void>[] = [];
  await generator.evaluate({
    model,
    prompts: dev.map((prompt) => prompt.tokens),
    maxTokens: answerTokens,
    signal: run.parts.control.signal,
    startAt: 0,
    onItem: (index, answer) => {
      const { correct } = run.parts.grade(answer.text, dev[index]!.item);
      // An answer without tokens has no features and is never shown with a score, so it is left out.
      if (answer.steps.length > 0)
        answers.push({
          features: answerFeatures(answer.steps, answer.finishReason),
          correct,
          cluster: dev[index]!.item.cluster,
          ...("outOfDomain" in drift && { outOfDomain: drift.outOfDomain[index]! }),
          ...(grounding && { grounding: groundingSpace(grounding).about(dev[index]!.item.instruction)(answer.text) }),
        });
      told.push(run.progress(index + 1, dev.length, "questions"));
    },
  });
  await Promise.all(told);
  await run.turn();
  return fitCalibration({
    answers,
    featureNames,
    ...run.parts.prior,
    drift,
    grounding,
    identity: {
      base_sha256: run.request.base.sha256,
      adapter_sha256: exported.adapter.sha256,
      template_sha256: sha256(run.tokenizer.chatTemplate ?? ""),
      feature_source: "A",
      engine: run.parts.engine,
    },
    date: run.parts.clock.now(),
  });
}

async function readReferences(run: Run): Promise<References> {
  const thread = openStudyThread(run.parts.control.signal);
  try {
    const { organisation = null } = run.request;
    return await thread.references({ documents: run.snapshot.documents, organisation });
  } finally {
    await thread.close();
  }
}

async function writeArtefact(
  run: Run,
  training: Training,
  exported: Exported,
  { verification, calibration, sources }: Finished,
): Promise<RunResult> {
  const { state, prepared } = training;
  const { chosen } = exported;
  await writeJsonDurably(join(exported.folder, "calibration.json"), calibration);
  await writeJsonDurably(join(exported.folder, "sources.json"), sources);
  const report: Report = reportOf(run, training, exported, verification, calibration);
  await writeJsonDurably(join(exported.folder, "report.json"), report);
  await writeFileDurably(join(exported.folder, "report.html"), reportPage(report));
  const files: RunResult["files"] = [];
  for (const name of artefactFiles) {
    const path = join(exported.folder, name);
    files.push({ name, bytes: (await stat(path)).size, sha256: await sha256OfFile(path) });
  }
  await syncFolder(exported.folder);
  // From here on, a stop is refused, because it would come too late.
  run.parts.control.close();
  const place = join(run.folder, "artefact");
  await rm(place, { recursive: true, force: true });
  await renameDurably(exported.folder, place);
  return {
    format: 1,
    fence: run.request.fence,
    outcome: "completed",
    error: null,
    chosen_step: chosen.step,
    verdict: report.verdict,
    files,
    metrics: {
      loss: state.losses.at(-1) ?? null,
      dev_score: chosen.dev,
      base_dev_score: report.learned.dev?.base.score ?? null,
      adapter_scale: chosen.scale,
      train_tokens: state.processedTokens,
      train_seconds: state.trainSeconds,
      tokens_per_second: state.processedTokens / state.trainSeconds,
      rows: prepared.report.rows,
      overlap: prepared.report.overlap,
    },
  };
}
