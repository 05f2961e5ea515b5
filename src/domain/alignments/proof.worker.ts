// Looks for benchmark questions in a run's rows. Runs in a worker thread, because large runs take seconds.

import { readRowTexts } from "../../run/folder/rows.ts";
import { findOverlap, type Overlap } from "../../study/leakage.ts";

export default async ({ folder, questions }: { folder: string; questions: string[] }): Promise<Overlap> =>
  findOverlap(questions, await readRowTexts(folder));
