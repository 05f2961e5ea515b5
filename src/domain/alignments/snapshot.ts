// Prepares run folders. A run folder holds what the run may see, frozen at creation, and the request, which each claim writes anew.
//
//   snapshot/documents/<n>.json, snapshot/dev.jsonl   what the run reads; never the sealed split
//   snapshot/marks.json                               salted marks of all questions, used to drop training rows that match one
//   order.json                                        what was requested, with the hashes of the above
//   request.json                                      the order, with this claim's fence, budget, encoder and versions
//
// A folder is made under a temporary name, synced and renamed before the row of its alignment is written. A crash between the
// two leaves a folder without a row, which `tidyRuns` removes at the next start.
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import {
  isErrno,
  isTemporary,
  makeFolder,
  renameDurably,
  sha256,
  syncFolder,
  temporaryName,
  writeFileDurably,
  writeJsonDurably,
} from "../../base/files.ts";
import { randomWord } from "../../base/ids.ts";
import type { AutoAlignRequest } from "../../contract/auto-align.ts";
import type { Recipe } from "../../contract/recipe.ts";
import type { RunRequest, SnapshotDocument, SnapshotItem } from "../../contract/run-folder.ts";
import { marksOf } from "../../study/leakage.ts";

export interface OrderedWork {
  alignmentId: string;
  recipeName: string;
  recipe: Recipe;
  base: { id: string; sha256: string; architecture: string };
  documents: readonly SnapshotDocument[];
  /** Hashes of the uploaded files, in the order of `documents`; left out if there are none. */
  originals?: readonly string[];
  /** The dev split; null without a benchmark. */
  dev: {
    benchmarkId: string;
    /** Hash of the benchmark from its record; left out if it has no record. */
    sha256?: string;
    items: readonly SnapshotItem[];
    /** Questions of all splits. The run receives only their marks. */
    questions: readonly string[];
  } | null;
  organisation: string | null;
  /** The model that writes questions before the run starts; null if only the base or the built-in writer writes them. */
  teacher: NonNullable<RunRequest["teacher"]> | null;
  /** For an auto-align: what the teacher wrote for the project, so that it is not asked again. */
  teacherReplies?: Buffer;
  /** The target of an auto-align; left out for a plain alignment. */
  autoAlign?: OrderedAutoAlign;
}

type AutoAlign = NonNullable<RunRequest["auto_align"]>;
type OrderedAutoAlign = Omit<AutoAlign, "resumes" | "resumed_after" | "stopping">;

type Order = Omit<RunRequest, "fence" | "budget" | "versions" | "base" | "encoder" | "auto_align"> & {
  base: Omit<RunRequest["base"], "path">;
  auto_align?: OrderedAutoAlign;
};

/** Makes the run folder, which is durable once this resolves. Throws disk_full. */
export async function makeRunFolder(runs: string, work: OrderedWork): Promise<void> {
  const place = join(runs, work.alignmentId);
  const temporary = temporaryName(place);
  try {
    await makeFolder(join(temporary, "snapshot", "documents"));
    const documents: Order["documents"] = [];
    for (const [index, document] of work.documents.entries()) {
      const content = `${JSON.stringify(document)}\n`;
      await writeFileDurably(join(temporary, "snapshot", "documents", `${index}.json`), content);
      documents.push({
        id: document.id,
        name: document.name,
        sha256: sha256(content),
        ...(work.originals && { original_sha256: work.originals[index]! }),
      });
    }
    const order: Order = {
      format: 1,
      alignment_id: work.alignmentId,
      recipe_name: work.recipeName,
      recipe: work.recipe,
      base: work.base,
      documents,
      dev: work.dev && (await writeDev(join(temporary, "snapshot"), work.dev)),
      ...(work.organisation !== null && { organisation: work.organisation }),
      ...(work.teacher && { teacher: work.teacher }),
      ...(work.autoAlign && { auto_align: work.autoAlign }),
    };
    if (work.teacherReplies) await writeFileDurably(join(temporary, teacherFile), work.teacherReplies);
    await writeJsonDurably(join(temporary, "order.json"), order);
    await syncFolder(join(temporary, "snapshot"));
    await renameDurably(temporary, place);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw diskFailure(error);
  }
}

export const diskFailure = (error: unknown): unknown =>
  isErrno(error, "ENOSPC", "EDQUOT") ? new Failure("disk_full", undefined, { cause: error }) : error;

async function writeDev(folder: string, dev: NonNullable<OrderedWork["dev"]>): Promise<NonNullable<Order["dev"]>> {
  const content = dev.items.map((item) => `${JSON.stringify(item)}\n`).join("");
  await writeFileDurably(join(folder, "dev.jsonl"), content);
  const marks = `${JSON.stringify(marksOf(dev.questions, randomWord()))}\n`;
  await writeFileDurably(join(folder, "marks.json"), marks);
  const { benchmarkId: benchmark_id, sha256: benchmark_sha256, items } = dev;
  return {
    benchmark_id,
    sha256: sha256(content),
    ...(benchmark_sha256 === undefined ? {} : { benchmark_sha256 }),
    items: items.length,
    marks_sha256: sha256(marks),
  };
}

