// What is measured, and how: each measurement works on the product as a user has it, and says one figure a promise.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installation } from "../../../src/base/config.ts";
import { type Child, finish, startNode, startProcess } from "../../../src/base/processes.ts";
import type { Score } from "../../../src/base/statistics/intervals.ts";
import { sleep } from "../../../src/base/time.ts";
import type { Report } from "../../../src/cli/demo/report.ts";
import { readRecipes } from "../../../src/domain/alignments/recipes.ts";
import { startServing } from "../../cli/plumbline.ts";
import { type Item, type Outcome, perform, starterModel } from "../prove/experiment.ts";
import { foreignMaterial } from "../prove/material.ts";
import type { Figure } from "./judge.ts";
import type { Measurement } from "./take.ts";

/** Options that name what the product is compared with. */
export interface Given {
  "peft-python"?: string | undefined;
  peers?: string | undefined;
  "llama-server"?: string | undefined;
}

const threads = 2;

/** `folder` keeps what a run has made, for who goes on after an interruption. */
export function measurementsIn(folder: string, given: Given): Measurement[] {
  const [minutes, score] = [
    { unit: "min", better: "lower", digits: 1 },
    { unit: "points", better: "higher", digits: 1 },
  ] as const;
  const ratio = { unit: "×", better: "higher", digits: 2, rounds: 3 } as const;
  return [
    {
      name: "demo",
      promises: [
        { name: "demo-minutes", says: "Demo, from start to end", ...minutes },
        { name: "demo-score", says: "Demo, sealed score of the aligned model", ...score },
      ],
      missing: null,
      measure: demo,
    },
    {
      name: "start",
      promises: [
        { name: "start", says: "Start to the first health answer", unit: "s", better: "lower", digits: 2, rounds: 3 },
      ],
      missing: null,
      measure: start,
    },
    {
      name: "vets",
      promises: [
        { name: "vets-score", says: "Quick look at vets, sealed score of the aligned model", ...score },
        { name: "vets-minutes", says: "Quick look at vets, the run", ...minutes },
        { name: "vets-covered", says: "Passages of vets with a row", unit: "%", better: "higher", digits: 1 },
        {
          name: "vets-dropped",
          says: "Rows of vets dropped as contradictory",
          unit: "%",
          better: "lower",
          digits: 2,
          most: 1,
        },
      ],
      missing: null,
      measure: () => vets(folder),
    },
    {
      name: "training",
      promises: [{ name: "training", says: "Training beside PEFT, tokens a second", ...ratio }],
      missing: lacking(given, "peft-python"),
      measure: () => training(given),
    },
    {
      name: "serving",
      promises: [{ name: "serving", says: "Serving beside llama-server, tokens a second", ...ratio }],
      missing: lacking(given, "llama-server", "peers"),
      measure: () => serving(folder, given),
    },
  ];
}

function lacking(given: Given, ...names: (keyof Given)[]): string | null {
  const absent = names.filter((name) => given[name] === undefined);
  return absent.length === 0 ? null : `give ${absent.map((name) => `--${name}`).join(" and ")}`;
}

/** What a process prints that ends well. It ends with us too: a measurement left behind would slow the next one. */
async function printed(name: string, child: Child, limitMinutes: number): Promise<string> {
  const stop = (): void => child.kill();
  process.once("exit", stop);
  try {
    const done = await finish(child, { timeoutMs: limitMinutes * 60_000, maxBytes: 64 << 20 });
    if (done.code === 0) return done.stdout;
    const why = done.timedOut ? `took more than ${limitMinutes} minutes` : `ended with ${done.signal ?? done.code}`;
    throw new Error(`${name} ${why}\n${(done.stderr.trim() || done.stdout).slice(-2000)}`);
  } finally {
    process.off("exit", stop);
  }
}

const told = ({ score, low, high, n }: Score, base: Score): Figure => ({
  figure: score,
  details: `${low.toFixed(1)}–${high.toFixed(1)}, n ${n}, base ${base.score.toFixed(1)}`,
});

async function demo(): Promise<Record<string, Figure>> {
  const startedMs = performance.now();
  const child = startProcess(join(installation, "bin/plumbline"), ["demo", "--json"]);
  const { aligned, base, seconds } = JSON.parse(await printed("demo", child, 40)) as Report;
  const figure = (performance.now() - startedMs) / 60_000;
  const details = `${(sumOf(seconds.phases) / 60).toFixed(1)} of them the alignment`;
  return { "demo-minutes": { figure, details }, "demo-score": told(aligned, base) };
}

