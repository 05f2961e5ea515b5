// A thread's work: looks for benchmark questions in a run's rows. It takes seconds on large runs.
import { findOverlap, type Overlap } from "../../study/leakage.ts";
import { readRowTexts } from "./rows.ts";

export default async ({ folder, questions }: { folder: string; questions: string[] }): Promise<Overlap> =>
  findOverlap(questions, await readRowTexts(folder));
