// Starts traces as the setting asks.
import type { Log } from "./log.ts";
import { noTraces, type Traces } from "./traces.ts";

/** Sends spans to the collector at `url`; empty: none are made. */
export async function openTraces(url: string, facts: { version: string; log: Log }): Promise<Traces> {
  if (url === "") return noTraces;
  return (await import("./collector.ts")).openCollector(url, facts);
}
