// The demo of the executable makes the rows that the source tree makes, to the bit, and its run begins to train. Takes minutes.
import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { sha256OfFile } from "../../src/base/files.ts";
import { type Child, startNode } from "../../src/base/processes.ts";
import { installation, makeMachine, starterModel } from "./machine.ts";

const machine = makeMachine();
const folder = mkdtempSync(join(tmpdir(), "plumbline-demo-"));
after(() => {
  machine.remove();
  rmSync(folder, { recursive: true });
});

/** Waits until the demo's only run trains, stops the demo, and returns the hash of the run's rows. */
async function rowsOf(demo: Child, data: string): Promise<string> {
  let said = "";
  for (const stream of [demo.stdout, demo.stderr])
    stream.on("data", (part) => {
      said += part;
    });
  let over = false;
  void demo.ended.then(() => {
    over = true;
  });
  const runs = join(data, "runs");
  const run = (): string | undefined => (existsSync(runs) ? readdirSync(runs)[0] : undefined);
  const trains = (): boolean => {
    const events = run() && join(runs, run()!, "events.jsonl");
    return events !== undefined && existsSync(events) && readFileSync(events, "utf8").includes('"phase":"training"');
  };
  try {
    while (!trains()) {
      assert.ok(!over, said);
      await pause(500);
    }
    return await sha256OfFile(join(runs, run()!, "prepared/rows.bin"));
  } finally {
    demo.kill("SIGKILL");
    await demo.ended;
  }
}

test("the demo trains on the same rows as that of the source tree", async () => {
  copyFileSync(starterModel, machine.at("tmp/starter.gguf"));
  const settings = { PLUMBLINE_STARTER_MODEL: "/tmp/starter.gguf" };
  const words = ["demo", "--json", "--workflow", "quick", "--dir"];
  const released = await rowsOf(machine.start([...words, "/tmp/demo"], settings), machine.at("tmp/demo/data"));
  const script = join(installation, "src/cli/main.ts");
  const source = await rowsOf(startNode(script, [...words, join(folder, "demo")]), join(folder, "demo/data"));
  assert.equal(released, source);
});
