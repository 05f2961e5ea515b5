// A bundle is what its maker signed, to the last byte, for this machine and this time; everything else is refused with its reason.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../src/base/config.ts";
import { Failure, type FailureCode } from "../../src/base/errors.ts";
import { sha256, sha256OfFile } from "../../src/base/files.ts";
import { type MachineKind, machineHere } from "../../src/base/machine.ts";
import { finish, startNode, startProcess } from "../../src/base/processes.ts";
import { tarEnd, tarPadding } from "../../src/base/tar.ts";
import {
  createBundle,
  extractFile,
  extractModel,
  makeKey,
  openBundle,
  readSigner,
  readSoftwareBill,
} from "../../src/domain/bundles/index.ts";
import { headerOf, type Manifest, manifestBytes, signatureBytes } from "../../src/domain/bundles/manifest.ts";
import { machineOf } from "../../src/domain/bundles/program.ts";
import { writeAdapter } from "../helpers/adapter.ts";

const folder = mkdtempSync(join(tmpdir(), "plumbline-bundles-"));
after(() => rmSync(folder, { recursive: true }));

const at = (name: string): string => join(folder, name);
const day = 24 * 3_600_000;
const created = new Date("2026-11-26T12:00:00.000Z");
const notAfter = new Date(created.getTime() + 30 * day);
const encoder = join(installation, "test/fixtures/tiny-cross-encoder");
const silent = (): void => {};
const softwareBill = { bomFormat: "CycloneDX" as const, specVersion: "1.5", components: [] };

let key = "";
before(async () => {
  key = await makeKey(at("key.pem"));
  writeAdapter(at("adapter with spaces.gguf"));
  writeFileSync(at("LICENSE"), "Apache-2.0\n");
});

test("a bill of materials that is none is refused", async () => {
  for (const [name, content] of [
    ["broken.json", "{"],
    ["null.json", "null"],
    ["other.json", '{"bomFormat":"SPDX","components":[]}'],
  ] as const) {
    writeFileSync(at(name), content);
    await assert.rejects(readSoftwareBill(at(name)), { code: "bundle_invalid" }, name);
  }
  await assert.rejects(readSoftwareBill(at("none.json")), { code: "file_missing" });
});

async function make(
  name: string,
  change: { signWith?: string; models?: string[]; program?: string; licences?: string[] } = {},
) {
  const signer = await readSigner(change.signWith ?? at("key.pem"));
  const ingredients = {
    ...{ program: change.program ?? "/bin/true", version: "1.2.3", softwareBill },
    licences: change.licences ?? [at("LICENSE")],
    ...{ created, notAfter, models: change.models ?? [at("adapter with spaces.gguf"), encoder] },
  };
  return createBundle(at(name), ingredients, signer, silent);
}

test("files that no bundle can hold are refused before anything is signed, and in words about them", async () => {
  await assert.rejects(make("twice.tar", { licences: [at("LICENSE"), at("LICENSE")] }), {
    code: "usage",
    message: "No bundle can be made of these files: a file is listed twice",
  });
  assert.ok(!existsSync(at("twice.tar")));
});

const open = (path: string, change: { pinned?: string[]; machine?: MachineKind; now?: Date } = {}) =>
  openBundle(
    path,
    { pinned: [key], machine: machineHere(), now: new Date(created.getTime() + day), ...change },
    silent,
  );

/** The failure with which a bundle is refused. Nothing of a refused bundle stays open. */
async function refusal(path: string, change?: Parameters<typeof open>[1]): Promise<Failure> {
  const error = await open(path, change).then(
    (bundle) => bundle.close().then(() => null),
    (error: unknown) => error,
  );
  assert.ok(error instanceof Failure, `${path} was taken: ${error}`);
  return error;
}

const refused = async (path: string, code: FailureCode, words: RegExp, change?: Parameters<typeof open>[1]) => {
  const failure = await refusal(path, change);
  assert.equal(failure.code, code, failure.message);
  assert.match(failure.message, words);
};

