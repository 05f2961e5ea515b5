// Creates what all rooms share: database, queue, engine, address, traces, metrics and the catalog.
import { join } from "node:path";
import { type Config, environmentOf, places } from "../base/config.ts";
import { type Log, withRecent } from "../base/log.ts";
import { createMetrics } from "../base/metrics.ts";
import { startNode } from "../base/processes.ts";
import { type Clock, systemClock } from "../base/time.ts";
import { openTraces } from "../base/tracing.ts";
import { openTrial } from "../base/trial.ts";
import { versionsInstalled } from "../base/versions.ts";
import { createCatalog } from "../catalog/index.ts";
import { createLoadWatch } from "../domain/models/load-watch.ts";
import type { Generator } from "../engine/generator.ts";
import { createGpu } from "../engine/gguf/gpu.ts";
import { createGenerator } from "../engine/serve/generator.ts";
import { startTrainer } from "../engine/train/trainer-process.ts";
import { createAddress } from "../http/address.ts";
import { createLocalExecutor } from "../jobs/executor.ts";
import { createQueue } from "../jobs/queue.ts";
import { createRunner } from "../jobs/runner.ts";
import { createBallast } from "../store/ballast.ts";
import { openStore } from "../store/open.ts";

export interface HouseParts {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Bytes kept in reserve for a full disk. */
  ballastBytes?: number;
  /** Generates the tokens instead of this machine's own engine. */
  generator?: Generator;
  /**
   * Called when the disk fails under the database. Which writes were committed is then unknown until the database is opened again.
   * By default the process exits.
   */
  onFatal?: (error: Error) => void;
}

const leave = (error: Error): never => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
};

/** Creates what all rooms share. The caller must have taken the data folder. */
export async function createFloor(parts: HouseParts) {
  const { config, clock = systemClock, ballastBytes = 64 << 20, onFatal = leave } = parts;
  const { log, recent: recentLog } = withRecent(parts.log);
  const { freeDisk } = config;
  const at = places(config.data);
  const { version, engine } = await versionsInstalled();
  const store = openStore(at.database, { onIoError: onFatal });
  const queue = createQueue({ store, clock, log });
  const trial = openTrial(config.data);
  const traces = await openTraces(config.traces, { version, log });
  const runner = createRunner({ queue, log, traces });
  const gpu = createGpu({ memoryBytes: config.memory, gpuBytes: config.gpuMemory, threads: config.threads });
  const launch = (folder: string) =>
    startNode(join(import.meta.dirname, "../cli/main.ts"), ["run", folder], { env: environmentOf(config) });
  return {
    config,
    log,
    /** The last lines of the log as they were written, oldest first. */
    recentLog,
    clock,
    /** Places in the data folder. */
    at,
    version,
    /** Name and version of the inference engine. A calibration made with another name or version is void. */
    engine,
    store,
    queue,
    /** Refuses writes while an upgrade tests this version. */
    trial,
    traces,
    runner,
    /** Tells the runner that there is work. */
    wake: runner.wake,
    gpu,
    ballast: createBallast({ path: at.ballast, bytes: ballastBytes, freeDisk, log }),
    metrics: createMetrics({ version, engine, database: at.database, freeDisk }),
    generator: parts.generator ?? createGenerator({ config, log, clock, gpu, watchLoad: createLoadWatch(store) }),
    startTrainer: () => startTrainer({ executable: config.trainer, log }),
    executor: createLocalExecutor({ launch, log }),
    address: createAddress({ config, log }),
    catalog: createCatalog({ store, log }),
  };
}
