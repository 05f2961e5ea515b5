// Applies a bundle step by step. A step whose result already exists is skipped.
import { rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Failure } from "../../base/errors.ts";
import { freeBytes, isErrno, removeTemporaries, sha256OfFile } from "../../base/files.ts";
import { tryLock } from "../../base/lock.ts";
import { machineHere } from "../../base/machine.ts";
import {
  type Bundle,
  extractFile,
  extractModel,
  filesOf,
  isPublicKey,
  type Manifest,
  openBundle,
} from "../../domain/bundles/index.ts";
import { compareVersions } from "../installation/program.ts";
import { type Answer, bytesText } from "../output.ts";
import { type Progress, showBytes, startProgress } from "../progress.ts";
import type { Site } from "./site.ts";

export interface Order {
  /** Public keys; one of them must have signed the bundle. */
  pinned: readonly string[];
  /** Where a newer program is written; null for the working folder, under the program's own name. */
  program: string | null;
  dryRun: boolean;
}

interface ModelReport {
  model: string;
  outcome: "imported" | "there already" | "would import";
  /** Null in a dry run. */
  model_id: string | null;
}

interface ProgramReport {
  version: string;
  outcome: "written" | "there already" | "not newer" | "would write";
  path: string | null;
}

/**
 * Checks the whole bundle, then imports its models and writes out its program if that is newer. A dry run only checks. Throws
 * bundle_key_missing, usage, bundle_locked, bundle_no_space, bundle_invalid, and whatever else openBundle and the import of a
 * model throw.
 */
export async function applyBundle(path: string, site: Site, order: Order): Promise<Answer> {
  if (order.pinned.length === 0) throw new Failure("bundle_key_missing");
  const strange = order.pinned.find((key) => !isPublicKey(key));
  if (strange !== undefined)
    throw new Failure("usage", `${strange} is not a public key: it must be ed25519: followed by 43 characters`);
  const progress = startProgress();
  try {
    const { pinned } = order;
    const show = showBytes(progress);
    const expected = { pinned, machine: machineHere(), now: new Date() };
    const bundle = await openBundle(path, expected, (done, total) => show("checking", done, total));
    try {
      return await applyChecked(path, bundle, site, order, progress);
    } finally {
      await bundle.close();
    }
  } finally {
    progress.end();
  }
}

async function applyChecked(
  path: string,
  bundle: Bundle,
  site: Site,
  order: Order,
  progress: Progress,
): Promise<Answer> {
  const { manifest, key } = bundle;
  const program = await planProgram(manifest, site, order);
  const models = order.dryRun
    ? manifest.models.map((model): ModelReport => ({ model, outcome: "would import", model_id: null }))
    : await whileAlone(site, () => importAll(bundle, site, progress));
  if (program.outcome === "would write" && !order.dryRun) {
    const file = manifest.files.find((one) => one.path === manifest.program)!;
    await extractFile(bundle, file, program.path!, 0o755);
    program.outcome = "written";
  }
  const next = program.path === null || order.dryRun ? [] : [site.replacing(program.version, program.path)];
  return {
    json: {
      ...{ path, key, dry_run: order.dryRun, created_at: manifest.created_at, not_after: manifest.not_after },
      ...{ data: site.data, models, program, next },
    },
    text: [
      `${path}: valid, signed with ${key}, may be applied until ${manifest.not_after}`,
      ...models.map(({ model, outcome, model_id }) => `${outcome}  ${basename(model)}  ${model_id ?? ""}`.trimEnd()),
      `${program.outcome}  version ${program.version}${program.path === null ? "" : `  ${program.path}`}`,
      ...next,
    ].join("\n"),
  };
}

/**
 * Decides whether and where the program is to be written, before anything is changed. Throws usage if it cannot be written
 * there.
 */
async function planProgram(manifest: Manifest, site: Site, order: Order): Promise<ProgramReport> {
  const { version } = manifest;
  if (compareVersions(version, site.version) <= 0) return { version, outcome: "not newer", path: null };
  const path = order.program ?? resolve(basename(manifest.program));
  const { sha256 } = manifest.files.find((file) => file.path === manifest.program)!;
  const found = await sha256OfFile(path).catch((error) => {
    if (isErrno(error, "ENOENT")) return null;
    throw new Failure("usage", `The program cannot be written to ${path}: ${(error as NodeJS.ErrnoException).code}`);
  });
  if (found !== null && found !== sha256) throw new Failure("usage", `${path} already exists and is a different file`);
  if (!(await stat(dirname(path)).catch(() => null))?.isDirectory())
    throw new Failure("usage", `The folder ${dirname(path)} does not exist`);
  return { version, outcome: found === null ? "would write" : "there already", path };
}

/**
 * Makes the staging folder and runs `work` while no other process can use the folder. Removes the folder if `work` succeeds;
 * otherwise the next attempt uses its complete files. Throws bundle_locked.
 */
async function whileAlone<T>(site: Site, work: () => Promise<T>): Promise<T> {
  await site.makeStaging();
  const lock = tryLock(join(site.staging, "lock"));
  if (lock === null) throw new Failure("bundle_locked");
  try {
    // Removes copies that were cut off. Complete files are used again.
    await removeTemporaries(site.staging);
    const done = await work();
    await rm(site.staging, { recursive: true, force: true });
    return done;
  } finally {
    lock.release();
  }
}

async function importAll(bundle: Bundle, site: Site, progress: Progress): Promise<ModelReport[]> {
  const { manifest } = bundle;
  if (manifest.models.length === 0) return [];
  const before = await site.models();
  const known = new Map(before.map((record) => [record.sha256, record.model_id]));
  const isKnown = (model: string): string | undefined =>
    // A folder is never known: the appliance converts it to a single file, whose hash is not in the manifest.
    known.get(manifest.files.find((file) => file.path === model)?.sha256 ?? "");
  await refuseNoRoom(manifest, site, (model) => isKnown(model) !== undefined);
  const reports: ModelReport[] = [];
  for (const [at, model] of manifest.models.entries()) {
    progress.show({ phase: "models", done: at, total: manifest.models.length, unit: "models", note: basename(model) });
    const there = isKnown(model);
    if (there !== undefined) {
      reports.push({ model, outcome: "there already", model_id: there });
      continue;
    }
    const path = await extractModel(bundle, model, site.staging);
    const { model_id } = await site.importModel(path, weightsOf(manifest, model));
    await rm(path, { recursive: true, force: true });
    const isNew = before.every((record) => record.model_id !== model_id);
    reports.push({ model, outcome: isNew ? "imported" : "there already", model_id });
  }
  return reports;
}

/** SHA-256 that the import of a model checks: that of its file, or of the model.safetensors in its folder. */
function weightsOf(manifest: Manifest, model: string): string {
  const files = filesOf(manifest, model);
  return files.find(({ path }) => path === model || path === `${model}/model.safetensors`)!.sha256;
}

/**
 * Throws bundle_no_space if there is not enough disk space for the models. The largest model is counted twice, because for a
 * while it exists both in the staging folder and in the data folder.
 */
async function refuseNoRoom(manifest: Manifest, site: Site, isKnown: (model: string) => boolean): Promise<void> {
  const sizes = manifest.models
    .filter((model) => !isKnown(model))
    .map((model) => filesOf(manifest, model).reduce((sum, { bytes }) => sum + bytes, 0));
  const needed = sizes.reduce((sum, bytes) => sum + bytes, 0) + Math.max(0, ...sizes);
  const free = await freeBytes(site.staging);
  if (free < needed)
    throw new Failure("bundle_no_space", `The models need ${bytesText(needed)}, but only ${bytesText(free)} are free`);
}
