// From the snapshot to rows of token ids. What the base itself says on the way (proposed questions, replayed answers) is
// remembered answer by answer, so that a run killed here asks nothing twice and makes the very same rows.
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Piscina } from "piscina";
import { Failure } from "../../base/errors.ts";
import { isErrno, openAppend, sha256, syncFolder } from "../../base/files.ts";
import { formatChat, formatTrainingRow } from "../../engine/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import type { Run } from "./context.ts";
import { type Example, type Message, proposeQuestions, selfReplay } from "./examples.ts";
import { identityOf } from "./request.ts";
import { type Prepared, type PrepareReport, readPrepared, type TrainingRow, writePrepared } from "./rows.ts";

export async function prepare(run: Run): Promise<Prepared> {
  const folder = join(run.folder, "prepared");
  const identity = identityOf(run.request);
  const kept = await readPrepared(folder, identity);
  if (kept !== null) return kept;

  await run.enter("preparing");
  const began = run.parts.clock.monotonicMs();
  const made = await makeRows(run);
  const { rows, tooLong } = await tokenised(run, made.examples);
  if (rows.length === 0) throw new Failure("no_training_rows");
  const dev = run.snapshot.dev.map((item) => ({
    item,
    tokens: formatChat(run.tokenizer, [{ role: "user", content: item.instruction }]),
  }));
  const report: PrepareReport = {
    ...made.report,
    too_long: tooLong,
    rows: rows.length,
    by_kind: countBy(rows.map((row) => row.kind)),
    seconds: (run.parts.clock.monotonicMs() - began) / 1000,
  };
  const prepared = await writePrepared(folder, identity, { rows, dev, report });
  await rm(join(run.folder, rememberedName), { force: true });
  return prepared;
}

type Made = { examples: Example[]; report: Omit<PrepareReport, "too_long" | "rows" | "by_kind" | "seconds"> };

/** Rows as token ids. Long work on this thread, so it lets go of it often: commands and heartbeats go on. */
async function tokenised(run: Run, examples: readonly Example[]): Promise<{ rows: TrainingRow[]; tooLong: number }> {
  const rows: TrainingRow[] = [];
  let tooLong = 0;
  let reported = run.parts.clock.monotonicMs();
  for (const [index, { kind, messages }] of examples.entries()) {
    const row = formatTrainingRow(run.tokenizer, messages);
    if (row.tokens.length > run.request.recipe.rendering.max_seq_len) tooLong++;
    else rows.push({ kind, messages, ...row });
    if (index % 32 === 31) await setImmediate();
    if (run.parts.clock.monotonicMs() - reported > 1000) {
      reported = run.parts.clock.monotonicMs();
      await run.turn();
      await run.progress(index + 1, examples.length, "rows");
    }
  }
  return { rows, tooLong };
}

/** Rows by rules, proposed and replayed, without those that give a dev question away. */
async function makeRows(run: Run): Promise<Made> {
  const { documents, dev } = run.snapshot;
  const { dataset, training } = run.request.recipe;
  const questions = dev.map((item) => item.instruction);
  const thread = openThread(run);
  const speaker = await openSpeaker(run);
  try {
    const ruled = await thread.make({ documents, phrasings: dataset.phrasings, seed: training.seed });
    const proposed = await proposeQuestions(documents, speaker.generate, {
      perChunk: dataset.proposals_per_chunk,
      existing: ruled.examples,
    });
    const own = [...ruled.examples, ...proposed.examples];
    const kept = without(own, await thread.overlapping({ questions, examples: own }));
    // The share is of all rows: n replayed beside m others make n / (n + m).
    const replayed = await selfReplay(speaker.generate, {
      prompts: run.parts.replayPrompts,
      count: Math.round((kept.length * dataset.replay_share) / (1 - dataset.replay_share)),
      seed: training.seed,
    });
    const all = [...kept, ...replayed];
    const examples = without(all, await thread.overlapping({ questions, examples: all }));
    return {
      examples,
      report: {
        examples: ruled.report,
        proposals: proposed.report,
        overlap_dropped: own.length + replayed.length - examples.length,
        overlap: (await thread.overlapping({ questions, examples })).length,
      },
    };
  } finally {
    await speaker.close();
    await thread.close();
  }
}

const without = (examples: readonly Example[], dropped: readonly number[]): Example[] => {
  const gone = new Set(dropped);
  return examples.filter((_, index) => !gone.has(index));
};

type Work = typeof import("./rows.worker.ts");
interface Thread {
  make(task: Parameters<Work["make"]>[0]): Promise<ReturnType<Work["make"]>>;
  overlapping(task: Parameters<Work["overlapping"]>[0]): Promise<ReturnType<Work["overlapping"]>>;
  close(): Promise<void>;
}

function openThread(run: Run): Thread {
  const { signal } = run.parts.control;
  const pool = new Piscina({
    filename: new URL("./rows.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
  });
  return {
    make: (task) => pool.run(task, { name: "make", signal }),
    overlapping: (task) => pool.run(task, { name: "overlapping", signal }),
    close: () => pool.destroy(),
  };
}

const rememberedName = "answers.jsonl";

interface Speaker {
  /** A greedy answer of the base. */
  generate(messages: Message[], options: { maxTokens: number }): Promise<string>;
  close(): Promise<void>;
}

/** The base, speaking for itself; loaded with the first answer that is not remembered. */
async function openSpeaker(run: Run): Promise<Speaker> {
  const path = join(run.folder, rememberedName);
  const remembered = await readRemembered(path);
  const file = await openAppend(path);
  await syncFolder(run.folder);
  const model: ModelRef = { baseId: run.request.base.id, basePath: run.request.base.path };
  let generator: Generator | null = null;
  let answered = 0;
  return {
    async generate(messages, { maxTokens }) {
      const key = sha256(JSON.stringify({ messages, maxTokens }));
      let answer = remembered.get(key);
      if (answer === undefined) {
        await run.turn();
        if (generator === null) {
          generator = await run.parts.openGenerator();
          await generator.load(model);
        }
        answer = await greedy(run, generator, model, messages, maxTokens);
        remembered.set(key, answer);
        await file.appendFile(`${JSON.stringify({ key, answer })}\n`);
      }
      await run.progress(++answered, null, "answers");
      return answer;
    },
    async close() {
      await file.close();
      await generator?.dispose();
    },
  };
}

async function greedy(run: Run, generator: Generator, model: ModelRef, messages: Message[], maxTokens: number) {
  let text = "";
  const { signal } = run.parts.control;
  for await (const token of generator.generate({
    model,
    prompt: formatChat(run.tokenizer, messages),
    maxTokens,
    sampling: {
      temperature: 0,
      topK: 0,
      topP: 1,
      minP: 0,
      seed: 0,
      repetitionPenalty: 1,
      frequencyPenalty: 0,
      presencePenalty: 0,
      logitBias: new Map(),
    },
    stopStrings: [],
    ignoreEos: false,
    priority: "generation",
    owner: run.request.alignment_id,
    signal,
  }))
    text += token.text;
  signal.throwIfAborted();
  return text;
}

/** Whole lines only: the last one may be torn. */
async function readRemembered(path: string): Promise<Map<string, string>> {
  const remembered = new Map<string, string>();
  const text = await readFile(path, "utf8").catch((error) => {
    if (isErrno(error, "ENOENT")) return "";
    throw error;
  });
  for (const line of text.split("\n"))
    try {
      const { key, answer } = JSON.parse(line) as { key: string; answer: string };
      remembered.set(key, answer);
    } catch {}
  return remembered;
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
