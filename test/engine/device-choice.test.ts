// Which device a run trains on, and that nobody has to guess it: what a worker needs of the environment to find a GPU, and what is
// said when it takes the CPU.
import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { environmentOf, readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { finish, startProcess } from "../../src/base/processes.ts";
import { shapes } from "../../src/cli/bench/shapes.ts";
import { startTrainer } from "../../src/engine/train/trainer-process.ts";
import { plumbline, temporaryFolder } from "../cli/plumbline.ts";
import { everyTarget, executable, startWorker, tinyModel } from "./trainer-fixture.ts";

const limits = { timeoutMs: 20_000, maxBytes: 1 << 16 };

test("a child finds libraries where we find them", async (t) => {
  for (const [name, value] of [
    ["LD_LIBRARY_PATH", "/opt/driver/lib64"],
    ["PLUMBLINE_CUBLASLT", "/opt/cuda/libcublasLt.so.13"],
  ] as const) {
    const before = process.env[name];
    process.env[name] = value;
    t.after(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
    assert.equal((await finish(startProcess("printenv", [name]), limits)).stdout, `${value}\n`);
  }
});

test("cuBLASLt's file is a setting, an absolute path, and reaches a run", () => {
  const file = "/opt/cuda/libcublasLt.so.13";
  const config = readConfig({ PLUMBLINE_CUBLASLT: file });
  assert.equal(config.cublasLt, file);
  assert.equal(environmentOf(config).PLUMBLINE_CUBLASLT, file);
  assert.equal(readConfig({}).cublasLt, "");
  assert.throws(() => readConfig({ PLUMBLINE_CUBLASLT: "libcublasLt.so.13" }), /absolute path/);
});

test("whoever opens a model says in the log on which device, and why", async (t) => {
  const lines: string[] = [];
  const trainer = startTrainer({ executable, log: createLog("info", (line) => void lines.push(line)) });
  t.after(() => trainer.close());
  const { device, deviceReason, precision } = await trainer.open({
    path: tinyModel("tiny-f32"),
    threads: 1,
    memoryBytes: 0,
  });
  const said = lines.map((line) => JSON.parse(line)).find(({ event }) => event === "trainer_device");
  assert.deepEqual([said.device, said.precision, said.reason], [device, precision, deviceReason]);
  assert.notEqual(deviceReason, "");
});

test("a CPU trains in bf16 where it multiplies bf16, in fp32 when asked to, and refuses what it has not", async (t) => {
  const open = async (precision?: "bf16" | "fp32"): Promise<[string, string]> => {
    const trainer = startWorker(t);
    const model = { path: tinyModel("tiny-q4_1"), threads: 1, memoryBytes: 0, device: "cpu" } as const;
    const opened = await trainer.open({ ...model, ...(precision && { precision }) });
    return [opened.precision, (await trainer.profile()).kernels];
  };
  const cpu = (await startWorker(t).hello()).devices.find(({ kind }) => kind === "cpu") as { features: string[] };
  const [precision, kernels] = await open();
  assert.equal(precision, cpu.features.includes("avx512bf16") ? "bf16" : "fp32");
  assert.equal(kernels.endsWith(", training in bf16"), precision === "bf16");
  const [single, singleKernels] = await open("fp32");
  assert.equal(single, "fp32");
  assert.doesNotMatch(singleKernels, /bf16/);
  const shape = { ...shapes["smollm2-135m"], layers: 2, vocabulary: 512, quantisation: "q4_k" };
  const training = { shape, rank: 4, targets: everyTarget, longestRow: 32, passTokens: 64, threads: 1 } as const;
  const estimate = () => startWorker(t).estimate({ ...training, device: "cpu", precision: "bf16" });
  if (precision === "bf16") {
    assert.equal((await open("bf16"))[0], "bf16");
    assert.ok((await estimate()).gemmFlopsPerSecond! > 0);
  } else {
    await assert.rejects(open("bf16"), /AVX512-BF16/);
    await assert.rejects(estimate(), /AVX512-BF16/);
  }
});

test("doctor says that the trainer takes the CPU although there is a GPU, and why", async (t) => {
  const folder = temporaryFolder(t);
  const tool = join(folder, "nvidia-smi");
  writeFileSync(tool, "#!/bin/sh\necho 'NVIDIA Example, 81559, 80000, 580.65'\n");
  chmodSync(tool, 0o755);
  const { stdout } = await plumbline(["doctor", "--json"], {
    PATH: `${folder}:${process.env.PATH}`,
    PLUMBLINE_DATA: join(folder, "data"),
    PLUMBLINE_PORT: "0",
    PLUMBLINE_TRAINER: executable,
    // No machine has it there: without a driver that is the reason, with one this is.
    PLUMBLINE_CUBLASLT: "/nowhere/libcublasLt.so.13",
  });
  const { checks } = JSON.parse(stdout) as { checks: { name: string; ok: boolean; found: string; hint: string }[] };
  const gpu = checks.find(({ name }) => name === "gpu")!;
  assert.equal(gpu.ok, false);
  assert.match(gpu.found, /^NVIDIA Example, .* uses the CPU: .*(driver|cuBLASLt|kernels)/);
  assert.match(gpu.hint, /LD_LIBRARY_PATH/);
});
