// The speaker over the real trainer on a tiny model: what it does with texts that are longer than a row of the trainer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createSpeaker } from "../../src/run/speaker.ts";
import { memoryInProcess } from "../helpers/memory.ts";
import { overridden, partsOf, tinyModel } from "./run-harness.ts";

/** The speaker of the base, its tokenizer, and the lengths of the rows that it had scored. */
async function opened(t: { after(work: () => Promise<void>): void }) {
  const parts = partsOf();
  const trainer = parts.startTrainer();
  t.after(() => trainer.close());
  const { tokenizer, dispose } = await parts.openTokenizer(tinyModel);
  t.after(async () => dispose());
  await trainer.open({ path: tinyModel, threads: 1, memoryBytes: 0 });
  const scored: number[] = [];
  const heard = overridden(trainer, {
    score: (adapter, rows, from) => {
      scored.push(...rows.rowLengths);
      return trainer.score(adapter, rows, from);
    },
  });
  const speaker = createSpeaker(
    { turn: async () => {} },
    { name: "base", tokenizer, memory: memoryInProcess(), trainer: async () => heard, adapter: null },
  );
  return { speaker, tokenizer, scored };
}

const options = { maxTokens: 4, temperature: 0, seed: 1 };

test("a text that is longer than the context is scored as far as it fits, and the rows beside it as ever", async (t) => {
  const { speaker, tokenizer, scored } = await opened(t);
  const context = tokenizer.trainContext;
  const short = { prompt: "Ferry\n\n", text: "It leaves at 8 from the pier in Ålesund – 料金 is 3 €." };
  const long = { prompt: "Code\n\n", text: '{"key": "välue €"},\n'.repeat(300) };
  const [alone] = await speaker.score([short]);
  const [beside, cut] = await speaker.score([short, long]);
  assert.deepEqual(beside, alone);
  assert.deepEqual(scored.toSorted((a, b) => a - b).at(-1), context);
  const kept = context - tokenizer.encode(long.prompt, false).length;
  assert.deepEqual([cut!.ends.length, cut!.logprobs.length], [kept, kept]);
  assert.ok(cut!.logprobs.every((nats) => nats < 0));

  // The ends are those of the decoded beginnings, also within characters of several tokens.
  for (const [{ text }, { ends }] of [[short, alone!] as const, [long, cut!] as const]) {
    const tokens = tokenizer.encode(text, false).slice(0, ends.length);
    assert.deepEqual(
      ends,
      tokens.map((_, at) => tokenizer.decode(tokens.slice(0, at + 1)).length),
    );
  }
});

test("a prompt that is longer than the context gives up its beginning, so that the answer after it has its score", async (t) => {
  const { speaker, tokenizer, scored } = await opened(t);
  const before = "one row of a log ".repeat(200);
  const [whole] = await speaker.score([{ prompt: `${before}Answer:`, text: " 8" }]);
  assert.equal(whole!.logprobs.length, tokenizer.encode(" 8", false).length);
  assert.deepEqual(scored, [tokenizer.trainContext]);
});

test("a prompt that leaves no room for an answer has an empty one", async (t) => {
  const { speaker } = await opened(t);
  const [long, short] = ["word ".repeat(600), "word"];
  const said = await speaker.say([long, short], options);
  assert.deepEqual(said, ["", ...(await speaker.say([short], options))]);
  assert.deepEqual(await speaker.chat([long, short], options), ["", ...(await speaker.chat([short], options))]);
});
