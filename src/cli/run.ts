// `plumbline run <folder>`: runs one alignment in its own process. The appliance starts it and holds its stdin, on
// which commands arrive as JSON lines. Acknowledgements and heartbeats go to stdout, the log to stderr.
import { readdirSync, readFileSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { type Config, installation, readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { tryLock } from "../base/lock.ts";
import { createLog, type Level, type Log } from "../base/log.ts";
import { linesOf, onParentGone } from "../base/processes.ts";
import { wilson } from "../base/statistics/intervals.ts";
import { systemClock } from "../base/time.ts";
import type { Prior } from "../confidence/calibration.ts";
import { priorFor } from "../confidence/prior.ts";
import type { RunRequest } from "../contract/run-folder.ts";
import { type RunReply, runExit } from "../contract/run-lines.ts";
import { declines } from "../domain/evaluations/declines.ts";
import { grade } from "../domain/evaluations/grade.ts";
import { readGgufHeader } from "../engine/gguf/header.ts";
import { startTrainer } from "../engine/train/trainer-process.ts";
import type { RunParts } from "../run/context.ts";
import { type Control, createControl } from "../run/control.ts";
import { readRequest } from "../run/folder/request.ts";
import { readGuards } from "../run/guards/material.ts";
import { openPrograms } from "../run/rewards/programs.ts";
import { runAlignment } from "../run/run.ts";
import { installedWarmStart } from "../run/warm-start/installed.ts";
import { installedWriter } from "../study/writers/installed.ts";
import { speakFailure } from "./output.ts";

const heartbeatMs = 1000;
export function register(program: Command): void {
  program
    .command("run", { hidden: true })
    .description("run one alignment in its run folder; started by serve, which keeps its standard input open")
    .argument("<folder>", "the run folder")
    .action(async (folder: string) => {
      try {
        process.exitCode = await runFolder(folder);
      } catch (error) {
        speakFailure(error, false);
      }
      // Standard input is still open, and would keep the process waiting for commands.
      process.exit();
    });
}

type MakeParts = (request: RunRequest, config: Config, log: Log, control: Control) => Promise<RunParts>;

/** Runs the alignment in a run folder until the folder has its result. Returns the exit status for that result (runExit). */
export async function runFolder(folder: string, makeParts: MakeParts = partsOf): Promise<number> {
  // Reading starts before anything else, so that commands sent while the run begins wait instead of being lost.
  const commands = linesOf(process.stdin)[Symbol.asyncIterator]();
  // If the process that started the run is gone, end at once. The next process resumes from the last checkpoint.
  onParentGone(() => process.kill(process.pid, "SIGKILL"));
  // The appliance's inference gets priority over a run: beside a trainer of equal priority, a token took 541 ms instead of 15
  // (two cores, 135M model). The trainer inherits this process's priority.
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  const config = readConfig();
  const log = createLog(config.logLevel as Level);
  const request = await readRequest(folder);
  const lock = tryLock(join(folder, "lock"));
  if (lock === null) throw new Failure("run_locked");

  const say = (reply: RunReply): void => void process.stdout.write(`${JSON.stringify(reply)}\n`);
  const control = createControl(say);
  void (async () => {
    for (let next = await commands.next(); !next.done; next = await commands.next()) control.handle(next.value);
  })();
  const heart = setInterval(() => say({ kind: "heartbeat" }), heartbeatMs);
  try {
    const parts = await makeParts(request, config, log.with({ alignmentId: request.alignment_id }), control);
    return runExit[(await runAlignment(folder, parts)).outcome];
  } finally {
    clearInterval(heart);
    lock.release();
  }
}

/**
 * Makes the parts of a run on this machine. The request's budget limits both the trainer and inference, which are never open
 * at the same time.
 */
export const partsOf: MakeParts = async (request, config, log, control) => {
  const { createGenerator, openTokenizer } = await import("../engine/serve/generator.ts");
  const { createGpu, evaluationWidth } = await import("../engine/gguf/gpu.ts");
  const { threads, memory_bytes, gpu_memory_bytes = 0 } = request.budget;
  return {
    control,
    clock: systemClock,
    log,
    startTrainer: () => startTrainer({ executable: config.trainer, log }),
    openGenerator: async () =>
      createGenerator({
        config: {
          threads,
          slots: evaluationWidth,
          slotContext: Math.max(config.slotContext, request.recipe.rendering.max_seq_len),
          queueLimit: config.queueLimit,
        },
        log,
        // A run does not use a model again after it has released it.
        keepIdleMs: 0,
        gpu: createGpu({ memoryBytes: memory_bytes || config.memory, gpuBytes: gpu_memory_bytes, threads }),
      }),
    openTokenizer: (path) => openTokenizer(path, log),
    grade,
    interval: wilson,
    replayPrompts: readConfigFile<string[]>("replay-prompts.json"),
    replayOpenings: readConfigFile<string[]>("replay-openings.json"),
    writer: installedWriter,
    warmStart: installedWarmStart,
    means: {
      declines,
      programs: config.verifiers === "" ? null : await openPrograms(config.verifiers),
      judges: new Map(),
      rubrics: new Map(),
      preferenceModels: new Map(),
    },
    guards: await readGuards(join(installation, "config/guards")),
    prior: priorFor(readPriors(), readGgufHeader(request.base.path)),
    engine: engineVersion(),
  };
};

const readConfigFile = <T>(name: string): T =>
  JSON.parse(readFileSync(join(installation, "config", name), "utf8")) as T;

const readPriors = (): Prior[] =>
  readdirSync(join(installation, "config/confidence"))
    .filter((name) => name.endsWith("-prior.json"))
    .sort()
    .map((name) => readConfigFile<Prior>(join("confidence", name)));

/** Name and version of the installed inference library. */
const engineVersion = (): string => {
  const path = join(installation, "node_modules/node-llama-cpp/package.json");
  return `node-llama-cpp ${(JSON.parse(readFileSync(path, "utf8")) as { version: string }).version}`;
};
