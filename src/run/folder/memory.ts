// Answers of models by what was asked, in a file of the run's folder: a run killed while it prepares asks nothing twice. Only their
// places in the file are kept in memory, since what the base says of many rows is hundreds of megabytes.
import { createReadStream } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { isErrno, sha256, syncFolder } from "../../base/files.ts";

export interface Memory {
  get(key: string): Promise<string | undefined>;
  put(key: string, answer: string): Promise<void>;
  close(): Promise<void>;
}

/** What is asked while rows are made. */
const answersFile = "answers.jsonl";

/** Bytes of an answer in the file. */
interface Place {
  from: number;
  bytes: number;
}

const newline = 10;

/** A line is {"key":"…","answer":"…"}, with the hash of the key: each part has its place. */
const beforeHash = '{"key":"';
const afterHash = '","answer":';
const hashLength = sha256("").length;
const beforeAnswer = beforeHash.length + hashLength + afterHash.length;
const afterAnswer = "}";

export async function openMemory(runFolder: string, fileName = answersFile): Promise<Memory> {
  const path = join(runFolder, fileName);
  const { places, end } = await readPlaces(path);
  const file = await open(path, "a+", 0o600);
  // A line that was torn would swallow the next one.
  await file.truncate(end);
  await syncFolder(runFolder);
  let size = end;
  return {
    get: (key) => readAnswer(file, places.get(sha256(key))),
    async put(key, answer) {
      const hash = sha256(key);
      const line = Buffer.from(`${beforeHash}${hash}${afterHash}${JSON.stringify(answer)}${afterAnswer}\n`);
      await file.appendFile(line);
      places.set(hash, placeOf(size, size + line.length - 1));
      size += line.length;
    },
    close: () => file.close(),
  };
}

/** Once the rows are made nothing is asked any more. */
export const removeMemory = (runFolder: string): Promise<void> => rm(join(runFolder, answersFile), { force: true });

async function readAnswer(file: FileHandle, place: Place | undefined): Promise<string | undefined> {
  if (place === undefined) return undefined;
  const { buffer } = await file.read(Buffer.alloc(place.bytes), 0, place.bytes, place.from);
  try {
    return JSON.parse(buffer.toString("utf8")) as string;
  } catch {
    // A line that something else damaged is no answer.
    return undefined;
  }
}

/** The answer's in a line that begins at `start` and whose newline is at `stop`. */
const placeOf = (start: number, stop: number): Place => ({
  from: start + beforeAnswer,
  bytes: stop - start - beforeAnswer - afterAnswer.length,
});

/** Of whole lines; `end`: the byte after the last of them. */
async function readPlaces(path: string): Promise<{ places: Map<string, Place>; end: number }> {
  const places = new Map<string, Place>();
  let [start, at] = [0, 0];
  /** As much of the line as its hash stands in. */
  let head = "";
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let stop = chunk.indexOf(newline); stop >= 0; stop = chunk.indexOf(newline, from)) {
        head += chunk.toString("latin1", from, Math.min(stop, from + beforeAnswer - head.length));
        places.set(head.slice(beforeHash.length, beforeHash.length + hashLength), placeOf(start, at + stop));
        head = "";
        from = stop + 1;
        start = at + from;
      }
      head += chunk.toString("latin1", from, from + beforeAnswer - head.length);
      at += chunk.length;
    }
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error;
  }
  return { places, end: start };
}
