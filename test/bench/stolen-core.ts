// What an evaluation loses when a niced busy loop takes one core of the machine: steps of eight answers in a fixed lane, with all
// threads at every step as before and with as many as are fastest. `npm run bench:stolen-core`, on a machine where nothing else runs.
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { type NativeContext, openNative } from "../../src/engine/binding.ts";
import { FixedLane } from "../../src/engine/fixed-lane.ts";
import { ThreadChoice } from "../../src/engine/thread-choice.ts";
import { Turns } from "../../src/engine/turns.ts";

const secondsEach = 4;
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
const context = await model.openContext({ sequences: width, seatContext: 512, batch: 512, threads: cores });
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
    ...{ context: watched, tokenizer: model.tokenizer, turns: new Turns(), width, seatContext: 512, batch: 512 },
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

const row = (what: string, alone: number, stolen: number): string =>
  `${what.padEnd(24)}${alone.toFixed(2).padStart(8)}${stolen.toFixed(2).padStart(10)}${(alone / stolen).toFixed(1).padStart(8)} ×`;

const chosen = new ThreadChoice();
const alone = { all: await rate(new All()), chosen: await rate(chosen) };
const thief = spawn("nice", ["-n", "10", process.execPath, "-e", "for (;;);"]);
try {
  const stolen = { all: await rate(new All()), chosen: await rate(chosen) };
  console.log(`${cores} cores, steps a second    alone    stolen    loss`);
  console.log(row("all threads", alone.all, stolen.all));
  console.log(row("as many as are fastest", alone.chosen, stolen.chosen));
  console.log(`threads at the end: ${used.slice(-20).join(" ")}`);
} finally {
  thief.kill();
}
process.exit();
