// Worker thread that reads documents. Refusals are returned as plain data, because an error would lose its code between
// threads.
import type { Answer } from "../../base/readers.ts";
import { type Duplicate, duplicatesOf } from "./duplicates.ts";
import { type Parsed, type ParseOptions, parsedReading, parseText, structureOfText } from "./parse.ts";
import type { ProbeAnswer } from "./probe.ts";
import { refusalOf } from "./refusal.ts";
import { type Recognised, withScans } from "./scans.ts";
import type { MediaType } from "./store.ts";
import { readStructure, type Structure } from "./structure.ts";

const asData = <Task extends { name: string }, Result>(work: (task: Task) => Result | Promise<Result>) => {
  return async (task: Task): Promise<Answer<Result>> => {
    try {
      return { done: await work(task) };
    } catch (error) {
      const refused = refusalOf(error, task.name);
      if (refused) return refused;
      throw error;
    }
  };
};

export const text = asData((task: ParseOptions & { path: string }): Promise<Parsed> => parseText(task.path, task));

/** Parses what the probe read. `answer` is the probe's JSON. */
export const reading = asData((task: ParseOptions & { answer: string; recognised: Recognised[] }): Parsed => {
  const { format, reading: read } = JSON.parse(task.answer) as Extract<ProbeAnswer, { reading: unknown }>;
  return parsedReading(format, withScans(read, task.recognised), task);
});

export interface CompareTask {
  name: string;
  own: Uint8Array;
  others: { id: string; signatures: Uint8Array }[];
}

export const compare = asData((task: CompareTask): Duplicate[] => duplicatesOf(task.own, task.others));

export interface StructureTask {
  text: string;
  /** JSON of a Structure; null if none was stored. */
  structure: string | null;
  mediaType: MediaType;
  name: string;
}

export const parts = asData((task: StructureTask) => {
  const kept =
    task.structure === null
      ? structureOfText(task.text, task.mediaType, task.name)
      : (JSON.parse(task.structure) as Structure);
  return readStructure(task.text, kept);
});
