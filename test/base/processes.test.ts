// How a worker learns that its parent is gone.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

const processes = join(import.meta.dirname, "../../src/base/processes.ts");
const script = `
  const { onParentGone } = await import(${JSON.stringify(processes)});
  onParentGone(() => process.stdout.write("gone."));
`;

test("a closed stdin is told once, whether a pipe or a file", async () => {
  const started = (stdin: "pipe" | number) =>
    spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: [stdin, "pipe", "inherit"] });
  const piped = started("pipe");
  piped.stdin!.end();
  const nothing = openSync("/dev/null", "r");
  const filed = started(nothing);
  closeSync(nothing);
  assert.deepEqual(await Promise.all([text(piped.stdout!), text(filed.stdout!)]), ["gone.", "gone."]);
});
