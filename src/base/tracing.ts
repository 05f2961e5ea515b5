// Starts the traces that PLUMBLINE_TRACES configures.
import type { Log } from "./log.ts";
import { noTraces, type Traces } from "./traces.ts";

/** Opens traces whose spans are sent to the collector at `url`. If `url` is empty, no spans are recorded. */
export async function openTraces(url: string, facts: { version: string; log: Log }): Promise<Traces> {
  if (url === "") return noTraces;
  return (await import("./collector.ts")).openCollector(url, facts);
}