describe("a bundle", () => {
  let whole: Buffer;
  let manifest: Manifest;
  before(async () => {
    const made = await make("whole.tar");
    ({ manifest } = made);
    whole = readFileSync(at("whole.tar"));
    assert.deepEqual([made.bytes, made.sha256], [whole.length, sha256(whole)]);
  });
  const written = (bytes: Buffer): string => {
    writeFileSync(at("changed.tar"), bytes);
    return at("changed.tar");
  };

  test("has what was put in, and gives it back", async () => {
    const bundle = await open(at("whole.tar"));
    try {
      assert.deepEqual(bundle.manifest, manifest);
      assert.deepEqual(
        [manifest.program, manifest.models, manifest.machine],
        [
          "program/plumbline-1.2.3-linux-x64",
          ["models/1/adapter-with-spaces.gguf", "models/2/tiny-cross-encoder"],
          await machineOf("/bin/true"),
        ],
      );
      const [program] = manifest.files;
      // Left by a process that is gone, by one that runs, and of another file.
      const left = [999_999_999, process.ppid].map((owner) => at(`.tmp-${owner}-abc-program`));
      left.push(at(".tmp-999999999-abc-other"));
      for (const path of left) writeFileSync(path, "");
      await extractFile(bundle, program!, at("program"), 0o755);
      assert.equal(await sha256OfFile(at("program")), await sha256OfFile("/bin/true"));
      assert.equal(statSync(at("program")).mode & 0o777, 0o755);
      assert.deepEqual(left.map(existsSync), [false, true, true]);
      for (const path of left) rmSync(path, { force: true });
      const [adapter, folder] = manifest.models as [string, string];
      assert.equal(
        await sha256OfFile(await extractModel(bundle, adapter, at("out"))),
        await sha256OfFile(at("adapter with spaces.gguf")),
      );
      // Of a service root writes them and its user reads them, whatever the umask.
      const before = process.umask(0o077);
      const models = await extractModel(bundle, folder, at("out")).finally(() => process.umask(before));
      const modes = [at("out/models/2"), models, join(models, "model.safetensors")].map((path) => statSync(path).mode);
      assert.deepEqual(
        modes.map((mode) => mode & 0o777),
        [0o755, 0o755, 0o644],
      );
      assert.deepEqual(readdirSync(models), readdirSync(encoder));
      for (const name of readdirSync(encoder))
        assert.deepEqual(readFileSync(join(models, name)), readFileSync(join(encoder, name)));
    } finally {
      await bundle.close();
    }
  });

  test("is a tar archive, with a bill of materials that names the models", async () => {
    const limits = { timeoutMs: 10_000, maxBytes: 1 << 20 };
    const listed = await finish(startProcess("tar", ["-tf", at("whole.tar")]), limits);
    assert.deepEqual(listed.stdout.trim().split("\n"), [
      "manifest.json",
      "signature.json",
      ...manifest.files.map(({ path }) => path),
    ]);
    const bill = await finish(startProcess("tar", ["-xOf", at("whole.tar"), "sbom.cdx.json"]), limits);
    const { components } = JSON.parse(bill.stdout) as { components: Record<string, unknown>[] };
    assert.deepEqual(
      components.map(({ type, name, hashes }) => [type, name, hashes]),
      [
        [
          "machine-learning-model",
          "adapter-with-spaces.gguf",
          [{ alg: "SHA-256", content: manifest.files[1]!.sha256 }],
        ],
        [
          "machine-learning-model",
          "tiny-cross-encoder",
          [{ alg: "SHA-256", content: await sha256OfFile(join(encoder, "model.safetensors")) }],
        ],
      ],
    );
  });

  test("altered at 200 places, it is refused each time", async () => {
    const places = new Set<number>();
    // Evenly over all of it, and around each header, where the archive's own fields and its padding are.
    for (let n = 0; n < 160; n++) places.add(Math.floor((n / 160) * whole.length));
    for (const { path } of [{ path: "signature.json" }, ...manifest.files]) {
      const header = whole.indexOf(`${path}\0`, 512, "latin1");
      for (const offset of [0, 100, 124, 136, 148, 156, 500, 512, 513]) places.add(header + offset);
      places.add(header - 1);
    }
    for (const offset of [1, 512, 1023, 1024, 1025]) places.add(whole.length - offset);
    assert.ok(places.size >= 200, `${places.size} places`);
    const codes = new Map<string, number>();
    for (const place of places) {
      const bytes = Buffer.from(whole);
      bytes[place]! ^= 1 << (place % 8);
      const { code, message } = await refusal(written(bytes));
      assert.equal(code, place < 512 ? "bundle_invalid" : "bundle_altered", `byte ${place}: ${message}`);
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    assert.deepEqual([...codes.keys()].sort(), ["bundle_altered", "bundle_invalid"]);
  });

  test("every byte of manifest, signature and headers counts", async () => {
    const head = whole.indexOf(`${manifest.files[0]!.path}\0`, 512, "latin1") + 512;
    for (let place = 0; place < head; place += 7) {
      const bytes = Buffer.from(whole);
      bytes[place]! ^= 0x20;
      await refusal(written(bytes));
    }
  });

  test("cut off anywhere, it is refused as cut off", async () => {
    const lengths = [0, 1, 511, 512, 513, 2000, whole.length - 1, whole.length - 512, whole.length - 1024];
    for (let n = 1; n < 40; n++) lengths.push(Math.floor((n / 40) * whole.length));
    for (const length of lengths) await refused(written(whole.subarray(0, length)), "bundle_truncated", /cut off/);
  });

  test("with something after its end it is refused", async () => {
    await refused(
      written(Buffer.concat([whole, Buffer.alloc(512)])),
      "bundle_altered",
      /512 bytes follow after its end/,
    );
  });

  test("of another time it is refused: expired, or made later than now", async () => {
    const last = new Date(notAfter.getTime() - 1);
    await (await open(at("whole.tar"), { now: last })).close();
    await refused(at("whole.tar"), "bundle_expired", /valid until 2026-12-26/, { now: notAfter });
    const behind = new Date(created.getTime() - day);
    await (await open(at("whole.tar"), { now: behind })).close();
    const earlier = new Date(behind.getTime() - 1);
    await refused(at("whole.tar"), "bundle_not_yet_valid", /made on 2026-11-26/, { now: earlier });
  });

  test("for another machine it is refused: architecture, system, C library and its version", async () => {
    const here = machineHere();
    const others: [Partial<MachineKind>, RegExp][] = [
      [{ architecture: "arm64" }, /for linux x64 with glibc 2\.34; this machine is linux arm64/],
      [{ os: "darwin" }, /this machine is darwin x64/],
      [{ libc: "musl", libc_version: "" }, /this machine is linux x64 with musl$/],
      [{ libc_version: "2.33" }, /with glibc 2\.33$/],
    ];
    for (const [change, words] of others)
      await refused(at("whole.tar"), "bundle_other_machine", words, { machine: { ...here, ...change } });
    for (const libc_version of ["2.34", "2.100", "3.0"])
      await (await open(at("whole.tar"), { machine: { ...here, libc_version } })).close();
  });

  test("signed with a key that is not pinned it is refused, by the name of that key", async () => {
    const other = await makeKey(at("other.pem"));
    await make("foreign.tar", { signWith: at("other.pem"), models: [] });
    await refused(at("foreign.tar"), "bundle_key_unpinned", new RegExp(`signed with ${other}, which is not pinned`));
    await (await open(at("foreign.tar"), { pinned: [key, other] })).close();
    await refused(at("whole.tar"), "bundle_key_unpinned", /not pinned/, { pinned: [] });
  });

  test("with the key or the signature of another one it is refused", async () => {
    const foreign = readFileSync(at("foreign.tar"));
    const place = (bytes: Buffer): number => bytes.indexOf('{"key":', 512, "latin1");
    const length = signatureBytes({ key, signature: "x".repeat(86) }).length;
    const swapped = Buffer.from(whole);
    foreign.copy(swapped, place(whole), place(foreign), place(foreign) + length);
    await refused(written(swapped), "bundle_altered", /signature does not match/);
    // The signature of the other key under the name of the pinned one.
    Buffer.from(`{"key":"${key}"`).copy(swapped, place(whole));
    await refused(written(swapped), "bundle_altered", /signature does not match/);
  });

  test("what is no bundle is told as that", async () => {
    await refused(written(Buffer.alloc(4096, "x")), "bundle_invalid", /does not begin like a bundle/);
    await refused(at("none.tar"), "file_missing", /does not exist/);
  });

  test("changed after it was checked, nothing of it is written", async () => {
    cpSync(at("whole.tar"), at("swapped.tar"));
    const bundle = await open(at("swapped.tar"));
    const [file] = manifest.files;
    const descriptor = openSync(at("swapped.tar"), "r+");
    writeSync(descriptor, Buffer.from("XXXX"), 0, 4, whole.indexOf("\x7fELF", 0, "latin1"));
    await assert.rejects(
      extractFile(bundle, file!, at("never"), 0o755),
      (error) => error instanceof Failure && error.code === "bundle_altered",
    );
    await bundle.close();
    assert.equal(existsSync(at("never")), false);
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.startsWith(".tmp-")),
      [],
    );
  });
});

