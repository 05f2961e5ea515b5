// Makes a bundle. Every file on disk is read twice: first to hash it for the signed manifest, then to write it into the archive.
import { createHash } from "node:crypto";
import { type FileHandle, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { Damaged, hashParts, partsOf } from "../../base/content.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, sha256, syncFolder } from "../../base/files.ts";
import { tarEnd, tarPadding } from "../../base/tar.ts";
import { unwritable } from "../../base/unwritable.ts";
import type { Signer } from "./key.ts";
import {
  bundleBytes,
  filesFrom,
  headerOf,
  type Manifest,
  manifestBytes,
  manifestName,
  parseManifest,
  signatureBytes,
  signatureName,
} from "./manifest.ts";
import { machineOf } from "./program.ts";
import {
  type Hashed,
  modelComponent,
  type Part,
  type PlacedModel,
  type SoftwareBill,
  withModels,
} from "./software-bill.ts";

export interface Ingredients {
  /** Path of the release's executable. `version` is the release's version. */
  program: string;
  version: string;
  /** Absolute paths of GGUF files and of sentence-transformers folders. */
  models: string[];
  /** Paths of files with the licences of everything in the program. */
  licences: string[];
  /** The program's bill of materials (CycloneDX). */
  softwareBill: SoftwareBill;
  created: Date;
  notAfter: Date;
}

export interface Made {
  manifest: Manifest;
  bytes: number;
  sha256: string;
}

type Tell = (phase: "hashing" | "writing", doneBytes: number, totalBytes: number) => void;

/**
 * Writes a signed bundle to `target`, which must not exist yet, and reports its progress to `tell`. Throws usage, file_missing,
 * program_invalid, model_invalid, bundle_no_space.
 */
export async function createBundle(
  target: string,
  ingredients: Ingredients,
  signer: Signer,
  tell: Tell,
): Promise<Made> {
  if (await stat(target).catch(() => null)) throw new Failure("usage", `${target} already exists`);
  const { program, version, created, notAfter } = ingredients;
  if (notAfter.getTime() <= created.getTime()) throw new Failure("usage", "--not-after must be later than now");
  const machine = await machineOf(program);
  const models = await placedModels(ingredients.models);
  const programPart = { path: `program/plumbline-${version}-${machine.os}-${machine.architecture}`, from: program };
  const hashed = await hashAll(
    [
      programPart,
      ...models.flatMap(({ parts }) => parts),
      ...ingredients.licences.map((from) => ({ path: `licences/${basename(from)}`, from })),
    ],
    tell,
  );
  const bill = withModels(
    ingredients.softwareBill,
    models.map(({ path, main }) => modelComponent(path, main, hashed)),
  );
  const billBytes = Buffer.from(`${JSON.stringify(bill, null, 1)}\n`);
  const parts: Part[] = [...hashed.parts, { path: "sbom.cdx.json", from: billBytes }];
  const manifest = manifestBytes({
    ...{ format: 1, version, machine, program: programPart.path },
    ...{ created_at: created.toISOString(), not_after: notAfter.toISOString() },
    models: models.map(({ path }) => path),
    files: [...hashed.files, { path: "sbom.cdx.json", bytes: billBytes.length, sha256: sha256(billBytes) }],
  });
  // Fails here rather than making a bundle that every machine would refuse.
  const content = parseManifest(
    manifest,
    (why) => new Failure("usage", `No bundle can be made of these files: ${why}`),
  );
  const { key } = signer;
  const signature = signatureBytes({ key, signature: signer.sign(manifest) });
  const total = bundleBytes(content, filesFrom(manifest.length));
  const written = await write(target, async (append) => {
    let done = 0;
    const count = (size: number): void => {
      done += size;
      tell("writing", done, total);
    };
    const add = async (name: string, bytes: number, from: string | Buffer, expected: string): Promise<void> => {
      await append(headerOf(name, bytes));
      const source = typeof from === "string" ? await open(from, "r") : null;
      const content = source === null ? [from as Buffer] : partsOf(source, bytes);
      try {
        await hashParts(appended(content, append, count), expected);
      } catch (error) {
        if (error instanceof Damaged)
          throw new Failure("usage", `${name} changed while it was being read: it ${error.message}`);
        throw error;
      } finally {
        await source?.close();
      }
      await append(tarPadding(bytes));
    };
    await add(manifestName, manifest.length, manifest, sha256(manifest));
    await add(signatureName, signature.length, signature, sha256(signature));
    for (const [at, { path, bytes, sha256 }] of content.files.entries())
      await add(path, bytes, parts[at]!.from, sha256);
    await append(tarEnd);
  });
  tell("writing", total, total);
  return { manifest: content, bytes: total, sha256: written };
}

type Append = (bytes: Buffer) => Promise<void>;

async function* appended(
  parts: AsyncIterable<Buffer> | Iterable<Buffer>,
  append: Append,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  for await (const part of parts) {
    await append(part);
    onBytes(part.length);
    yield part;
  }
}

/**
 * Writes a `.partial` file beside the target, renames it once all of it is on the disk, and returns its SHA-256. The next attempt
 * overwrites a partial file that a killed process left.
 */
async function write(target: string, work: (append: Append) => Promise<void>): Promise<string> {
  const partial = `${target}.partial`;
  let file: FileHandle | null = null;
  try {
    file = await open(partial, "w", 0o644);
    const opened = file;
    const hash = createHash("sha256");
    await work((bytes) => {
      hash.update(bytes);
      return opened.writeFile(bytes);
    });
    await file.sync();
    await file.close();
    await rename(partial, target);
    await syncFolder(dirname(target));
    return hash.digest("hex");
  } catch (error) {
    await file?.close();
    if (file !== null) await rm(partial, { force: true });
    if (isErrno(error, "ENOSPC", "EDQUOT")) throw new Failure("bundle_no_space", undefined, { cause: error });
    throw unwritable(partial, error);
  }
}

/** Assigns each model, and each of its files, a path in the bundle. Throws file_missing, usage. */
async function placedModels(models: readonly string[]): Promise<PlacedModel[]> {
  const placed: PlacedModel[] = [];
  for (const [at, model] of models.entries()) {
    const found = await stat(model).catch(() => null);
    if (found === null) throw new Failure("file_missing", `The file ${model} does not exist`);
    const path = `models/${at + 1}/${wordOf(basename(model))}`;
    if (found.isFile()) {
      const main = { path, from: model };
      placed.push({ path, main, parts: [main] });
      continue;
    }
    const entries = await readdir(model, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    const parts = files.sort().map((from) => {
      const inside = relative(model, from);
      if (inside.split("/").some((name) => wordOf(name) !== name))
        throw new Failure("usage", `${from}: file names in a bundle may contain only letters, digits and . _ + -`);
      return { path: `${path}/${inside}`, from };
    });
    const main = parts.find(({ from }) => basename(from) === "model.safetensors");
    if (main === undefined) throw new Failure("usage", `${model} is not a model: model.safetensors is missing`);
    placed.push({ path, main, parts });
  }
  for (const { parts } of placed)
    for (const { path, from } of parts)
      if (path.length > 100) throw new Failure("usage", `${from}: the name is too long`);
  return placed;
}

/** Replaces each character that a bundle's paths may not contain with a hyphen. */
const wordOf = (name: string): string => name.replaceAll(/[^A-Za-z0-9._+-]/g, "-");

async function hashAll(parts: (Part & { from: string })[], tell: Tell): Promise<Hashed> {
  const sizes = await Promise.all(parts.map(async ({ from }) => (await stat(from)).size));
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
  let done = 0;
  const files: Manifest["files"] = [];
  for (const { path, from } of parts) {
    const file = await open(from, "r");
    try {
      const { size: bytes } = await file.stat();
      tell("hashing", done, total);
      files.push({ path, ...(await hashParts(partsOf(file, bytes), null)) });
      done += bytes;
    } finally {
      await file.close();
    }
  }
  tell("hashing", total, total);
  return { parts, files };
}
