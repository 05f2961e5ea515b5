// The threads that read documents: a hostile one costs its own upload, not the house.
import { Piscina } from "piscina";
import { Failure } from "../../base/errors.ts";
import type { Parsed } from "./parse.ts";
import type { ParseResult } from "./parse.worker.ts";

export interface Parser {
  parse(path: string, name: string, signal: AbortSignal): Promise<Parsed>;
  close(): Promise<void>;
}

const timeLimitMs = 60_000;

export function createParser(): Parser {
  const pool = new Piscina({
    filename: new URL("./parse.worker.ts", import.meta.url).href,
    minThreads: 0,
    maxThreads: 2,
    idleTimeout: 30_000,
    resourceLimits: { maxOldGenerationSizeMb: 1024 },
  });
  return {
    async parse(path, name, signal) {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(timeLimitMs)]);
      let result: ParseResult;
      try {
        result = (await pool.run({ path, name }, { signal: limit })) as ParseResult;
      } catch (error) {
        if (signal.aborted) throw new Failure("bad_request", "The upload was cut off", { cause: error });
        if (limit.aborted) throw new Failure("document_invalid", `${name} takes too long to read`, { cause: error });
        if ((error as NodeJS.ErrnoException).code === "ERR_WORKER_OUT_OF_MEMORY")
          throw new Failure("document_invalid", `${name} takes too much memory to read`, { cause: error });
        throw error;
      }
      if ("code" in result) throw new Failure(result.code, result.message);
      return result.parsed;
    },
    close: () => pool.destroy(),
  };
}
