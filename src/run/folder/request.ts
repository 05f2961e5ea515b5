// Reads what a run is to do: request.json and snapshot/ of its folder, which domain/alignments/snapshot.ts wrote. Both are checked against
// their contract, and the snapshot against its hashes.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno, sha256, sha256OfFile } from "../../base/files.ts";
import {
  type RunRequest,
  runRequest,
  type SnapshotDocument,
  type SnapshotItem,
  snapshotDocument,
  snapshotItem,
  snapshotMarks,
} from "../../contract/run-folder.ts";
import { compile } from "../../contract/validate.ts";
import type { QuestionMarks } from "../../study/leakage.ts";
import type { StudyRow } from "../../study/row.ts";

/** A prompt of a data set with its answer. */
export interface DataSetRow extends StudyRow {
  /** From the data set's rubric column; absent if there is no such column. */
  rubric?: string;
}

export interface Snapshot {
  documents: SnapshotDocument[];
  /** The dev split; empty without a benchmark. */
  dev: SnapshotItem[];
  /** Marks of all questions of the benchmark; null without a benchmark, and in folders made by an older version. */
  marks: QuestionMarks | null;
  /**
   * Rows of the documents that form a data set; these documents are then no longer in `documents`. Absent if the recipe names no data set.
   */
  dataSet?: readonly DataSetRow[];
}

const checkRequest = compile(runRequest);
const checkDocument = compile(snapshotDocument);
const checkItem = compile(snapshotItem);
const checkMarks = compile(snapshotMarks);

const damaged = (file: string, why: string): Failure => new Failure("run_folder_invalid", `${file}: ${why}`);

export async function readRequest(folder: string): Promise<RunRequest> {
  return parsed("request.json", await text(folder, "request.json"), checkRequest);
}

/** Reads the snapshot. Throws run_folder_invalid if a file is missing or does not match its hash in the request. */
export async function readSnapshot(folder: string, request: RunRequest): Promise<Snapshot> {
  const documents: SnapshotDocument[] = [];
  for (const [index, expected] of request.documents.entries()) {
    const name = `snapshot/documents/${index}.json`;
    const content = await text(folder, name);
    if (sha256(content) !== expected.sha256) throw damaged(name, "does not match the snapshot's hash");
    documents.push(parsed(name, content, checkDocument));
  }
  return { documents, dev: await readDev(folder, request), marks: await readMarks(folder, request) };
}

async function readDev(folder: string, request: RunRequest): Promise<SnapshotItem[]> {
  if (request.dev === null) return [];
  const name = "snapshot/dev.jsonl";
  const content = await text(folder, name);
  if (sha256(content) !== request.dev.sha256) throw damaged(name, "does not match the snapshot's hash");
  const lines = content.split("\n").filter((line) => line !== "");
  if (lines.length !== request.dev.items) throw damaged(name, `has ${lines.length} items, not ${request.dev.items}`);
  return lines.map((line, index) => parsed(`${name} line ${index + 1}`, line, checkItem));
}

async function readMarks(folder: string, request: RunRequest): Promise<QuestionMarks | null> {
  const expected = request.dev?.marks_sha256;
  if (expected === undefined) return null;
  const name = "snapshot/marks.json";
  const content = await text(folder, name);
  if (sha256(content) !== expected) throw damaged(name, "does not match the snapshot's hash");
  return parsed(name, content, checkMarks);
}

/** Throws run_folder_invalid unless the file at base.path is the base that the request names by its hash. */
export async function verifyBase(request: RunRequest): Promise<void> {
  const found = await sha256OfFile(request.base.path).catch((error) => {
    throw damaged("request.json", `base.path cannot be read: ${(error as Error).message}`);
  });
  if (found !== request.base.sha256) throw damaged("request.json", "base.sha256 does not match the file at base.path");
}

type AutoAlign = NonNullable<RunRequest["auto_align"]>;

/** The resumes of an auto-align, in order. */
export const resumesOf = ({ resumes, resumed_after: phases = 0 }: AutoAlign): NonNullable<AutoAlign["resumes"]> =>
  resumes ?? (phases === 0 ? [] : [{ phases, looks: 0 }]);

/** Returns a hash of what determines the work. Fence, budget and versions are left out, because they do not change rows or recipe. */
export function identityOf(request: RunRequest): string {
  const { alignment_id, recipe, base, documents, dev, teacher, organisation } = request;
  return sha256(JSON.stringify({ alignment_id, recipe, base: base.sha256, documents, dev, teacher, organisation }));
}

async function text(folder: string, name: string): Promise<string> {
  try {
    return await readFile(join(folder, name), "utf8");
  } catch (error) {
    if (isErrno(error, "ENOENT")) throw damaged(name, "does not exist");
    throw error;
  }
}

function parsed<T>(
  name: string,
  content: string,
  check: (
    value: unknown,
  ) => { ok: true; value: T } | { ok: false; details: { loc: (string | number)[]; msg: string }[] },
): T {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    throw damaged(name, "is not valid JSON");
  }
  const checked = check(value);
  if (checked.ok) return checked.value;
  throw damaged(name, checked.details.map(({ loc, msg }) => `${loc.join(".")} ${msg}`).join("; "));
}
