// The trainer, of which rows of documents are trained on soft targets: at each token of the answer, what the base says there when passage
// and answer are in its view. Rows that have soft targets already, those of replay, keep them.
import { join } from "node:path";
import { createLog } from "../../../../src/base/log.ts";
import { formatTrainingRow } from "../../../../src/engine/format/chat-format.ts";
import { openTokenizer } from "../../../../src/engine/serve/generator.ts";
import { restOfVocabulary, type Trainer, type WeightedRows } from "../../../../src/engine/train/trainer.ts";
import { startTrainer as start } from "../../../../src/engine/train/trainer-process.ts";
import { readRequest, readSnapshot } from "../../../../src/run/folder/request.ts";
import { preparedFolder, rowTexts } from "../../../../src/run/folder/rows.ts";
import { isReplayed } from "../../../../src/run/replay.ts";
import { passagesOf } from "../../../../src/study/passages.ts";
import type { StudyRow } from "../../../../src/study/row.ts";
import { readJsonLines } from "../../../helpers/json-lines.ts";

/** Likeliest tokens of a position that are its targets; all others are one more. As many as `standard` has for replayed rows. */
const topK = 64;
const folder = process.argv[3]!;

/** A row as the base sees it, with passage and answer before the question. */
interface Shown {
  tokens: Int32Array;
  weights: Float32Array;
}

export const startTrainer: typeof start = (options) => {
  const inner = start(options);
  let shown: Promise<ReadonlyMap<string, Shown>> | null = null;
  /** Resolves when all passes so far were sent. The optimizer's step is sent after them, although its caller does not wait. */
  let sent: Promise<unknown> = Promise.resolve();
  const forwardBackward: Trainer["forwardBackward"] = async (adapter, rows) => {
    shown ??= shownRows();
    const passed = shown
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

/** Every row of the documents by its tokens, as the base sees it. */
async function shownRows(): Promise<ReadonlyMap<string, Shown>> {
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
  return shown;
}

async function softened(
  trainer: Trainer,
  rows: WeightedRows,
  shown: ReadonlyMap<string, Shown>,
): Promise<WeightedRows> {
  const places = topK + 1;
  const { tokens, rowLengths } = rows;
  if (rows.soft !== undefined && rows.soft.targets.length !== tokens.length * places)
    throw new Error("replayed rows have another number of soft targets");
  const soft = rows.soft ?? {
    targets: new Int32Array(tokens.length * places),
    weights: new Float32Array(tokens.length * places),
  };
  const weights = rows.weights.slice();
  let from = 0;
  const own: { from: number; seen: Shown; trained: number[] }[] = [];
  for (const length of rowLengths) {
    const end = from + length;
    const trained = Array.from({ length }, (_, at) => from + at).filter((at) => rows.weights[at] !== 0);
    if (trained.length > 0) {
      const seen = shown.get(keyOf(tokens.slice(from, end)));
      if (seen === undefined) throw new Error("a row that is none of the documents'");
      own.push({ from, seen, trained });
    }
    from = end;
  }
  if (own.length === 0) return rows;
  const { top } = await trainer.forward(
    null,
    {
      tokens: Int32Array.from(own.flatMap(({ seen }) => [...seen.tokens])),
      rowLengths: Int32Array.from(own, ({ seen }) => seen.tokens.length),
      weights: Float32Array.from(own.flatMap(({ seen }) => [...seen.weights])),
    },
    topK,
  );
  let at = 0;
  for (const { seen, trained } of own) {
    const answer = [...seen.weights.keys()].filter((place) => seen.weights[place] !== 0);
    if (answer.length !== trained.length) throw new Error("an answer has other tokens in view of the passage");
    for (const [index, place] of trained.entries()) {
      const taken = weights[place]!;
      weights[place] = 0;
      let rest = 1;
      for (let k = 0; k < topK; k++) {
        const entry = (at + answer[index]!) * topK + k;
        const probability = Math.exp(top.logprobs[entry]!);
        soft.targets[place * places + k] = top.tokens[entry]!;
        soft.weights[place * places + k] = taken * probability;
        rest -= probability;
      }
      soft.targets[place * places + topK] = restOfVocabulary;
      soft.weights[place * places + topK] = taken * Math.max(0, rest);
    }
    at += seen.tokens.length;
  }
  return { ...rows, weights, soft };
}
