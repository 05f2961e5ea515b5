// Self-replay: what the base is asked to go on with, and which tokens of it are learned.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { formatChat } from "../../src/engine/format/chat-format.ts";
import type { Trainer } from "../../src/engine/train/trainer.ts";
import type { Run } from "../../src/run/context.ts";
import { askTeacher, joinSoftTargets, withSoftTargets } from "../../src/run/distil.ts";
import { openMemory } from "../../src/run/folder/memory.ts";
import type { PrepareReport } from "../../src/run/folder/rows.ts";
import {
  continued,
  isReplayed,
  naturalShareOf,
  type Opening,
  openingsOf,
  replayRows,
  rowOf,
} from "../../src/run/replay.ts";
import { preparedForm, type TrainingRow, toTrainer } from "../../src/run/rows.ts";
import { keep } from "../../src/run/stage.ts";
import { overridden, partsOf, tinyModel } from "./run-harness.ts";

const parts = partsOf();
const { tokenizer, dispose } = await parts.openTokenizer(tinyModel);
const run = { parts, tokenizer };
let trainer: Trainer;
before(async () => {
  trainer = parts.startTrainer();
  // Rows are drawn in the precision of training, which these tests compare with what the base says in single precision.
  await trainer.open({ path: tinyModel, threads: 1, memoryBytes: 0, precision: "fp32" });
});
after(async () => {
  await trainer.close();
  await dispose();
});

test("two of three openings are prose, each list goes round, and a seed gives its own order", () => {
  const openings = openingsOf(run, 12, 5, 1 / 4);
  assert.deepEqual(openings, openingsOf(run, 12, 5, 1 / 4));
  assert.deepEqual(
    openings.map((opening) => opening.kind === "prose"),
    Array.from({ length: 12 }, (_, index) => index % 3 > 0),
  );
  const texts = (kind: Opening["kind"]): string[] =>
    openings.filter((opening) => opening.kind === kind).map((opening) => opening.text);
  // Eight pieces of prose over two openings.
  assert.deepEqual(
    parts.replayOpenings.map((text) => texts("prose").filter((other) => other === text).length),
    [4, 4],
  );
  const orders = new Set([1, 2, 3, 4, 5, 6].map((seed) => JSON.stringify(openingsOf(run, 12, seed, 1 / 4))));
  assert.ok(orders.size > 1);
});

test("one of four chats asks as its prompt stands, the others by some of its words, as rows of documents do", () => {
  const replayPrompts = ["Why is granite harder than limestone?", "Who wrote the opera Fidelio?", "Go on."];
  const rounds = 400;
  const openings = openingsOf({ tokenizer, parts: { ...parts, replayPrompts } }, 3 * 3 * rounds, 5, 1 / 4);
  const chats = openings.filter(({ kind }) => kind === "replay").map(({ text }) => text);
  assert.equal(chats.length, 3 * rounds, "the list goes round");
  const times = replayPrompts.slice(0, 2).map((prompt) => chats.filter((text) => text === prompt).length);
  // Of 400 draws with a chance of a quarter, more than 60 beside 100 are some seven standard deviations.
  for (const count of times) assert.ok(Math.abs(count - rounds / 4) < 60, `${times}`);
  const asked = chats.filter((text) => !replayPrompts.includes(text));
  // A prompt whose words are all short has none that tells what it is about.
  assert.ok(
    asked.length > rounds &&
      asked.every((text) => /granite|harder|limestone|wrote|opera|fidelio|why|than|who|the/.test(text)),
  );
  assert.ok(new Set(asked).size > 6, "round again, other words ask");
});

test("chats are asked as people ask for the share of the documents' rows that are, and for a quarter at least", () => {
  const rows = (kinds: string[]): { kind: string }[] => kinds.map((kind) => ({ kind }));
  assert.equal(naturalShareOf(rows(["writer", "asked", "keywords", "cell"])), 1 / 2);
  assert.equal(naturalShareOf(rows(["writer", "keywords", "cell", "gap", "gap", "gap"])), 1 / 4);
  assert.equal(naturalShareOf([]), 1 / 4);
});

test("of a chat and of prose only what was said is learned", () => {
  const chat = openingsOf(run, 1, 1, 1)[0]!;
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
  assert.ok(isReplayed(prose) && isReplayed(row) && !isReplayed({ kind: "asked" }));
});

test("what is drawn follows from the seed and the weights alone", async () => {
  const openings = openingsOf(run, 4, 2, 1 / 4);
  const draw = async (seed: number): Promise<number[][]> =>
    (await continued(run, trainer, null, openings, { maxTokens: 8, seed })).map((row) => [...row.tokens]);
  const first = await draw(1);
  assert.deepEqual(await draw(1), first);
  assert.notDeepEqual(await draw(2), first);
  assert.ok(first.every((tokens) => tokens.length >= 1 && tokens.length <= 8));
});

