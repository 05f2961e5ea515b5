// Kills (-9) of an auto-align's run at random moments of its phases. In the end it has decided as the undisturbed run has, card by card, and
// every phase has made the very same adapter.
import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { sha256 } from "../../src/base/files.ts";
import { type Child, startNode } from "../../src/base/processes.ts";
import { sleep } from "../../src/base/time.ts";
import { runExit } from "../../src/contract/run-lines.ts";
import { brokenRules, claimAutoAlign, devItem, eventsOf, newRunFolder } from "../run/run-harness.ts";

const entry = join(import.meta.dirname, "../run/auto-entry.ts");
const kills = 10;
const phases = ["supervised", "distil", "reinforce", "scale"];

const folders: string[] = [];
after(() => {
  for (const folder of folders) rmSync(dirname(folder), { recursive: true, force: true });
});

// Folders of other options have a hash of other marks in their adapters, which could then never be the very same files.
const options: Parameters<typeof newRunFolder>[0] = {
  dev: Array.from({ length: 12 }, (_, at) => devItem(at + 1, `How heavy is lamp ${at}?`, `${at} kg`)),
  recipe: (recipe) => ({
    ...recipe,
    dataset: { phrasings: 8, replay_share: 0.25, replay_top_k: 4 },
    repair: { steps: 40, check_every_steps: 20, prompts: 2, tokens: 4, top_k: 4, rows: 2, lr_factor: 0.2 },
  }),
};

async function autoFolder(): Promise<string> {
  const folder = await newRunFolder(options);
  folders.push(folder);
  claimAutoAlign(folder, {
    request: {
      target_score: 99,
      sequencing: phases,
      config: {
        training: { steps: 40 },
        reward: { type: "verifier", verifier_ref: "builtin:regex?pattern=e" },
        sampling: { max_tokens: 8 },
      },
    },
  });
  return folder;
}

function start(folder: string): Child {
  const child = startNode(entry, [folder]);
  child.stderr.resume();
  return child;
}

/** A decision each, though a run that was killed tells its last one again. */
const decisionsOf = (folder: string): Map<string, string> =>
  new Map(
    eventsOf(folder).flatMap(({ card }) => {
      const { step, next } = (card ?? {}) as { step?: number; next?: { kind: string } };
      return card === undefined ? [] : [[`${step} ${next!.kind}`, JSON.stringify(card)] as const];
    }),
  );

const adaptersOf = (folder: string): string[] =>
  phases.map((_, at) => sha256(readFileSync(join(folder, "plan", `phase-${at + 1}`, "adapter.gguf"))));

test("ten kills within an auto-align change no decision and no adapter", async () => {
  const whole = await autoFolder();
  assert.equal((await start(whole).ended).code, runExit.paused);
  const told = eventsOf(whole).length;
  const folder = await autoFolder();
  for (let kill = 1; kill <= kills; kill++) {
    const child = start(folder);
    let running = true;
    void child.ended.then(() => {
      running = false;
    });
    // A share of its events each, so that every process comes further than the one before and none to the end.
    const until = Math.floor((told * (kill - Math.random())) / (kills + 1));
    while (running && eventsOf(folder).length < until) await sleep(1);
    assert.ok(running, `the run ended before kill ${kill}`);
    child.kill("SIGKILL");
    await child.ended;
    claimAutoAlign(folder, {});
  }
  assert.equal((await start(folder).ended).code, runExit.paused);
  assert.deepEqual(decisionsOf(folder), decisionsOf(whole));
  assert.equal(decisionsOf(whole).size, phases.length + 1);
  assert.deepEqual(adaptersOf(folder), adaptersOf(whole));
  assert.deepEqual(brokenRules(folder), []);
});
