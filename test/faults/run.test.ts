// Kills (-9) of a run and of its trainer, at chosen and at random moments. After each: what was logged is bit for bit what the
// undisturbed run logged, nothing is left running, and in the end the adapter is the very same file.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { isTemporary, ownerOfTemporary, sha256OfFile } from "../../src/base/files.ts";
import { type Child, linesOf, startNode } from "../../src/base/processes.ts";
import { sleep } from "../../src/base/time.ts";
import { runExit } from "../../src/contract/run-lines.ts";
import { brokenRules, claimAgain, eventsOf, eventually, lossesOf, newRunFolder } from "../run/run-harness.ts";

const entry = join(import.meta.dirname, "../run/run-entry.ts");
const steps = 240;
const randomKills = 16;

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(dirname(folder), { recursive: true, force: true });
});

/** Of a run that takes all of its steps, whatever its dev questions say. */
const optionsOf = (max_steps: number): Parameters<typeof newRunFolder>[0] => ({
  recipe: (recipe) => ({
    ...recipe,
    training: {
      ...recipe.training,
      max_steps,
      epochs: 50,
      early_stopping: { ...recipe.training.early_stopping, enabled: false },
    },
  }),
});

// Folders of other options have a hash of other marks in their adapter, which could then never be the very same file.
const usual = optionsOf(steps);

async function folderFor(options = usual): Promise<string> {
  const folder = await newRunFolder(options);
  folders.push(folder);
  return folder;
}

/** What the last process said on stderr. */
let lastWords = "";

function start(folder: string): Child {
  const child = startNode(entry, [folder]);
  lastWords = "";
  child.stderr.on("data", (part: Buffer) => {
    lastWords += part.toString("utf8");
  });
  return child;
}

