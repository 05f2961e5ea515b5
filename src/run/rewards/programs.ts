// Runs an organisation's own verifiers, which are programs in one folder. Each call is a separate process, without network, without our
// environment variables and within resource limits. It reads one line {prompt, answer, reference, passage} and writes one line
// {"reward": 0 to 1, or null}. Because the program is the operator's own, it may read every file that the service's user may read.
import { constants } from "node:fs";
import { access, lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { finish, startProcess } from "../../base/processes.ts";
import type { RewardItem } from "./item.ts";

export interface Programs {
  folder: string;
  names: readonly string[];
  /** Why programs cannot be run here; null if they can. */
  refusal: string | null;
}

/** The timeout is far longer than the CPU limit, because the machine is busy with the run itself. */
const limits = { timeoutMs: 30_000, maxBytes: 1 << 16 };
const resources = [
  // In seconds.
  "--cpu=5",
  // In bytes per process. The limit is on data, not on address space, because many runtimes reserve much more than they use.
  `--data=${1 << 30}`,
  `--fsize=${1 << 24}`,
  "--nofile=256",
  "--core=0",
];
/** The user namespace makes privileges unnecessary. The process namespace ensures that no child outlives the program. */
const alone = ["--user", "--net", "--pid", "--fork", "--kill-child", "--"];
const cleared = ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"];
const name = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/**
 * Lists the programs in the folder, and checks whether they can be run in isolation. Throws config_invalid if the folder cannot be
 * read.
 */
export async function openPrograms(folder: string): Promise<Programs> {
  const files = await readdir(folder).catch((error: Error) => {
    throw new Failure("config_invalid", `PLUMBLINE_VERIFIERS: ${error.message}`);
  });
  const names: string[] = [];
  for (const file of files.sort()) if (name.test(file) && (await isProgram(join(folder, file)))) names.push(file);
  return { folder, names, refusal: await refusalHere() };
}

/** Whether the path is an executable regular file. A link is refused, because it could lead out of the folder. */
const isProgram = async (path: string): Promise<boolean> =>
  (await lstat(path)).isFile() &&
  (await access(path, constants.X_OK).then(
    () => true,
    () => false,
  ));

async function refusalHere(): Promise<string | null> {
  const tried = await finish(
    startProcess("unshare", [...alone, "prlimit", ...resources, ...cleared, "true"]),
    limits,
  ).catch((error: Error) => ({ code: null, stderr: error.message }));
  if (tried.code === 0) return null;
  return `programs are only run without network access, and this machine cannot create the namespace for that (${tried.stderr.trim()})`;
}

export interface Judged {
  reward: number | null;
  /** Why the reward is unknown; null if it is known, or if the program itself returned null. */
  problem: string | null;
}

/** Runs the program on one answer. Throws the signal's reason when it is aborted. */
export async function judgeByProgram(
  folder: string,
  program: string,
  { prompt, reference, passage }: RewardItem,
  answer: string,
  signal: AbortSignal,
): Promise<Judged> {
  signal.throwIfAborted();
  const args = [...alone, "prlimit", ...resources, ...cleared, join(folder, program)];
  const child = startProcess("unshare", args, { cwd: folder });
  const stop = (): void => child.kill("SIGKILL");
  signal.addEventListener("abort", stop, { once: true });
  const input = `${JSON.stringify({ prompt, answer, reference, passage })}\n`;
  const ended = await finish(child, { ...limits, input })
    .catch((error: Error) => error)
    .finally(() => signal.removeEventListener("abort", stop));
  signal.throwIfAborted();
  const unknown = (problem: string): Judged => ({ reward: null, problem });
  if (ended instanceof Error) return unknown(ended.message);
  if (ended.timedOut) return unknown("it took too long");
  if (ended.tooLarge) return unknown("it wrote too much output");
  if (ended.code !== 0)
    return unknown(`it ended with ${ended.code ?? ended.signal}: ${ended.stderr.trim().slice(-300)}`);
  const reward = rewardIn(ended.stdout);
  return reward === undefined
    ? unknown('it did not print exactly one line of the form {"reward": …}')
    : { reward, problem: null };
}

/** Returns the reward in the output; undefined if the output does not follow the protocol. */
function rewardIn(output: string): number | null | undefined {
  const line = output.replace(/\r?\n$/, "");
  if (/[\r\n]/.test(line)) return undefined;
  let said: unknown;
  try {
    said = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof said !== "object" || said === null || !Object.hasOwn(said, "reward")) return undefined;
  const { reward } = said as { reward: unknown };
  if (reward === null) return null;
  return typeof reward === "number" && reward >= 0 && reward <= 1 ? reward : undefined;
}
