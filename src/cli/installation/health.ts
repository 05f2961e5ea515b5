// Checks that a newly started service answers, is the right version and finds its data in order.
import { places } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { finish, startProcess } from "../../base/processes.ts";
import { sleep } from "../../base/time.ts";
import { addressOf } from "../connection.ts";
import { asService } from "./account.ts";
import type { Installation, Layout } from "./layout.ts";
import { configOf, type Started } from "./service.ts";

/** Waits until the service answers with this version. Throws upgrade_failed if it does not in time, or if it has ended. */
export async function awaitHealth(
  installed: Installation,
  version: string,
  { problem }: Started,
  timeoutMs: number,
): Promise<void> {
  const { host, port } = configOf(installed);
  const address = addressOf({ address: "", host, port });
  // Until the first key exists, the appliance listens on loopback, whatever PLUMBLINE_HOST says.
  const addresses = [...new Set([address, addressOf({ address: "", host: "127.0.0.1", port })])];
  const untilMs = performance.now() + timeoutMs;
  let said = "nothing answered";
  while (performance.now() < untilMs) {
    for (const one of addresses) {
      const answer = await healthAt(one);
      if (answer.version === version) return;
      said = answer.said;
    }
    const ended = await problem();
    if (ended !== null) throw new Failure("upgrade_failed", `Version ${version} did not start: ${ended}`);
    await sleep(200);
  }
  throw new Failure(
    "upgrade_failed",
    `Version ${version} did not answer at ${address} within ${Math.round(timeoutMs / 1000)} s: ${said}`,
  );
}

async function healthAt(address: string): Promise<{ version: string | null; said: string }> {
  try {
    const response = await fetch(`${address}/healthz`, { signal: AbortSignal.timeout(5_000) });
    const body = (await response.json()) as { version?: string };
    return {
      version: response.ok ? (body.version ?? null) : null,
      said: `version ${body.version} answered instead`,
    };
  } catch (error) {
    const { message, cause } = error as Error;
    return { version: null, said: cause instanceof Error ? cause.message : message };
  }
}

/** Runs the new program's quick check of the data folder. Throws upgrade_failed if it finds problems. */
export async function checkData(installed: Installation, at: Layout): Promise<void> {
  const { data } = installed;
  const child = startProcess(at.program, ["verify", data, "--quick", "--json"], await asService(installed));
  const done = await finish(child, { timeoutMs: 3_600_000, maxBytes: 16 << 20 });
  if (done.code === 0) return;
  const said = done.stderr.trim() || problemsIn(done.stdout);
  throw new Failure(
    "upgrade_failed",
    `The new version finds problems in ${places(data).database} and its files: ${said}`,
  );
}

function problemsIn(stdout: string): string {
  try {
    const { problems, error } = JSON.parse(stdout) as { problems?: string[]; error?: { message: string } };
    return error?.message ?? (problems ?? []).slice(0, 3).join("; ");
  } catch {
    return stdout.slice(0, 300);
  }
}
