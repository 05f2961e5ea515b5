// Self-replay: what the base is asked to go on with, and which tokens of it are learned.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { askTeacher, cutLesson, joinLessons, taught } from "../../src/domain/alignments/distil.ts";
import { continued, isReplayed, type Opening, openingsOf, rowOf } from "../../src/domain/alignments/replay.ts";
import {
  type PrepareReport,
  readPrepared,
  type TrainingRow,
  toTrainer,
  writePrepared,
} from "../../src/domain/alignments/rows.ts";
import { formatChat } from "../../src/engine/chat-format.ts";
import type { Trainer } from "../../src/engine/trainer.ts";
import { partsOf, tinyModel } from "./run-harness.ts";

const parts = partsOf();
const { tokenizer, dispose } = await parts.openTokenizer(tinyModel);
const run = { parts, tokenizer };
let trainer: Trainer;
before(async () => {
  trainer = parts.startTrainer();
  await trainer.open({ path: tinyModel, threads: 1, memoryBytes: 0 });
});
after(async () => {
  await trainer.close();
  await dispose();
});

test("two of three openings are prose, each list goes round, and a seed gives its own order", () => {
  const openings = openingsOf(run, 12, 5);
  assert.deepEqual(openings, openingsOf(run, 12, 5));
  assert.deepEqual(
    openings.map((opening) => opening.kind === "prose"),
    Array.from({ length: 12 }, (_, index) => index % 3 > 0),
  );
  const texts = (kind: Opening["kind"]): string[] =>
    openings.filter((opening) => opening.kind === kind).map((opening) => opening.text);
  // Four chats over three prompts, eight pieces of prose over two openings.
  for (const [kind, all] of [["replay", parts.replayPrompts] as const, ["prose", parts.replayOpenings] as const]) {
    const said = texts(kind);
    const counts = all.map((text) => said.filter((other) => other === text).length);
    assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${kind} ${counts}`);
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      said.length,
    );
  }
  const orders = new Set([1, 2, 3, 4, 5, 6].map((seed) => JSON.stringify(openingsOf(run, 12, seed))));
  assert.ok(orders.size > 1);
});

test("of a chat and of prose only what was said is learned", () => {
  const chat = openingsOf(run, 1, 1)[0]!;
  assert.deepEqual(chat.tokens, formatChat(tokenizer, [{ role: "user", content: chat.text }]));
  const row = rowOf(run, chat, [5, 6]);
  assert.deepEqual([...row.tokens], [...chat.tokens, 5, 6]);
  assert.deepEqual([...row.weights], [...chat.tokens.map(() => 0), 1, 1]);
  assert.deepEqual(
    row.messages.map((message) => message.role),
    ["user", "assistant"],
  );
  const prose = rowOf(run, { kind: "prose", text: "The sea", tokens: [7, 8, 9] }, [5]);
  assert.deepEqual([...prose.weights], [0, 0, 0, 1]);
  assert.deepEqual(
    rowOf(run, chat, [5, 6], Float32Array.of(-1, -2)).drawn,
    Float32Array.of(...chat.tokens.map(() => 0), -1, -2),
  );
  assert.ok(isReplayed(prose) && isReplayed(row) && !isReplayed({ kind: "asked" }));
});

test("what is drawn follows from the seed and the weights alone", async () => {
  const openings = openingsOf(run, 4, 2);
  const draw = async (seed: number): Promise<number[][]> =>
    (await continued(run, trainer, null, openings, { maxTokens: 8, seed })).map((row) => [...row.tokens]);
  const first = await draw(1);
  assert.deepEqual(await draw(1), first);
  assert.notDeepEqual(await draw(2), first);
  assert.ok(first.every((tokens) => tokens.length >= 1 && tokens.length <= 8));
});

test("what the base said beforehand is kept with its rows, and teaches what asking anew would teach", async () => {
  const openings = openingsOf(run, 5, 3);
  const said = await continued(run, trainer, null, openings, { maxTokens: 6, seed: 1 });
  const rows = openings.map((opening, at) => rowOf(run, opening, said[at]!.tokens));
  const asked = toTrainer(rows, 1);
  const lesson = await askTeacher(trainer, asked, 4, null);
  const lessons = cutLesson(lesson, asked);
  const bare = rowOf(run, openings[0]!, [5, 6]);
  const kept: TrainingRow[] = [bare, ...rows.map((row, at) => ({ ...row, lesson: lessons[at]! }))];
  const folder = mkdtempSync(join(tmpdir(), "plumbline-rows-"));
  try {
    await writePrepared(join(folder, "prepared"), "request", { rows: kept, dev: [], report: {} as PrepareReport });
    const back = (await readPrepared(join(folder, "prepared"), "request"))!;
    assert.deepEqual(back.rows, kept);
    const read = back.rows.flatMap((row) => row.lesson ?? []);
    assert.deepEqual(taught(asked, joinLessons(4, read)), taught(asked, lesson));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
