// What reads all documents or rows of a run or a benchmark does so in a thread of its own: minutes on large ones, during which whoever
// asked must still answer.
import { Piscina } from "piscina";

type Work = typeof import("./study.worker.ts");

export interface StudyThread {
  overlap(task: Parameters<Work["overlap"]>[0]): Promise<ReturnType<Work["overlap"]>>;
  passages(task: Parameters<Work["passages"]>[0]): Promise<ReturnType<Work["passages"]>>;
  forecast(task: Parameters<Work["forecast"]>[0]): Promise<ReturnType<Work["forecast"]>>;
  references(task: Parameters<Work["references"]>[0]): Promise<ReturnType<Work["references"]>>;
  plan(task: Parameters<Work["plan"]>[0]): Promise<ReturnType<Work["plan"]>>;
  candidates(task: Parameters<Work["candidates"]>[0]): Promise<ReturnType<Work["candidates"]>>;
  close(): Promise<void>;
}

/** Tasks end with an AbortError once `signal` is aborted. */
export function openStudyThread(signal: AbortSignal): StudyThread {
  const pool = new Piscina({
    filename: new URL("./study.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
  });
  return {
    overlap: (task) => pool.run(task, { name: "overlap", signal }),
    passages: (task) => pool.run(task, { name: "passages", signal }),
    forecast: (task) => pool.run(task, { name: "forecast", signal }),
    references: (task) => pool.run(task, { name: "references", signal }),
    plan: (task) => pool.run(task, { name: "plan", signal }),
    candidates: (task) => pool.run(task, { name: "candidates", signal }),
    close: () => pool.destroy(),
  };
}
