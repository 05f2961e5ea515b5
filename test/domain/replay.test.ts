// Self-replay: what the base is asked to go on with, and which tokens of it are learned.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { continued, isReplayed, type Opening, openingsOf, rowOf } from "../../src/domain/alignments/replay.ts";
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

test("every second opening is prose, each list goes round, and a seed gives its own order", () => {
  const openings = openingsOf(run, 12, 5);
  assert.deepEqual(openings, openingsOf(run, 12, 5));
  assert.deepEqual(
    openings.map((opening) => opening.kind === "prose"),
    Array.from({ length: 12 }, (_, index) => index % 2 === 1),
  );
  const texts = (kind: Opening["kind"]): string[] =>
    openings.filter((opening) => opening.kind === kind).map((opening) => opening.text);
  // Six chats over three prompts, six pieces of prose over two openings.
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

test("a chat is learned from its answer on, prose from its second token on", () => {
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
  assert.deepEqual([...prose.weights], [0, 1, 1, 1]);
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
