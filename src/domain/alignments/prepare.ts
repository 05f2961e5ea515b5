// From the snapshot to rows of token ids. What the base itself says on the way (proposed questions, replayed answers) is
// remembered answer by answer, so that a run killed here asks nothing twice and makes the very same rows.
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Failure } from "../../base/errors.ts";
import { formatChat, formatTrainingRow } from "../../engine/chat-format.ts";
import type { Generator, ModelRef } from "../../engine/generator.ts";
import type { Run } from "./context.ts";
import { type Example, type Message, proposeQuestions } from "./examples.ts";
import { fewerOfKnown, knownFacts } from "./known.ts";
import { type Memory, openMemory, removeMemory } from "./memory.ts";
import { replayRows } from "./replay.ts";
import { identityOf } from "./request.ts";
import { type Prepared, type PrepareReport, readPrepared, type TrainingRow, writePrepared } from "./rows.ts";
import { openRowsThread } from "./rows-thread.ts";

export async function prepare(run: Run): Promise<Prepared> {
  const folder = join(run.folder, "prepared");
  const identity = identityOf(run.request);
  const kept = await readPrepared(folder, identity);
  if (kept !== null) return kept;

  await run.enter("preparing");
  const began = run.parts.clock.monotonicMs();
  const made = await makeRows(run);
  const { rows: own, tooLong } = await tokenised(run, made.examples);
  if (own.length === 0) throw new Failure("no_training_rows");
  const rows = [...own, ...made.replayed];
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
  await removeMemory(run.folder);
  return prepared;
}

type Made = {
  examples: Example[];
  replayed: TrainingRow[];
  report: Omit<PrepareReport, "too_long" | "rows" | "by_kind" | "seconds">;
};

/** Rows as token ids. Long work on this thread, so it lets go of it often: commands and heartbeats go on. */
async function tokenised(run: Run, examples: readonly Example[]): Promise<{ rows: TrainingRow[]; tooLong: number }> {
  const rows: TrainingRow[] = [];
  let tooLong = 0;
  let reported = run.parts.clock.monotonicMs();
  for (const [index, { kind, messages, rung }] of examples.entries()) {
    const row = formatTrainingRow(run.tokenizer, messages);
    if (row.tokens.length > run.request.recipe.rendering.max_seq_len) tooLong++;
    else rows.push({ kind, messages, rung, ...row });
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
  const { phrasings, rungs = 1 } = dataset;
  const questions = dev.map((item) => item.instruction);
  const thread = openRowsThread(run.parts.control.signal);
  const memory = await openMemory(run.folder);
  const speaker = openSpeaker(run, memory);
  try {
    const ruled = await thread.make({ documents, phrasings, rungs, seed: training.seed });
    const proposed = await proposeQuestions(documents, speaker.generate, {
      perChunk: dataset.proposals_per_chunk,
      existing: ruled.examples,
    });
    const own = [...ruled.examples, ...proposed.examples];
    const kept = without(own, await thread.overlapping({ questions, examples: own }));
    await speaker.close();
    const { taught, known, said } = await askBase(run, kept, memory);
    const sound = without(said, await thread.overlapping({ questions, examples: said.map(exampleOf) }));
    const all = [...taught, ...sound.map(exampleOf)];
    return {
      examples: taught,
      replayed: sound,
      report: {
        examples: ruled.report,
        proposals: proposed.report,
        known_facts: known,
        overlap_dropped: own.length - kept.length + said.length - sound.length,
        overlap: (await thread.overlapping({ questions, examples: all })).length,
      },
    };
  } finally {
    await speaker.close();
    await memory.close();
    await thread.close();
  }
}

/** What the base knows already, and what it says of itself: by the trainer, which decodes many at once. */
async function askBase(run: Run, examples: readonly Example[], memory: Memory) {
  const { base, budget, recipe } = run.request;
  const { replay_share: share, probe_known: probes = false } = recipe.dataset;
  if (share === 0 && !probes) return { taught: [...examples], known: null, said: [] };
  const trainer = run.parts.startTrainer();
  try {
    await trainer.open({ path: base.path, threads: budget.threads, memoryBytes: budget.memory_bytes });
    const known = probes ? await knownFacts(run, trainer, examples, memory) : null;
    const taught = known === null ? [...examples] : fewerOfKnown(examples, known);
    // The share is of a rung's rows: n replayed beside m others make n / (n + m).
    const inRung: number[] = [];
    for (const { rung } of taught) inRung[rung] = (inRung[rung] ?? 0) + 1;
    const counts = Array.from(inRung, (own = 0) => Math.round((own * share) / (1 - share)));
    const said = await replayRows(run, trainer, counts, memory);
    return { taught, known: known === null ? null : known.size, said };
  } finally {
    await trainer.close();
  }
}

const exampleOf = ({ kind, messages, rung }: TrainingRow): Example => ({
  kind,
  messages,
  rung,
  source: null,
  fact: "replay",
});

const without = <T>(rows: readonly T[], dropped: readonly number[]): T[] => {
  const gone = new Set(dropped);
  return rows.filter((_, index) => !gone.has(index));
};

interface Speaker {
  /** A greedy answer of the base. */
  generate(messages: Message[], options: { maxTokens: number }): Promise<string>;
  close(): Promise<void>;
}

/** The base, speaking for itself; loaded with the first answer that is not remembered. */
function openSpeaker(run: Run, memory: Memory): Speaker {
  const model: ModelRef = { baseId: run.request.base.id, basePath: run.request.base.path };
  let generator: Generator | null = null;
  let answered = 0;
  return {
    async generate(messages, { maxTokens }) {
      const key = JSON.stringify({ messages, maxTokens });
      let answer = memory.get(key);
      if (answer === undefined) {
        await run.turn();
        if (generator === null) {
          generator = await run.parts.openGenerator();
          await generator.load(model);
        }
        answer = await greedy(run, generator, model, messages, maxTokens);
        await memory.put(key, answer);
      }
      await run.progress(++answered, null, "answers");
      return answer;
    },
    async close() {
      await generator?.dispose();
      generator = null;
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

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
