// Several command lines in one process, one after the other, for tests of all of them; a program of its own when it is started as one.
import { finish, startNode } from "../../src/base/processes.ts";
import type { Settings } from "./plumbline.ts";

export interface Spoken {
  code: number;
  stdout: string;
  stderr: string;
}

/** In the order given. None of them may end the process. */
export async function many(commands: string[][], settings: Settings = {}): Promise<Spoken[]> {
  const child = startNode(import.meta.filename, [], { env: settings });
  const limits = { timeoutMs: 120_000, maxBytes: 64 << 20, input: JSON.stringify(commands) };
  const { code, stdout, stderr } = await finish(child, limits);
  if (code !== 0) throw new Error(`many ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as Spoken[];
}

async function runAll(commands: string[][]): Promise<Spoken[]> {
  const { runCommandLine } = await import("../../src/cli/verbs.ts");
  const spoken: Spoken[] = [];
  const streams = { stdout: process.stdout, stderr: process.stderr };
  const writes = { stdout: process.stdout.write, stderr: process.stderr.write };
  for (const words of commands) {
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      streams[name].write = (part: string | Uint8Array) => {
        said[name] += typeof part === "string" ? part : Buffer.from(part).toString("utf8");
        return true;
      };
    process.exitCode = 0;
    await runCommandLine(words);
    spoken.push({ code: Number(process.exitCode), ...said });
  }
  for (const name of ["stdout", "stderr"] as const) streams[name].write = writes[name];
  process.exitCode = 0;
  return spoken;
}

if (process.argv[1] === import.meta.filename) {
  const { text } = await import("node:stream/consumers");
  const spoken = await runAll(JSON.parse(await text(process.stdin)) as string[][]);
  process.stdout.write(JSON.stringify(spoken));
}
