// What an evaluation loses when a busy loop takes one core of the machine, niced as a run is or of equal rights: steps of eight answers
// in a fixed lane, with all threads at every step and with as many as are fastest. What finding those costs is in it. `npm run bench:stolen-core`, on a machine where nothing else runs.
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { type NativeContext, openNative } from "../../src/engine/serve/binding.ts";
import { FixedLane } from "../../src/engine/serve/fixed-lane.ts";
import { ThreadChoice } from "../../src/engine/serve/thread-choice.ts";
import { Turns } from "../../src/engine/serve/turns.ts";

const secondsEach = 3;
const width = 8;
const cores = availableParallelism();

/** All threads, always. */
class All extends ThreadChoice {
  override next(_: string, most: number): number {
    return most;
  }

  override took(): void {}
}

const native = await openNative(createLog("error"));
const model = await native.openModel(readConfig().starterModel);
const context = await model.openContext({ sequences: width, slotContext: 512, batch: 512, threads: cores });
const prompts = Array.from({ length: width }, (_, at) =>
  model.tokenizer.encode(`Question ${at}: what is water?`, false),
);
const used: number[] = [];
let steps = 0;
const watched: NativeContext = {
  ...context,
  setThreads: (count) => {
    used.push(count);
    context.setThreads(count);
  },
  decode: async (parts) => {
    const rows = await context.decode(parts);
    if (parts.length === width) steps++;
    return rows;
  },
};

/** Steps of eight answers a second, prompts read between them. */
async function rate(choice: ThreadChoice): Promise<number> {
  const lane = new FixedLane({
    ...{ context: watched, tokenizer: model.tokenizer, turns: new Turns(), width, slotContext: 512, batch: 512 },
    ...{ threads: cores, threadChoice: choice, threadsFree: () => cores },
  });
  const end = AbortSignal.timeout(1000 * secondsEach);
  const startedAt = performance.now();
  steps = 0;
  try {
    for (;;) await lane.evaluate(null, { prompts, maxTokens: 32, startAt: 0, signal: end, onItem: () => {} });
  } catch (error) {
    if (!end.aborted) throw error;
  }
  lane.dispose();
  return steps / ((performance.now() - startedAt) / 1000);
}

/** Beside a busy loop of that niceness. */
async function beside(nice: number, choice: ThreadChoice): Promise<number> {
  const thief = spawn("nice", ["-n", String(nice), process.execPath, "-e", "for (;;);"]);
  try {
    return await rate(choice);
  } finally {
    thief.kill();
  }
}

async function row(what: string, choice: ThreadChoice): Promise<string> {
  const alone = await rate(choice);
  const others = [await beside(10, choice), await beside(0, choice)];
  const cells = others.map((one) => `${one.toFixed(1)} (${(alone / one).toFixed(1)} ×)`.padStart(15));
  return `${what.padEnd(24)}${alone.toFixed(1).padStart(8)}${cells.join("")}`;
}

console.log(`${cores} cores, steps a second    alone  beside nice 10  beside nice 0`);
console.log(await row("all threads", new All()));
console.log(await row("as many as are fastest", new ThreadChoice()));
console.log(`threads at the end: ${used.slice(-20).join(" ")}`);
process.exit();
