// The script of the first hour on a GPU, with programs of the test's in place of what it runs: it goes past every failure, counts the
// status that means «no device» as one, and its table has a row for everything.
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { finish, startProcess } from "../../src/base/processes.ts";
import { temporaryFolder } from "../cli/plumbline.ts";

test("the first hour's script ends with a table of all it was to show", { timeout: 300_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const build = join(folder, "build");
  mkdirSync(build);
  const program = (name: string, lines: string): void => {
    writeFileSync(join(build, name), `#!/bin/sh\n${lines}\n`);
    chmodSync(join(build, name), 0o755);
  };
  program("plumbline-trainer", `cat > /dev/null; echo '{"id":1,"ok":true,"no_gpu":"there is no NVIDIA driver"}'`);
  program("cuda_kernels_test", `[ "$1" != fill ] || { echo filled; exec cat; }`);
  program("cuda_gradient_test", `echo "no device"; exit 77`);
  // Its bits differ from run to run, and it cannot bear a full GPU.
  program("cuda_hour_test", `case $1 in steps) echo $$;; full) echo "a full GPU takes a model"; exit 1;; esac`);
  program("compute-sanitizer", `case $* in *racecheck*) echo "a race"; exit 9;; esac`);
  const ended = await finish(
    startProcess(join(installation, "native/test/on_device.sh"), [join(folder, "out")], {
      env: { BUILD: build, PATH: `${build}:${process.env.PATH}`, PLUMBLINE_TRAINER: join(folder, "none") },
    }),
    { timeoutMs: 280_000, maxBytes: 1 << 20 },
  );
  assert.equal(ended.code, 1, ended.stderr);
  const table = readFileSync(join(folder, "out/table.txt"), "utf8");
  const rows = table.trim().split("\n");
  const resultOf = (name: string): string =>
    rows
      .find((row) => row.includes(name))
      ?.slice(0, 10)
      .trim() ?? "no row";
  assert.equal(resultOf("hello"), "failed 77");
  assert.equal(resultOf("kernels against"), "passed");
  assert.equal(resultOf("memcheck"), "passed");
  assert.equal(resultOf("racecheck"), "failed 9");
  assert.equal(resultOf("gradients, gemma3, bf16"), "failed 77");
  assert.ok(table.indexOf("gradients, gemma3, fp32") < table.indexOf("gradients, llama, bf16"), "fp32 comes first");
  assert.equal(resultOf("against the CPU, fp32 and bf16"), "passed");
  assert.equal(resultOf("in two processes, 20 steps, 64 soft"), "failed 1");
  assert.equal(resultOf("one by one, 20 soft"), "failed 1");
  assert.equal(resultOf("a GPU that another process has filled"), "failed 1");
  assert.equal(resultOf("half of the GPU"), "passed");
  assert.equal(resultOf("seventy sizes"), "passed");
  for (const shape of ["smollm2-135m", "llama-8b"])
    for (const length of [512, 4096]) assert.match(resultOf(`bench: ${shape}, rows of ${length}`), /^failed/);
  assert.equal(resultOf("beside the peer"), "not run");
  assert.equal(rows.length, 32);
  assert.ok(ended.stdout.trim().endsWith(table.trim()), "the table comes last");
});