/** A bundle as nobody's `create` makes it, soundly signed. */
async function signedByHand(change: (manifest: Manifest) => unknown): Promise<string> {
  const content = Buffer.from("content");
  const plain: Manifest = {
    ...{ format: 1, version: "1.0.0", program: "program/a", models: [] },
    ...{ created_at: created.toISOString(), not_after: notAfter.toISOString() },
    machine: machineHere() as Manifest["machine"],
    files: [{ path: "program/a", bytes: content.length, sha256: sha256(content) }],
  };
  const changed = manifestBytes(change(plain) as Manifest);
  const signer = await readSigner(at("key.pem"));
  const signature = signatureBytes({ key, signature: signer.sign(changed) });
  const files = [changed, signature, content].map((bytes, index) => [
    headerOf(["manifest.json", "signature.json", "program/a"][index]!, bytes.length),
    bytes,
    tarPadding(bytes.length),
  ]);
  writeFileSync(at("by-hand.tar"), Buffer.concat([...files.flat(), tarEnd]));
  return at("by-hand.tar");
}

test("a manifest that leads elsewhere, or that another version made, is refused though it is signed", async () => {
  await (await open(await signedByHand((manifest) => manifest))).close();
  const files = (path: string) => (manifest: Manifest) => ({ ...manifest, files: [{ ...manifest.files[0], path }] });
  const changes: ((manifest: Manifest) => unknown)[] = [
    ...["../a", "/etc/passwd", "a/../../b", "a//b", "./a", "a/.", "a\0b", `${"a/".repeat(60)}b`, ""].map(files),
    (manifest) => ({ ...manifest, format: 2 }),
    (manifest) => ({ ...manifest, program: "program/other" }),
    (manifest) => ({ ...manifest, models: ["models/1/none"] }),
    (manifest) => ({ ...manifest, files: [...manifest.files, ...manifest.files] }),
    (manifest) => ({ ...manifest, not_after: "later" }),
    (manifest) => ({ ...manifest, more: true }),
    () => "text",
  ];
  for (const change of changes) await refused(await signedByHand(change), "bundle_invalid", /does not know/);
});

