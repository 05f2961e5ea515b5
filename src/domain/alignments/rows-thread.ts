// What reads all documents of a run does so in a thread of its own: minutes on large ones, during which the run must still answer
// its commands.
import { Piscina } from "piscina";

type Work = typeof import("./rows.worker.ts");

export interface RowsThread {
  make(task: Parameters<Work["make"]>[0]): Promise<ReturnType<Work["make"]>>;
  overlapping(task: Parameters<Work["overlapping"]>[0]): Promise<ReturnType<Work["overlapping"]>>;
  passages(task: Parameters<Work["passages"]>[0]): Promise<ReturnType<Work["passages"]>>;
  close(): Promise<void>;
}

/** Tasks end with an AbortError once `signal` is aborted. */
export function openRowsThread(signal: AbortSignal): RowsThread {
  const pool = new Piscina({
    filename: new URL("./rows.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
  });
  return {
    make: (task) => pool.run(task, { name: "make", signal }),
    overlapping: (task) => pool.run(task, { name: "overlapping", signal }),
    passages: (task) => pool.run(task, { name: "passages", signal }),
    close: () => pool.destroy(),
  };
}