/** Writes request.json for this claim. Throws disk_full, run_folder_invalid. */
export async function writeRequest(
  folder: string,
  claim: Pick<RunRequest, "fence" | "budget" | "versions" | "encoder"> & {
    basePath: string;
    /** Only for an auto-align. */
    autoAlign?: Pick<AutoAlign, "resumes" | "stopping">;
  },
): Promise<void> {
  const { base, auto_align: ordered, ...order } = await readOrder(folder);
  const request: RunRequest = {
    ...order,
    ...(ordered && claim.autoAlign && { auto_align: { ...ordered, ...claim.autoAlign } }),
    fence: claim.fence,
    base: { ...base, path: claim.basePath },
    budget: claim.budget,
    encoder: claim.encoder ?? null,
    versions: claim.versions,
  };
  await writeJsonDurably(join(folder, "request.json"), request).catch((error) => {
    throw diskFailure(error);
  });
}

/**
 * Reads the recipe of a run, and the request of an auto-align (otherwise null), even before the run is claimed. Throws
 * run_folder_invalid.
 */
export async function readOrderedRecipe(
  folder: string,
): Promise<{ recipe: Recipe; autoAlign: AutoAlignRequest | null }> {
  const { recipe, auto_align } = await readOrder(folder);
  return { recipe, autoAlign: (auto_align?.request ?? null) as AutoAlignRequest | null };
}

async function readOrder(folder: string): Promise<Order> {
  try {
    return JSON.parse(await readFile(join(folder, "order.json"), "utf8")) as Order;
  } catch (error) {
    if (!isErrno(error, "ENOENT") && !(error instanceof SyntaxError)) throw error;
    throw new Failure("run_folder_invalid", `order.json: ${(error as Error).message}`, { cause: error });
  }
}

const documentFile = (index: number): string => join("snapshot", "documents", `${index}.json`);
/** The name that run/folder/teacher.ts uses. */
const teacherFile = "teacher.jsonl";
/** The name that run/auto/reward-models.ts uses. */
const rewardModelsFile = "reward-models.jsonl";

/** Reads what another run can be made from: this run's inputs and what its teacher wrote. Throws snapshot_gone. */
export async function readWholeSnapshot(
  folder: string,
): Promise<Pick<OrderedWork, "documents" | "originals" | "organisation" | "recipe" | "teacher" | "teacherReplies">> {
  const order = await readOrder(folder).catch((error) => {
    throw new Failure("snapshot_gone", "The project's snapshot no longer exists", { cause: error });
  });
  const documents: SnapshotDocument[] = [];
  for (const [index, { name, sha256: expected }] of order.documents.entries()) {
    const content = await readIfThere(join(folder, documentFile(index)));
    if (content === null || sha256(content) !== expected)
      throw new Failure("snapshot_gone", `The snapshot of ${name} was deleted from the project`);
    documents.push(JSON.parse(content.toString("utf8")) as SnapshotDocument);
  }
  const originals = order.documents.map(({ original_sha256 }) => original_sha256);
  const teacherReplies = order.teacher == null ? null : await readIfThere(join(folder, teacherFile));
  return {
    documents,
    ...(originals.every((one) => one !== undefined) && { originals }),
    organisation: order.organisation ?? null,
    recipe: order.recipe,
    teacher: teacherReplies === null ? null : order.teacher!,
    ...(teacherReplies !== null && { teacherReplies }),
  };
}

async function readIfThere(path: string): Promise<Buffer | null> {
  return readFile(path).catch((error) => {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  });
}

/** Whether the snapshot still has all its documents, of which there were `documents`. */
export const isSnapshotWhole = (folder: string, documents: number): boolean =>
  Array.from({ length: documents }, (_, index) => join(folder, documentFile(index))).every((path) => existsSync(path));

/** Removes one document from a finished run's folder: its text, and every file that was made from the documents. */
export async function removeSnapshot(folder: string, documentId: string): Promise<void> {
  const { documents } = await readOrder(folder);
  const index = documents.findIndex(({ id }) => id === documentId);
  const made = ["prepared", "guards", "plan", teacherFile, rewardModelsFile, "answers.jsonl", "checkpoints"];
  for (const name of [documentFile(index), ...made]) await rm(join(folder, name), { recursive: true, force: true });
  await syncFolder(folder);
}

export const removeRunFolder = (runs: string, alignmentId: string): Promise<void> =>
  rm(join(runs, alignmentId), { recursive: true, force: true });

/** Removes folders, complete or not, that belong to no alignment. `isKnown` is called just before each removal. */
export async function tidyRuns(runs: string, isKnown: (alignmentId: string) => boolean): Promise<void> {
  await mkdir(runs, { recursive: true, mode: 0o700 });
  for (const name of await readdir(runs)) {
    // A temporary folder's name ends with the name of the folder that it was made for.
    const alignmentId = isTemporary(name) ? name.slice(name.lastIndexOf("-") + 1) : name;
    if (!isKnown(alignmentId)) await rm(join(runs, name), { recursive: true, force: true });
  }
}
