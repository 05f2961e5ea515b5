// The worker thread that grades answers.
import { Piscina } from "piscina";
import type { Grade } from "./grade.ts";
import type { GradeTask } from "./grade.worker.ts";

export interface Grading {
  grade(tasks: GradeTask[]): Promise<Grade[]>;
  close(): Promise<void>;
}

/**
 * Grades on one worker thread. One is enough, because it only has to be separate from the serving thread. The thread exits when it
 * has been idle for 30 seconds.
 */
export function createGrading(): Grading {
  const pool = new Piscina({
    filename: new URL("./grade.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: 30_000,
  });
  return { grade: (tasks) => pool.run(tasks) as Promise<Grade[]>, close: () => pool.destroy() };
}
