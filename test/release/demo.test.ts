// The demo of the executable alone in a minimal Debian: it trains on the rows of the source tree's demo, and with the same losses, to
// the bit; and it opens no connection to anything but itself. Takes minutes.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { sha256OfFile } from "../../src/base/files.ts";
import { type Child, startNode } from "../../src/base/processes.ts";
import type { RunEvent } from "../../src/contract/run-folder.ts";
import { loopbackConnections, minimalDebian, peersElsewhere } from "./debian.ts";
import { installation, makeMachine } from "./machine.ts";

const debian = minimalDebian();

/** Steps whose losses are compared. */
const steps = 20;

interface Begun {
  rowsSha256: string;
  /** The exact doubles of the first steps, in hexadecimal. */
  losses: string[];
}

/** Waits until the demo's only run has trained for some steps, stops the demo, and returns how the run began. */
async function beginningOf(demo: Child, data: string): Promise<Begun> {
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
  const losses = (): string[] => {
    const events = run() && join(runs, run()!, "events.jsonl");
    if (events === undefined || !existsSync(events)) return [];
    // The last line may be half written.
    const lines = readFileSync(events, "utf8").split("\n").slice(0, -1);
    const trained = lines.map((line) => JSON.parse(line) as RunEvent).filter(({ kind }) => kind === "step");
    return trained.map(({ metrics }) => String(metrics!.loss_hex));
  };
  try {
    while (losses().length < steps) {
      assert.ok(!over, said);
      await pause(500);
    }
    const rowsSha256 = await sha256OfFile(join(runs, run()!, "prepared/rows.bin"));
    return { rowsSha256, losses: losses().slice(0, steps) };
  } finally {
    demo.kill("SIGKILL");
    await demo.ended;
  }
}

test("alone in a minimal Debian, it makes the source tree's rows and losses, and connects to nothing but itself", {
  skip: "missing" in debian && debian.missing,
}, async (context) => {
  assert.ok("folder" in debian);
  const machine = makeMachine({ full: true, debian: debian.folder });
  const folder = mkdtempSync(join(tmpdir(), "plumbline-demo-"));
  context.after(() => {
    machine.remove();
    // What the killed demo of the source tree had started ends a moment later.
    rmSync(folder, { recursive: true, maxRetries: 10, retryDelay: 500 });
  });
  const words = ["demo", "--json", "--workflow", "quick", "--dir"];
  const trace = join(folder, "trace");
  const demo = machine.start([...words, "/tmp/demo"], { network: "none", trace });
  const released = await beginningOf(demo, machine.at("tmp/demo/data"));
  assert.deepEqual(peersElsewhere(trace), []);
  // The demo asks its own appliance: without a call of that kind, the trace would have seen nothing.
  assert.ok(loopbackConnections(trace).length > 0);

  const script = join(installation, "src/cli/main.ts");
  const source = await beginningOf(startNode(script, [...words, join(folder, "demo")]), join(folder, "demo/data"));
  assert.equal(new Set(source.losses).size, steps);
  assert.deepEqual(released, source);
});