const isAlive = (pid: number): boolean => {
  try {
    // A zombie that nobody reaps any more is not running.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

const childrenOf = (pid: number): number[] => {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
};

/** The trainer among the run's children. */
const trainerOf = (pid: number): number | undefined =>
  childrenOf(pid).find((child) => {
    try {
      return readFileSync(`/proc/${child}/cmdline`, "utf8").includes("plumbline-trainer");
    } catch {
      return false;
    }
  });

function assertSound(folder: string, losses: Map<number, string>): void {
  for (const [step, loss] of lossesOf(folder)) assert.equal(loss, losses.get(step), `the loss of step ${step}`);
  const seqs = eventsOf(folder).map((event) => event.seq);
  assert.deepEqual(
    seqs,
    seqs.map((_, at) => at + 1),
  );
}

const undisturbed = (async () => {
  const folder = await folderFor();
  assert.equal((await start(folder).ended).code, runExit.completed, lastWords);
  return { losses: lossesOf(folder), adapter: await sha256OfFile(join(folder, "artefact/adapter.gguf")) };
})();

/** Goes on until the folder has its result, under a new claim where a kill of the trainer made the run fail. */
async function finish(folder: string, fence: number): Promise<void> {
  const { losses, adapter } = await undisturbed;
  await claimAgain(folder, fence);
  const { code } = await start(folder).ended;
  assert.equal(code, runExit.completed, `${JSON.stringify(eventsOf(folder).at(-1))} ${lastWords}`);
  assertSound(folder, losses);
  assert.equal(lossesOf(folder).size, steps);
  assert.equal(await sha256OfFile(join(folder, "artefact/adapter.gguf")), adapter);
  assert.deepEqual(brokenRules(folder), []);
}

async function killRun(child: Child): Promise<void> {
  const trainer = trainerOf(child.pid);
  child.kill("SIGKILL");
  await child.ended;
  if (trainer !== undefined) await eventually(() => !isAlive(trainer), "the end of the trainer");
}

/** Whether the process is writing something of such a name there. What a killed one left behind does not count. */
const isWriting = (pid: number, folder: string, name: RegExp): boolean =>
  existsSync(folder) &&
  readdirSync(folder).some((one) => isTemporary(one) && ownerOfTemporary(one) === pid && name.test(one));

test("a run killed at each chosen moment goes on bit for bit", async () => {
  const { losses } = await undisturbed;
  const folder = await folderFor();
  const seen = (kind: string, phase: string, from: number) => () =>
    eventsOf(folder)
      .slice(from)
      .some((event) => event.kind === kind && event.phase === phase);
  const moments: [string, (from: number, pid: number) => () => boolean][] = [
    ["while preparing", (from) => seen("phase", "preparing", from)],
    [
      "rows being written",
      (_, pid) => () => isWriting(pid, folder, /-prepared$/) || existsSync(join(folder, "prepared")),
    ],
    ["in the first check", (from) => seen("phase", "checking", from)],
    ["after a step", (from) => seen("step", "training", from)],
    ["a checkpoint being written", (_, pid) => () => isWriting(pid, join(folder, "checkpoints"), /-\d+$/)],
    ["after a checkpoint", (from) => seen("checkpoint", "training", from)],
    ["after a check", (from) => seen("check", "checking", from)],
    ["while packaging", (from) => seen("phase", "packaging", from)],
    ["the artefact being written", (_, pid) => () => isWriting(pid, folder, /-artefact$/)],
  ];
  for (const [what, at] of moments) {
    const child = start(folder);
    await eventually(at(eventsOf(folder).length, child.pid), what);
    await killRun(child);
    assertSound(folder, losses);
  }
  await finish(folder, 2);
});

test("a run or its trainer killed at random moments goes on bit for bit", async (context) => {
  const { losses } = await undisturbed;
  let folder = await folderFor();
  let fence = 1;
  let finished = 0;
  let trainersKilled = 0;
  for (let kill = 0; kill < randomKills; kill++) {
    const child = start(folder);
    const from = eventsOf(folder).length;
    const isTrainersTurn = kill % 2 === 1;
    const begun = () => (isTrainersTurn ? trainerOf(child.pid) !== undefined : eventsOf(folder).length > from);
    await eventually(() => begun() || !isAlive(child.pid), "the first event, or the trainer");
    // The run makes its rows for about a second before there is a trainer.
    await sleep(Math.random() * (isTrainersTurn ? 400 : 1500));
    const trainer = isTrainersTurn ? trainerOf(child.pid) : undefined;
    if (trainer === undefined) await killRun(child);
    else {
      trainersKilled++;
      process.kill(trainer, "SIGKILL");
      // The run says why it failed, or had its result already.
      assert.ok([runExit.failed, runExit.completed].includes((await child.ended).code as 0 | 1));
    }
    assertSound(folder, losses);
    fence++;
    await claimAgain(folder, fence);
    if (existsSync(join(folder, "artefact"))) {
      // Too late to disturb it: begin another.
      finished++;
      await finish(folder, fence);
      folder = await folderFor();
      fence = 1;
    }
  }
  await finish(folder, fence + 1);
  assert.ok(trainersKilled >= randomKills / 4, `only ${trainersKilled} trainers were there to be killed`);
  context.diagnostic(
    `${randomKills} kills, ${trainersKilled} of them of the trainer; ${finished} runs ended in between`,
  );
});

test("a killed appliance leaves neither run nor trainer behind", async () => {
  // Events reach the appliance with each heartbeat: the run must still be training then.
  const folder = await folderFor(optionsOf(1000));
  const host = startNode(join(import.meta.dirname, "../jobs/executor-host.ts"), [entry, folder]);
  let run: number | undefined;
  for await (const line of linesOf(host.stdout)) {
    run = childrenOf(host.pid).find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("run-entry"));
    if (JSON.parse(line).kind === "step") break;
  }
  const trainer = trainerOf(run!);
  assert.ok(trainer !== undefined && isAlive(trainer));
  host.kill("SIGKILL");
  await eventually(() => !isAlive(run!) && !isAlive(trainer), "the end of run and trainer");
  assert.ok(lossesOf(folder).size < 1000);
});