/** Six tokens a row, four likeliest tokens of each place; `over` changes what the recipe asks for. */
const runOf = (over: Record<string, number> = {}): Run =>
  ({
    ...run,
    request: { recipe: { training: { seed: 3 }, dataset: { replay_tokens: 6, replay_top_k: 4, ...over } } },
    turn: async () => {},
    progress: async () => {},
  }) as unknown as Run;

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-replay-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Rows of two rungs, by what the folder remembers. */
async function replayed(folder: string, asked: Run, by: Trainer = trainer): Promise<TrainingRow[]> {
  const memory = await openMemory(folder);
  try {
    return await replayRows(asked, by, [2, 3], { memory, natural: 1 / 4 });
  } finally {
    await memory.close();
  }
}

const deaf = (): Trainer => overridden(trainer, { sample: () => Promise.reject(new Error("asked again")) });

test("a row's soft targets are what asking the base for that row would say", () =>
  inFolder(async (folder) => {
    const rows = await replayed(folder, runOf());
    assert.deepEqual(
      rows.map((row) => row.rung),
      [0, 0, 1, 1, 1],
    );
    const { top } = await askTeacher(trainer, toTrainer(rows, 1), 4);
    const joined = joinSoftTargets(
      4,
      rows.map((row) => row.softTargets!),
    );
    // Openings included: both say nothing there.
    assert.deepEqual(joined.top.tokens, top.tokens);
    for (const [at, logprob] of top.logprobs.entries())
      assert.ok(Math.abs(joined.top.logprobs[at]! - logprob) <= 1e-4, `${at}: ${joined.top.logprobs[at]}, ${logprob}`);
    const none = await replayed(folder, runOf({ replay_top_k: 0 }));
    assert.ok(none.every((row) => row.softTargets === undefined));
    assert.deepEqual(
      none.map((row) => row.tokens),
      rows.map((row) => row.tokens),
    );
  }));

test("no more than 4,096 rows are drawn: the first come again where more are wanted", () =>
  inFolder(async (folder) => {
    const memory = await openMemory(folder);
    try {
      const rows = await replayRows(runOf({ replay_tokens: 1, replay_top_k: 0 }), trainer, [4096, 3], {
        memory,
        natural: 1 / 4,
      });
      assert.equal(rows.length, 4099);
      const tokens = rows.map((row) => [...row.tokens]);
      assert.deepEqual(tokens.slice(4096), tokens.slice(0, 3));
      assert.deepEqual(
        rows.slice(4094).map((row) => row.rung),
        [0, 0, 1, 1, 1],
      );
    } finally {
      await memory.close();
    }
  }));

test("a run killed while it prepares makes the very same rows and soft targets, and asks nothing twice", () =>
  inFolder(async (folder) => {
    const rows = await replayed(folder, runOf());
    assert.deepEqual(await replayed(folder, runOf(), deaf()), rows);
    await assert.rejects(replayed(folder, runOf({ replay_top_k: 5 }), deaf()), /asked again/, "another question");
  }));

test("a call holds no more rows than an answer can", () =>
  inFolder(async (folder) => {
    const calls: number[] = [];
    const narrow = overridden(trainer, {
      // Two rows: of each a length, six tokens with their log-probs, and four tokens with theirs for each of the six.
      hello: async () => {
        const hello = await trainer.hello();
        return { ...hello, limits: { ...hello.limits, maxPayloadBytes: 2 * 4 * (1 + 6 * 2 + 6 * 4 * 2) + 3 } };
      },
      sample: (adapter, prompts, sampling) => {
        assert.ok(sampling.asTrained, "in the precision of training");
        calls.push(prompts.rowLengths.length);
        return trainer.sample(adapter, prompts, sampling);
      },
    });
    assert.equal((await replayed(folder, runOf(), narrow)).length, 5);
    assert.deepEqual(calls, [2, 2, 1]);
  }));

test("what the base said is kept with its rows, and teaches what asking anew would teach", () =>
  inFolder(async (folder) => {
    const rows = await replayed(folder, runOf());
    const kept = [rowOf(run, openingsOf(run, 1, 3, 1 / 4)[0]!, [5, 6]), ...rows];
    const made = { rows: kept, dev: [], report: {} as PrepareReport };
    const back = await preparedForm.read(
      await keep(join(folder, "prepared"), "rows", (within) => preparedForm.write(within, made)),
    );
    assert.deepEqual(back.rows, kept);
    const asked = toTrainer(rows, 1);
    const known = withSoftTargets(
      asked,
      joinSoftTargets(
        4,
        back.rows.flatMap((row) => row.softTargets ?? []),
      ),
    ).soft!;
    const anew = withSoftTargets(asked, await askTeacher(trainer, asked, 4)).soft!;
    assert.deepEqual(known.targets, anew.targets);
    for (const [at, weight] of anew.weights.entries()) assert.ok(Math.abs(known.weights[at]! - weight) <= 1e-4);
  }));
