// Helpers for the verbs that call the appliance's API, which they call as any other client would.
import type { Command } from "commander";
import { Failure, type FailureCode } from "../base/errors.ts";
import type { Client } from "./client.ts";
import { connect } from "./connection.ts";
import { type Answer, answers } from "./output.ts";
import { type Progress, startProgress } from "./progress.ts";

export const asks = <O extends object, Words extends unknown[] = string[]>(
  command: Command,
  act: (client: Client, options: O & { json?: boolean }, ...words: Words) => Promise<Answer>,
): Command =>
  answers<O, Words>(command, async (options, ...words) => {
    const client = await connect();
    try {
      return await act(client, options, ...words);
    } catch (error) {
      throw asSaid(error);
    }
  });

/**
 * Turns a refusal by the API into the appliance's own failure, with its message, hint and exit status. Returns other
 * errors unchanged, and refusals with an unknown code too.
 */
export function asSaid(error: unknown): unknown {
  if (!(error instanceof Failure) || error.code !== "api_refused") return error;
  const { code, said } = error.context as { code?: FailureCode | null; said?: string };
  return code == null || said === undefined ? error : new Failure(code, said, { cause: error });
}

/**
 * Runs `work`, which watches a task of the appliance and shows its progress. Ctrl-C ends the watching but not the task: it
 * throws interrupted, and the message names `again`, the command that watches the task again.
 */
export async function watched<T>(
  again: string,
  work: (progress: Progress, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const leave = (): void => abort.abort();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, leave);
  const progress = startProgress();
  try {
    return await work(progress, abort.signal);
  } catch (error) {
    if (!abort.signal.aborted) throw error;
    throw new Failure(
      "interrupted",
      `No longer watching, but it continues in the background; to watch it again: ${again}`,
    );
  } finally {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, leave);
    progress.end();
  }
}
