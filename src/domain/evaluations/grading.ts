// The threads that grade.
import { Piscina } from "piscina";
import type { Grade } from "./grade.ts";
import type { GradeTask } from "./grade.worker.ts";

export interface Grading {
  grade(tasks: GradeTask[]): Promise<Grade[]>;
  close(): Promise<void>;
}

/** One thread is enough: it only has to be another one than the one that serves. It leaves when it has nothing to do. */
export function createGrading(): Grading {
  const pool = new Piscina({
    filename: new URL("./grade.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: 30_000,
  });
  return { grade: (tasks) => pool.run(tasks) as Promise<Grade[]>, close: () => pool.destroy() };
}
