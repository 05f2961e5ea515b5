// Runs work that reads all documents or rows of a run or benchmark in a thread of its own. On large ones this work takes minutes,
// during which the main thread must keep responding.
import { MessageChannel } from "node:worker_threads";
import { Piscina } from "piscina";
import { type Answering, answer } from "./remote.ts";
import type { StudyTask } from "./study.worker.ts";

type Work = typeof import("./study.worker.ts");

export interface StudyThread {
  study(task: StudyTask, parts: Answering): ReturnType<Work["study"]>;
  overlap(task: Parameters<Work["overlap"]>[0]): Promise<ReturnType<Work["overlap"]>>;
  passages(task: Parameters<Work["passages"]>[0]): Promise<ReturnType<Work["passages"]>>;
  passagesFor(task: Parameters<Work["passagesFor"]>[0]): Promise<ReturnType<Work["passagesFor"]>>;
  /** Makes the index that `search` needs. */
  index(documents: Parameters<Work["index"]>[0]): Promise<void>;
  search(questions: Parameters<Work["search"]>[0]): Promise<ReturnType<Work["search"]>>;
  forecast(task: Parameters<Work["forecast"]>[0]): Promise<ReturnType<Work["forecast"]>>;
  references(task: Parameters<Work["references"]>[0]): Promise<ReturnType<Work["references"]>>;
  plan(task: Parameters<Work["plan"]>[0]): Promise<ReturnType<Work["plan"]>>;
  candidates(task: Parameters<Work["candidates"]>[0]): Promise<ReturnType<Work["candidates"]>>;
  close(): Promise<void>;
}

/** Opens the study's thread. Its tasks end with an AbortError once `signal` is aborted. */
export function openStudyThread(signal: AbortSignal): StudyThread {
  const pool = new Piscina({
    filename: new URL("./study.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    // The worker must never end when idle, because it keeps the index between searches.
    idleTimeout: Number.POSITIVE_INFINITY,
  });
  return {
    async study(task, parts) {
      const { port1: own, port2: port } = new MessageChannel();
      const { failed } = answer(own, parts);
      try {
        return await pool.run({ ...task, port }, { name: "study", signal, transferList: [port] });
      } catch (error) {
        throw failed() ?? error;
      } finally {
        own.close();
      }
    },
    overlap: (task) => pool.run(task, { name: "overlap", signal }),
    passages: (task) => pool.run(task, { name: "passages", signal }),
    passagesFor: (task) => pool.run(task, { name: "passagesFor", signal }),
    index: (documents) => pool.run(documents, { name: "index", signal }),
    search: (questions) => pool.run(questions, { name: "search", signal }),
    forecast: (task) => pool.run(task, { name: "forecast", signal }),
    references: (task) => pool.run(task, { name: "references", signal }),
    plan: (task) => pool.run(task, { name: "plan", signal }),
    candidates: (task) => pool.run(task, { name: "candidates", signal }),
    close: () => pool.destroy(),
  };
}
