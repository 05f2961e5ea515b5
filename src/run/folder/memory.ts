// Keeps the answers of models, by what was asked, in a file of the run's folder, so that a run killed while it prepares asks nothing twice.
// Only the answers' positions in the file are held in memory, because the base's answers for many rows take hundreds of megabytes.
import { createReadStream } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { isErrno, sha256, syncFolder } from "../../base/files.ts";
import { type Clock, systemClock } from "../../base/time.ts";

export interface Memory {
  /** Seconds that earlier processes took for the answers in the file, all together. */
  readonly secondsBefore: number;
  get(key: string): Promise<string | undefined>;
  put(key: string, answer: string): Promise<void>;
  close(): Promise<void>;
}

/** File for the answers that are needed while rows are made. */
const answersFile = "answers.jsonl";

/** Position of an answer in the file, in bytes. */
interface Place {
  from: number;
  bytes: number;
}

const newline = 10;

/**
 * A line is {"key":"…","ms":…,"answer":…}. The key is stored as its hash and `ms` is padded, so every part before the
 * answer has a fixed position. `ms` counts from the process's previous line, or from when it opened the file. So the
 * time of all lines is the time that the answers took, also where several questions were asked at once.
 */
const headOf = (hash: string, ms: number): string =>
  `{"key":"${hash}","ms":${String(Math.round(ms)).padStart(msWidth)},"answer":`;
/** Lines of older folders have no `ms`. */
const head = /^\{"key":"(?<hash>[0-9a-f]+)",(?:"ms":\s*(?<ms>\d+),)?"answer":/;
const msWidth = 12;
const longestHead = headOf(sha256(""), 0).length;
const afterAnswer = "}";

export async function openMemory(
  runFolder: string,
  { fileName = answersFile, clock = systemClock }: { fileName?: string; clock?: Clock } = {},
): Promise<Memory> {
  const path = join(runFolder, fileName);
  const { places, end, ms } = await readPlaces(path);
  const file = await open(path, "a+", 0o600);
  // An incomplete last line is removed, because the next line would be joined to it.
  await file.truncate(end);
  await syncFolder(runFolder);
  let since = clock.monotonicMs();
  let size = end;
  let written: Promise<unknown> = Promise.resolve();

  async function append(key: string, answer: string): Promise<void> {
    const hash = sha256(key);
    const now = clock.monotonicMs();
    const line = Buffer.from(`${headOf(hash, now - since)}${JSON.stringify(answer)}${afterAnswer}\n`);
    try {
      await file.appendFile(line);
    } catch (error) {
      // A full disk may have taken a part of the line.
      await file.truncate(size);
      throw error;
    }
    since = now;
    places.set(hash, placeOf(size, longestHead, size + line.length - 1));
    size += line.length;
  }

  return {
    secondsBefore: ms / 1000,
    get: (key) => readAnswer(file, places.get(sha256(key))),
    put(key, answer) {
      // Answers that come at the same time are written one after the other.
      const write = written.then(() => append(key, answer));
      written = write.catch(() => {});
      return write;
    },
    async close() {
      await written;
      await file.close();
    },
  };
}

/** Reads the file of another run, which may be in use, without changing it. Null if there is none. */
export async function readMemory(runFolder: string, fileName: string): Promise<Pick<Memory, "get" | "close"> | null> {
  const path = join(runFolder, fileName);
  try {
    const file = await open(path, "r");
    const { places } = await readPlaces(path);
    return { get: (key) => readAnswer(file, places.get(sha256(key))), close: () => file.close() };
  } catch (error) {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  }
}

/** Returns the remembered answer. If there is none, asks and remembers the answer. */
export async function answerTo(
  memory: Pick<Memory, "get" | "put">,
  key: string,
  ask: () => Promise<string>,
): Promise<string> {
  const known = await memory.get(key);
  if (known !== undefined) return known;
  const said = await ask();
  await memory.put(key, said);
  return said;
}

/** Removes the file. Called once the rows are made, because nothing more is asked then. */
export const removeMemory = (runFolder: string): Promise<void> => rm(join(runFolder, answersFile), { force: true });

async function readAnswer(file: FileHandle, place: Place | undefined): Promise<string | undefined> {
  if (place === undefined) return undefined;
  const { buffer } = await file.read(Buffer.alloc(place.bytes), 0, place.bytes, place.from);
  try {
    return JSON.parse(buffer.toString("utf8")) as string;
  } catch {
    // A damaged line counts as no answer.
    return undefined;
  }
}

/** Returns the place of the answer in the line from `start` to the newline at `stop`, after `beforeAnswer` bytes. */
const placeOf = (start: number, beforeAnswer: number, stop: number): Place => ({
  from: start + beforeAnswer,
  bytes: stop - start - beforeAnswer - afterAnswer.length,
});

/**
 * Reads the places of the answers in whole lines, and the time that they took. `end` is the position after the last
 * whole line. A line that does not begin as it should is no answer.
 */
async function readPlaces(path: string): Promise<{ places: Map<string, Place>; end: number; ms: number }> {
  const places = new Map<string, Place>();
  let [start, at, ms] = [0, 0, 0];
  /** The beginning of the current line, with everything up to the answer. */
  let begun = "";
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let stop = chunk.indexOf(newline); stop >= 0; stop = chunk.indexOf(newline, from)) {
        begun += chunk.toString("latin1", from, Math.min(stop, from + longestHead - begun.length));
        const found = head.exec(begun);
        if (found !== null) {
          places.set(found.groups!.hash!, placeOf(start, found[0].length, at + stop));
          ms += Number(found.groups!.ms ?? 0);
        }
        begun = "";
        from = stop + 1;
        start = at + from;
      }
      begun += chunk.toString("latin1", from, from + longestHead - begun.length);
      at += chunk.length;
    }
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error;
  }
  return { places, end: start, ms };
}
