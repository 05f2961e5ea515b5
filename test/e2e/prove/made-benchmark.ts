// Waits for a benchmark that is being made of documents.
import { setTimeout as delay } from "node:timers/promises";
import type { TestHouse } from "../../helpers/house.ts";

/** The benchmark's record once it is READY; how far it is goes to stderr. Throws why it failed. */
export async function madeBenchmark(it: TestHouse, benchmark_id: string) {
  for (let shown = ""; ; await delay(1000)) {
    const { body } = await it.call("benchmarks.get", { params: { benchmark_id } });
    if (body.status === "READY") return body;
    if (body.status !== "PROCESSING") throw new Error(body.error);
    const { phase, done, total, seconds_left } = body.progress_detail;
    const line = `${phase} ${done} of ${total ?? "?"}, ${seconds_left === null ? "?" : Math.ceil(seconds_left)} s left at most`;
    if (line !== shown) console.error(line);
    shown = line;
  }
}
