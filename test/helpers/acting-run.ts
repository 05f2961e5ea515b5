// Runs that are acted in this process, for tests of everything around an auto-align: an executor that spawns nothing, and keeps the run
// folder's contract. What is decided is the first document's text, an `Act` as JSON; a plain alignment just completes.
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../../src/base/errors.ts";
import { sleep } from "../../src/base/time.ts";
import type { RunEvent, RunRequest, RunResult } from "../../src/contract/run-folder.ts";
import type { ModelQuestion } from "../../src/contract/run-lines.ts";
import type { Executor, Follow } from "../../src/jobs/executor.ts";
import type { DecisionCard, Next } from "../../src/run/plan/state.ts";

export interface Act {
  /** What it decides, one after the other: a kind of phase, look or pause. */
  plan: string[];
  ends?: "REACHED" | "BUDGET_SPENT";
  /** No phase brings anything. */
  isBase?: boolean;
  /** The phase, from 1, in which it works on until it is asked to stop; 0: it prepares on. */
  waitsIn?: number;
  /** Only the process that comes there first waits. */
  waitsOnce?: true;
  refusesStop?: boolean;
  /** Where it dies, each once: start, card <step>, phase <number>, before end. */
  diesAt?: string[];
  /** Asks before its first decision, and writes what it is told into `answers`. */
  asks?: ModelQuestion[];
  /** Where it dies every time. */
  diesAlwaysAt?: string;
  lie?: "no_card" | "bad_card" | "no_word" | "bad_status" | "odd_checkpoint";
}

type Told = NonNullable<RunResult["auto_align"]>;

interface Stage {
  isStopping: boolean;
  /** Its process is to die now. */
  isDying: boolean;
  seq: number;
}

const stepMs = 5;

export function createActedRuns(): Executor {
  const stages = new Map<string, Stage>();
  const stageOf = (folder: string): Stage => {
    const stage = stages.get(folder);
    if (stage === undefined) throw new Failure("not_started");
    return stage;
  };
  return {
    async start(folder, follow) {
      const path = join(folder, "events.jsonl");
      const seq = existsSync(path) ? readFileSync(path, "utf8").split("\n").length - 1 : 0;
      const stage: Stage = { isStopping: false, isDying: false, seq };
      stages.set(folder, stage);
      try {
        return await perform(folder, stage, follow);
      } finally {
        stages.delete(folder);
      }
    },
    status: (folder) => ({ running: stages.has(folder), lastSeq: stages.get(folder)?.seq ?? 0 }),
    async stop(folder) {
      const stage = stageOf(folder);
      if (actOf(folder).refusesStop) throw new Failure("stop_rejected", "because");
      stage.isStopping = true;
    },
    async pause() {},
    async resume() {},
    collect: async (folder) => JSON.parse(readFileSync(join(folder, "result.json"), "utf8")) as RunResult,
    async close() {
      for (const stage of stages.values()) stage.isDying = true;
      while (stages.size > 0) await sleep(stepMs);
    },
  };
}

const actOf = (folder: string): Act => {
  const { text } = JSON.parse(readFileSync(join(folder, "snapshot/documents/0.json"), "utf8")) as { text: string };
  return JSON.parse(text) as Act;
};

