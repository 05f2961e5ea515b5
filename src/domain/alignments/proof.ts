// Proves that a run did not train on the questions it is measured by: all of them, including the sealed ones, which the
// run itself never sees.
import { Piscina } from "piscina";
import { Failure } from "../../base/errors.ts";
import type { Overlap } from "../../study/leakage.ts";

export interface AskedQuestion {
  sample_num: number;
  instruction: string;
}

export interface Prover {
  /** Throws benchmark_leak naming the questions. */
  prove(folder: string, questions: readonly AskedQuestion[]): Promise<void>;
  close(): Promise<void>;
}

export function createProver(): Prover {
  const pool = new Piscina({
    filename: new URL("./proof.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: 1000,
  });
  return {
    async prove(folder, questions) {
      const task = { folder, questions: questions.map((question) => question.instruction) };
      const { overlap, items } = (await pool.run(task)) as Overlap;
      if (overlap === 0) return;
      const numbers = [...new Set(items.map((item) => questions[item.question]!.sample_num))].sort((a, b) => a - b);
      const named = numbers.slice(0, 20).join(", ") + (numbers.length > 20 ? ", …" : "");
      throw new Failure("benchmark_leak", `${overlap} training rows give benchmark questions away: samples ${named}`);
    },
    close: () => pool.destroy(),
  };
}
