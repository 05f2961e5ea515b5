// The trainer, of which rows of documents are trained on soft targets: at each token of the answer, what the base says there when passage
// and answer are in its view. Rows that have soft targets already, those of replay, keep them.
import { join } from "node:path";
import { createLog } from "../../../../src/base/log.ts";
import { formatTrainingRow } from "../../../../src/engine/format/chat-format.ts";
import { openTokenizer } from "../../../../src/engine/serve/generator.ts";
import type { Trainer, WeightedRows } from "../../../../src/engine/train/trainer.ts";
import { startTrainer as start } from "../../../../src/engine/train/trainer-process.ts";
import { askTeacher, withSoftTargets } from "../../../../src/run/distil.ts";
import { readRequest, readSnapshot } from "../../../../src/run/folder/request.ts";
import { preparedFolder, rowTexts } from "../../../../src/run/folder/rows.ts";
import { isReplayed } from "../../../../src/run/replay.ts";
import { type TrainingRow, toTrainer } from "../../../../src/run/rows.ts";
import { passagesOf } from "../../../../src/study/passages.ts";
import type { StudyRow } from "../../../../src/study/row.ts";
import { readJsonLines } from "../../../helpers/json-lines.ts";

const folder = process.argv[3]!;

/** A row as the base sees it, with passage and answer before the question. */
type Shown = Pick<TrainingRow, "tokens" | "weights">;

interface Documents {
  /** Every row of the documents by its tokens, as the base sees it. */
  rows: ReadonlyMap<string, Shown>;
  /** Likeliest tokens that are a position's targets; as many as replayed rows have. */
  topK: number;
}

export const startTrainer: typeof start = (options) => {
  const inner = start(options);
  let documents: Promise<Documents> | null = null;
  /** Resolves when all passes so far were sent. The optimizer's step is sent after them, although its caller does not wait. */
  let sent: Promise<unknown> = Promise.resolve();
  const forwardBackward: Trainer["forwardBackward"] = async (adapter, rows) => {
    documents ??= readDocuments();
    const passed = documents
      .then((known) => softened(inner, rows, known))
      .then((soft) => [inner.forwardBackward(adapter, soft)]);
    sent = Promise.all([sent, passed]);
    return (await passed)[0]!;
  };
  const optimStep: Trainer["optimStep"] = async (...given) => {
    await sent;
    return inner.optimStep(...given);
  };
  const own: Partial<Trainer> = { forwardBackward, optimStep };
  return new Proxy(inner, {
    get(target, name) {
      const value = (Reflect.get(own, name) ?? Reflect.get(target, name, target)) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
};

const keyOf = (tokens: Int32Array): string => tokens.join();

async function readDocuments(): Promise<Documents> {
  const request = await readRequest(folder);
  const { documents } = await readSnapshot(folder, request);
  const passages = passagesOf(documents, request.organisation ?? null);
  const { tokenizer, dispose } = await openTokenizer(
    request.base.path,
    createLog("error", () => {}),
  );
  const rows = readJsonLines<StudyRow>(join(folder, preparedFolder, rowTexts)).filter((row) => !isReplayed(row));
  const shown = new Map(
    rows.map(({ messages, target }): [string, Shown] => {
      const passage = passages.find(({ id }) => target === id || target.startsWith(`${id}:`));
      if (passage === undefined) throw new Error(`no passage of ${target}`);
      const [asked, answer] = messages as [(typeof messages)[0], (typeof messages)[0]];
      const inView = `${passage.text}\n\n${answer.content}\n\n${asked.content}`;
      return [
        keyOf(formatTrainingRow(tokenizer, messages).tokens),
        formatTrainingRow(tokenizer, [{ ...asked, content: inView }, answer]),
      ];
    }),
  );
  await dispose();
  return { rows: shown, topK: request.recipe.dataset.replay_top_k! };
}

/** The rows of the documents among `rows` are those whose tokens have weights; replayed rows have soft targets in their place. */
async function softened(trainer: Trainer, rows: WeightedRows, { rows: known, topK }: Documents): Promise<WeightedRows> {
  const seen: Shown[] = [];
  let from = 0;
  for (const length of rows.rowLengths) {
    const end = from + length;
    if (rows.weights.subarray(from, end).some((weight) => weight !== 0)) {
      const row = known.get(keyOf(rows.tokens.subarray(from, end)));
      if (row === undefined) throw new Error("a row that is none of the documents'");
      seen.push(row);
    }
    from = end;
  }
  if (seen.length === 0) return rows;
  const said = await askTeacher(trainer, toTrainer(seen, 1), topK);
  if (said.top.tokens.length !== topK * rows.weights.filter((weight) => weight !== 0).length)
    throw new Error("an answer has other tokens in view of the passage");
  const { soft, ...made } = withSoftTargets(rows, said);
  const { targets, weights } = rows.soft ?? soft!;
  // A place has targets of one of the two.
  return {
    ...made,
    soft: {
      targets: soft!.targets.map((target, at) => target || targets[at]!),
      weights: soft!.weights.map((weight, at) => weight || weights[at]!),
    },
  };
}
