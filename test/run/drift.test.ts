// The drift of a question as it is served: which encoder, how often it is decoded, and what is said where there is none.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../../src/base/errors.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { createLog } from "../../src/base/log.ts";
import { fitDrift } from "../../src/confidence/drift.ts";
import { createDriftMeter, type DriftMeterParts } from "../../src/domain/inference/drift.ts";
import type { Generator } from "../../src/engine/generator.ts";
import type { Run } from "../../src/run/context.ts";
import { measureDrift } from "../../src/run/drift.ts";
import type { DevPrompt } from "../../src/run/rows.ts";
import { calibrationWith } from "../helpers/calibration.ts";
import { emptyPool } from "../helpers/pool.ts";

const unit = (angle: number): Float32Array => Float32Array.of(Math.cos(angle), Math.sin(angle));
const { reference } = fitDrift({
  encoderSha256: "minilm",
  passages: [unit(0), unit(0.01)],
  questions: Array.from({ length: 40 }, (_, at) => ({ vector: unit(at / 200), cluster: String(at) })),
  background: Array.from({ length: 20 }, (_, at) => unit(2 + at / 100)),
});
const calibration = calibrationWith({ drift: reference, drift_reason: null });

function meterWith(over: Partial<DriftMeterParts> = {}) {
  const leases = { held: 0, taken: 0 };
  const lease = async () => {
    leases.held++;
    leases.taken++;
    return { release: async () => void leases.held-- };
  };
  const meter = createDriftMeter({
    generator: {
      embed: async (_, texts) =>
        texts.map((text) => ({ vector: unit(text === "near" ? 0.1 : 2.1), tokens: 1, truncated: 0 })),
    },
    encoderOf: (sha256) => (sha256 === "minilm" ? { baseId: "encoder", basePath: "/e" } : null),
    lease,
    log: createLog("error", () => {}),
    ...over,
  });
  return { meter, leases };
}

test("a near question and a far one, the encoder held while it reads", async () => {
  const { meter, leases } = meterWith();
  const [near, far] = [await meter.of(calibration, "near"), await meter.of(calibration, "far")];
  assert.ok(near.pValue! > 0.2 && near.outOfDomain! < 0.2 && near.reason === null);
  assert.ok(far.pValue === 1 / 41 && far.outOfDomain! > 0.8);
  assert.deepEqual(leases, { held: 0, taken: 2 });
});

test("a calibration that replaces another of the same adapter is measured by its own questions", async () => {
  const { meter } = meterWith();
  const before = await meter.of(calibration, "far");
  const reversed = fitDrift({
    encoderSha256: "minilm",
    passages: [unit(2), unit(2.01)],
    questions: Array.from({ length: 40 }, (_, at) => ({ vector: unit(2 + at / 200), cluster: String(at) })),
    background: Array.from({ length: 20 }, (_, at) => unit(at / 100)),
  });
  const replaced = { ...calibration, drift: reversed.reference };
  assert.equal(replaced.identity.adapter_sha256, calibration.identity.adapter_sha256);
  assert.ok((await meter.of(replaced, "far")).outOfDomain! < 0.2 && before.outOfDomain! > 0.8);
});

test("without a reference, without the encoder, and when it fails, the reason is given and the lease back", async () => {
  const reasons: [DriftMeterParts | object, typeof calibration, RegExp][] = [
    [{}, calibrationWith({ drift_reason: "No sentence encoder was installed" }), /^No sentence encoder was installed$/],
    [{ encoderOf: () => null }, calibration, /is not installed/],
    [{ lease: async () => Promise.reject(new Failure("out_of_memory", "No room")) }, calibration, /^No room$/],
    [
      { generator: { embed: async () => Promise.reject(new Error("/secret/path")) } },
      calibration,
      /^The question could/,
    ],
  ];
  for (const [over, given, reason] of reasons) {
    const { meter, leases } = meterWith(over);
    const found = await meter.of(given, "near");
    assert.deepEqual([found.pValue, found.outOfDomain, leases.held], [null, null, 0]);
    assert.match(found.reason!, reason);
  }
});

/** What a run tells of itself, as far as drift asks. */
const runWith = (encoder: { sha256: string; path: string } | null): Run =>
  ({
    request: { encoder },
    parts: { control: { signal: new AbortController().signal }, replayPrompts: ["far 1", "far 2"] },
  }) as unknown as Run;
const devOf = (count: number): DevPrompt[] =>
  Array.from(
    { length: count },
    (_, at) => ({ item: { instruction: `near ${at}`, cluster: `fact ${Math.floor(at / 2)}` }, tokens: [] }) as never,
  );

function fakeEncoder(load: () => Promise<void> = async () => {}) {
  const { pool, loaded } = emptyPool(load, { keepIdleMs: 0 });
  const generator = {
    pool,
    embed: async (_: unknown, texts: string[]) =>
      texts.map((text) => ({ vector: unit(text.startsWith("far") ? 2 : text.length / 100), tokens: 1, truncated: 0 })),
  } as unknown as Generator;
  return { generator, loaded };
}

test("a run measures its dev questions, and gives the encoder back", async () => {
  const path = import.meta.filename;
  const run = runWith({ path, sha256: await sha256OfFile(path) });
  const { generator, loaded } = fakeEncoder();
  const measured = await measureDrift(run, generator, devOf(24), ["One passage.", "Another."]);
  assert.ok("reference" in measured);
  assert.equal(measured.outOfDomain.length, 24);
  assert.equal(measured.reference.encoder_sha256, await sha256OfFile(path));
  // Two passages and all dev questions, of two values each.
  assert.equal(Buffer.from(measured.reference.exemplars, "base64").length, 26 * 2);
  assert.deepEqual(loaded, []);
});

test("a run without an encoder, with few questions, or whose encoder is gone or does not fit, says so", async () => {
  const path = import.meta.filename;
  const there = { path, sha256: await sha256OfFile(path) };
  const full = () => Promise.reject(new Failure("out_of_memory", "No room"));
  const ways: [Parameters<typeof runWith>[0], number, () => Promise<void>, RegExp][] = [
    [null, 24, async () => {}, /^No sentence encoder was installed/],
    [there, 19, async () => {}, /^19 dev questions are too few .* 20 are needed$/],
    [{ ...there, sha256: "0" }, 24, async () => {}, /was changed or removed/],
    [{ ...there, path: "/none" }, 24, async () => {}, /was changed or removed/],
    [there, 24, full, /could not be loaded: No room$/],
  ];
  for (const [encoder, count, load, reason] of ways) {
    const measured = await measureDrift(runWith(encoder), fakeEncoder(load).generator, devOf(count), ["One passage."]);
    assert.ok("missing" in measured);
    assert.match(measured.missing, reason);
  }
});