const sumOf = (values: Record<string, number>): number => Object.values(values).reduce((sum, value) => sum + value, 0);

async function start(): Promise<Record<string, Figure>> {
  const taken: number[] = [];
  for (let tries = 0; tries < 3; tries++) taken.push(await secondsToHealth());
  const details = `best of ${taken.map((seconds) => seconds.toFixed(2)).join(", ")}`;
  return { start: { figure: Math.min(...taken), details } };
}

const mostSecondsToHealth = 60;

async function secondsToHealth(): Promise<number> {
  const data = mkdtempSync(join(tmpdir(), "plumbline-promises-"));
  try {
    const startedMs = performance.now();
    const seconds = (): number => (performance.now() - startedMs) / 1000;
    const { child, address, log } = await startServing({ PLUMBLINE_DATA: data });
    try {
      while ((await fetch(`${address}/healthz`)).status !== 200) {
        if (seconds() > mostSecondsToHealth) throw new Error(`not healthy after ${mostSecondsToHealth} s\n${log()}`);
        await sleep(5);
      }
      return seconds();
    } finally {
      child.kill();
      await child.ended;
    }
  } finally {
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Prose and a table of vets, few enough for a quick look of some ten minutes on two cores. */
const looked = ["cat_boarding_rules.html", "insurance_and_payment_policy.html", "suppliers.csv"];

async function quickLook(folder: string): Promise<Outcome> {
  const material = await foreignMaterial("vets");
  const documents = material.documents.filter(({ name }) => looked.includes(name));
  if (documents.length < looked.length) throw new Error(`of ${looked.length} documents there are ${documents.length}`);
  const items = (material.items as (Item & { source: string })[]).filter(({ source }) => looked.includes(source));
  const recipe = (await readRecipes(join(installation, "config/recipes"))).get("quick")!;
  return perform(folder, { name: "vets", documents, items, recipe, teacher: null, threads });
}

async function vets(folder: string): Promise<Record<string, Figure>> {
  const { aligned, base, minutes, report } = await quickLook(folder);
  const { coverage, contradictions, rows } = report.rows.study;
  const { content, covered } = coverage;
  const made = rows + contradictions.dropped;
  return {
    "vets-score": told(aligned, base),
    "vets-minutes": { figure: minutes, details: `${report.training.steps} steps` },
    "vets-covered": { figure: (100 * covered) / content, details: `${covered} of ${content}` },
    "vets-dropped": { figure: (100 * contradictions.dropped) / made, details: `${contradictions.dropped} of ${made}` },
  };
}

/** One pair of compare.py or load.ts, in tokens a second. */
const pairOf = (figure: number, peer: string, ours: number, theirs: number): Figure => ({
  figure,
  details: `${ours.toFixed(1)} beside ${theirs.toFixed(1)} of ${peer}`,
});

async function training(given: Given): Promise<Record<string, Figure>> {
  const compare = join(installation, "native/bench/compare.py");
  const size = ["--model", starterModel, "--kinds", "qa", "--pairs", "1", "--threads", String(threads)];
  const child = startProcess(given["peft-python"]!, [compare, ...size]);
  const { qa } = JSON.parse(await printed("compare.py", child, 20)) as {
    qa: {
      plumbline: number[];
      peer: number[];
      ratio: number;
      computes_in: { plumbline: string; peer: string };
    };
  };
  const { plumbline, peer } = qa.computes_in;
  return { training: pairOf(qa.ratio, `PEFT, ${plumbline} beside ${peer}`, qa.plumbline[0]!, qa.peer[0]!) };
}

async function serving(folder: string, given: Given): Promise<Record<string, Figure>> {
  // The adapter that is served is the one of the quick look: finished already, or made now.
  await quickLook(folder);
  const adapter = join(folder, "vets/artefact/adapter.gguf");
  const out = join(folder, "load.json");
  const files = ["--server", given["llama-server"]!, "--load", join(given.peers!, "load.mjs"), "--adapter", adapter];
  const size = ["--clients", "8", "--pairs", "1", "--requests", "24", "--threads", String(threads), "--out", out];
  await printed("load.ts", startNode(join(installation, "test/bench/load.ts"), [...files, ...size]), 20);
  const { summary, runs } = JSON.parse(readFileSync(out, "utf8")) as {
    summary: { speed: number }[];
    runs: { side: "ours" | "theirs"; tokens_per_second: number }[];
  };
  const speedOf = (wanted: string): number => runs.find(({ side }) => side === wanted)!.tokens_per_second;
  return { serving: pairOf(summary[0]!.speed, "llama-server", speedOf("ours"), speedOf("theirs")) };
}