async function perform(folder: string, stage: Stage, follow: Follow): Promise<RunResult> {
  const request = JSON.parse(readFileSync(join(folder, "request.json"), "utf8")) as RunRequest;
  const resultPath = join(folder, "result.json");
  const die = (): never => {
    throw new Failure("run_crashed", "The run ended with SIGKILL");
  };
  const tell = (event: Pick<RunEvent, "kind" | "phase"> & Partial<RunEvent>): void => {
    if (stage.isDying) die();
    const line: RunEvent = { seq: ++stage.seq, fence: request.fence, at: new Date().toISOString(), ...event };
    appendFileSync(join(folder, "events.jsonl"), `${JSON.stringify(line)}\n`);
    if (line.seq > follow.afterSeq) follow.onEvent(line);
  };
  const end = (outcome: RunResult["outcome"], rest: Partial<RunResult> = {}): RunResult => {
    const { fence } = request;
    const result: RunResult = {
      ...{ format: 1, fence, outcome, error: null, chosen_step: null, files: [], metrics: {} },
      ...rest,
    };
    writeFileSync(resultPath, JSON.stringify(result));
    return result;
  };
  const earlier = existsSync(resultPath) ? (JSON.parse(readFileSync(resultPath, "utf8")) as RunResult) : null;
  if (earlier !== null && !goesOn(folder, request, earlier))
    return end(earlier.outcome, { ...earlier, fence: request.fence });
  rmSync(resultPath, { force: true });
  tell({ kind: "phase", phase: "preparing" });
  if (request.auto_align == null) return end("completed", { files: artefact(folder, request) });
  const { asks = [] } = actOf(folder);
  const { signal } = new AbortController();
  const answers = await Promise.all(asks.map((question) => follow.onAsk?.(question, signal)));
  writeFileSync(join(folder, "answers"), JSON.stringify(answers));
  return decided({ folder, request, stage, act: actOf(folder), tell, end, die });
}

/** As run/result.ts says it. */
function goesOn(folder: string, { auto_align: asked }: RunRequest, { outcome, auto_align: told }: RunResult): boolean {
  if (outcome === "failed") return true;
  if (asked == null) return false;
  if (outcome === "stopped") return asked.stopping;
  if (outcome === "paused") return asked.stopping || asked.resumes!.at(-1)?.phases === told!.phases;
  return outcome === "look" && (asked.stopping || existsSync(scoresAt(folder, told!.look!)));
}

const scoresAt = (folder: string, look: number): string => join(folder, "looks", `${look}`, "scores.json");