test("what cannot be bundled is refused, and leaves nothing", async () => {
  const before = readdirSync(folder).sort();
  writeFileSync(at("script"), "#!/bin/sh\n", { mode: 0o755 });
  mkdirSync(at("empty"));
  const fails = (change: Parameters<typeof make>[1], code: FailureCode, name = "no.tar") =>
    assert.rejects(make(name, change), (error) => error instanceof Failure && error.code === code);
  await fails({ program: at("script") }, "program_invalid");
  await fails({ models: [at("nowhere")] }, "file_missing");
  await fails({ models: [at("empty")] }, "usage");
  await fails({}, "usage", "whole.tar");
  await fails({}, "usage", "no-such-folder/a.tar");
  await fails({ signWith: at("nowhere") }, "file_missing");
  await fails({ signWith: at("LICENSE") }, "bundle_key_invalid");
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  writeFileSync(at("ec.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
  await fails({ signWith: at("ec.pem") }, "bundle_key_invalid");
  assert.deepEqual(readdirSync(folder).sort(), [...before, "ec.pem", "empty", "script"].sort());
});

test("a key's file is its owner's alone, and is never overwritten", async () => {
  assert.equal(statSync(at("key.pem")).mode & 0o777, 0o600);
  await assert.rejects(makeKey(at("key.pem")), (error) => error instanceof Failure && error.code === "usage");
});

test("a large model goes through in little memory", async () => {
  const bytes = 256 << 20;
  writeFileSync(at("large.safetensors"), "");
  mkdirSync(at("large"));
  writeFileSync(at("large/model.safetensors"), "start");
  truncateSync(at("large/model.safetensors"), bytes);
  const child = startNode(join(import.meta.dirname, "bundles-host.ts"), [at("key.pem"), at("large"), at("large.tar")]);
  const { code, stdout, stderr } = await finish(child, { timeoutMs: 300_000, maxBytes: 1 << 20 });
  assert.equal(code, 0, stderr);
  const { made, most } = JSON.parse(stdout) as { made: number; most: number };
  assert.ok(made > bytes);
  assert.ok(most < 180 << 20, `${most >> 20} MiB`);
});
