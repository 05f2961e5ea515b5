// Reads a PDF or an archive in a separate process. The process may read only that file and our code, and may neither start
// processes nor load addons. A failure there ends only that process.
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { finish, startProcess } from "../../base/processes.ts";
import { type Refused, readingTimeoutMs, tooSlow } from "../../base/readers.ts";
import type { DocumentFormat } from "../../contract/documents.ts";
import type { Reading } from "./elements.ts";

/**
 * What the child process writes. `empty` has the numbers of the pages without text. It comes before `reading`, so that it is found
 * without parsing the whole answer.
 */
export type ProbeAnswer =
  | { format: DocumentFormat; empty: number[]; reading: Reading }
  /** A page's picture as a PGM file in base64. Null if the page has none. */
  | { picture: string | null }
  | { refused: Refused };

const heapMiB = 1024;
const memoryBytes = 2 ** 31;
/** Maximum size of the answer in bytes. A JavaScript string can have about twice as many characters. */
const answerBytes = 2 ** 28;

/**
 * Resolves to the JSON of a ProbeAnswer with a reading. Throws what is wrong with the file. `seconds` is the maximum CPU time.
 */
export const probeDocument = (
  path: string,
  kind: "pdf" | "zip",
  name: string,
  seconds: number,
  signal: AbortSignal,
): Promise<string> => probe([path, kind, name], '{"format"', seconds, signal);

/** The picture of a scanned PDF page, as a PGM file; null if the page has none. */
export async function probeScan(
  path: string,
  page: number,
  name: string,
  seconds: number,
  signal: AbortSignal,
): Promise<Uint8Array | null> {
  const { picture } = JSON.parse(await probe([path, `scan ${page}`, name], '{"picture"', seconds, signal)) as {
    picture: string | null;
  };
  return picture === null ? null : Buffer.from(picture, "base64");
}

/** Node options for a process that may read only this file and our code, and may neither start processes nor load addons. */
export function confinement(path: string): string[] {
  // The whole installation is not readable, because the data folder may be in it.
  const packages = join(installation, "node_modules");
  const folders = [join(installation, "src"), packages, realpathSync(packages)].map((folder) => `${folder}/*`);
  return [
    "--permission",
    "--allow-worker",
    ...[...folders, join(installation, "package.json"), path].map((what) => `--allow-fs-read=${what}`),
    `--max-old-space-size=${heapMiB}`,
    "--no-warnings",
  ];
}

async function probe(
  task: [path: string, kind: string, name: string],
  start: string,
  seconds: number,
  signal: AbortSignal,
): Promise<string> {
  const [path, , name] = task;
  const cutOff = (): Failure => new Failure("bad_request", "The upload was cut off");
  if (signal.aborted) throw cutOff();
  const script = join(import.meta.dirname, "probe-child.ts");
  const child = startProcess(process.execPath, [...confinement(path), script, ...task, String(2 * readingTimeoutMs)]);
  const stop = (): void => child.kill("SIGKILL");
  signal.addEventListener("abort", stop, { once: true });
  const finished = await finish(child, {
    ...{ timeoutMs: readingTimeoutMs, cpuMs: 1000 * seconds },
    ...{ maxBytes: answerBytes, memoryBytes },
  }).finally(() => signal.removeEventListener("abort", stop));
  if (signal.aborted) throw cutOff();
  if (finished.timedOut) throw tooSlow("document_limit", name, seconds);
  if (finished.tooLarge || /heap out of memory|Array buffer allocation failed/.test(finished.stderr))
    throw new Failure("document_limit", `${name} takes too much memory to read`);
  if (finished.stdout.startsWith('{"refused"') && finished.code === 0) {
    const { refused } = JSON.parse(finished.stdout) as Extract<ProbeAnswer, { refused: unknown }>;
    throw new Failure(refused.code, refused.message);
  }
  if (finished.code === 0 && finished.stdout.startsWith(start)) return finished.stdout;
  throw new Failure("document_invalid", `${name} is damaged: reading it crashed`, {
    context: { code: finished.code, signal: finished.signal, stderr: finished.stderr.slice(-4000) },
  });
}