async function decided({
  folder,
  request,
  stage,
  act,
  tell,
  end,
  die,
}: {
  folder: string;
  request: RunRequest;
  stage: Stage;
  act: Act;
  tell: (event: Pick<RunEvent, "kind" | "phase"> & Partial<RunEvent>) => void;
  end: (outcome: RunResult["outcome"], rest?: Partial<RunResult>) => RunResult;
  die: () => never;
}): Promise<RunResult> {
  const { plan, ends = "BUDGET_SPENT", isBase, waitsIn, waitsOnce, diesAt = [], diesAlwaysAt, lie } = act;
  const asked = request.auto_align!;
  let [phases, looks] = [0, 0];
  const best = (): string => (phases > 0 && !isBase ? `phase-${phases}` : "base");
  const dieOnce = (where: string): void => {
    if (where === diesAlwaysAt) die();
    const mark = join(folder, `died ${where}`);
    if (!diesAt.includes(where) || existsSync(mark)) return;
    writeFileSync(mark, "");
    die();
  };
  const waitsAt = (phase: number): boolean => {
    const mark = join(folder, "waited");
    if (waitsIn !== phase || (waitsOnce && existsSync(mark))) return false;
    writeFileSync(mark, "");
    return true;
  };
  const card = (next: Next): void => {
    if (lie === "no_card") return;
    const told = { ...cardOf(phases, looks, best()), next };
    tell({ kind: "decision", phase: "training", card: lie === "bad_card" ? { ...told, best: null } : { ...told } });
    dieOnce(`card ${phases + looks}`);
  };
  const said = (status: Told["status"], rest: Partial<Told> = {}): Partial<RunResult> => {
    if (lie === "no_word") return {};
    const word = lie === "bad_status" ? "RUNNING" : status;
    const confirmed = status === "REACHED" ? false : null;
    const help = ["More documents"];
    return {
      auto_align: { status: word, confirmed, checkpoint: best(), phases, hours: phases / 2, look: null, help, ...rest },
    };
  };
  const packaged = (status: Told["status"]): RunResult => {
    dieOnce("before end");
    tell({ kind: "done", phase: "packaging" });
    return end("completed", { ...said(status), files: best() === "base" ? [] : artefact(folder, request) });
  };
  /** Works on, for ever where it waits here; whether it was asked to stop. */
  const works = async (waits: boolean): Promise<boolean> => {
    for (let step = 1; (step <= 3 || waits) && !stage.isStopping; step++) {
      await sleep(stepMs);
      if (stage.isDying) die();
      if (step <= 3) tell({ kind: "step", phase: "training", step, metrics: { loss: 1 / step } });
    }
    return stage.isStopping;
  };
  dieOnce("start");
  if (waitsAt(0) && (await works(true))) return end("stopped");
  for (const what of plan) {
    if (what === "pause") {
      if (asked.resumes!.some((resume) => resume.phases === phases && resume.looks === looks)) continue;
      if (asked.stopping) return packaged("STOPPED");
      card({ kind: "end", status: "PAUSED", checkpoint: best(), confirmed: null, help: [] });
      return end("paused", said("PAUSED"));
    }
    if (what === "look") {
      if (existsSync(scoresAt(folder, looks))) {
        looks++;
        continue;
      }
      if (asked.stopping) return packaged("STOPPED");
      card({ kind: "look", checkpoint: best(), third: looks });
      return end(
        "look",
        said("RUNNING", { look: looks, checkpoint: lie === "odd_checkpoint" ? "../../secret" : best() }),
      );
    }
    const place = join(folder, "plan", `phase-${phases + 1}`);
    if (!existsSync(join(place, "adapter.gguf"))) {
      if (asked.stopping) return packaged("STOPPED");
      card({ kind: "phase", phase: { arm: what } } as Next);
      if (await works(waitsAt(phases + 1))) return end("stopped");
      dieOnce(`phase ${phases + 1}`);
      mkdirSync(place, { recursive: true });
      writeFileSync(join(place, "adapter.gguf"), `adapter of phase ${phases + 1}`);
    }
    phases++;
  }
  card({ kind: "end", status: ends, checkpoint: best(), confirmed: null, help: [] });
  return packaged(ends);
}

function cardOf(phases: number, looks: number, checkpoint: string): DecisionCard {
  const dev = { score: 10 * phases, low: 0, high: 100, n: 12 };
  return {
    ...{ step: phases + looks, because: "so", would_change: "nothing", bids: [], excluded: [], regressions: [] },
    best: { checkpoint, dev, chance_of_target: 0.5 },
    hours: { spent: phases / 2, left: null },
    looks: Array.from({ length: looks }, (_, look) => ({
      ...{ checkpoint: `phase-${look + 1}`, n: 2, score: 50, low: 10, smallest_visible: 30 },
      ...{ reached: false, confirmed: false },
    })),
    result:
      phases === 0
        ? null
        : {
            ...{
              checkpoint: `phase-${phases}`,
              arm: "supervised",
              headroom: 40,
              dev: [10 * (phases - 1), 10 * phases],
            },
            ...{ difference: 10, low: 1, high: 19, chance_better: 0.9, forecast_error: 0, suites: [] },
          },
  };
}

function artefact(folder: string, request: RunRequest): RunResult["files"] {
  mkdirSync(join(folder, "artefact"), { recursive: true });
  const calibration = { format: 1, calibrated: false, reason: "a fake", identity: {}, statistics: { n: 0 } };
  const contents = {
    "adapter.gguf": `adapter of ${request.alignment_id}`,
    "calibration.json": JSON.stringify(calibration),
    "report.json": JSON.stringify({ base: request.base }),
  } as const;
  return (Object.keys(contents) as (keyof typeof contents)[]).map((name) => {
    writeFileSync(join(folder, "artefact", name), contents[name]);
    const hash = createHash("sha256").update(contents[name]).digest("hex");
    return { name, bytes: Buffer.byteLength(contents[name]), sha256: hash };
  });
}
