// A virtual environment with the pinned Python tools, made once under .cache and again when the pins change.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../../src/base/config.ts";
import { startProcess } from "../../../src/base/processes.ts";

const requirements = join(installation, "test/conformance/python/requirements.txt");
const folder = join(installation, ".cache/conformance");
const stamp = join(folder, "installed.txt");

export interface Ran {
  code: number | null;
  /** What it wrote, to either stream. */
  output: string;
}

/** Where the tools leave what they write. */
export const outputFolder = join(folder, "output");

export async function run(
  command: string,
  args: string[],
  env: Record<string, string> = {},
  cwd = outputFolder,
): Promise<Ran> {
  const ours = Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  );
  mkdirSync(outputFolder, { recursive: true });
  const child = startProcess(command, args, { cwd, env: { ...ours, ...env } });
  child.stdin.end();
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (part: Buffer) => {
      output += part;
    });
  const { code } = await child.ended;
  return { code, output };
}

/** A program of the environment, by its name. */
export const program = (name: string): string => join(folder, "venv/bin", name);

/** Why the Python tools cannot run here, said aloud; false when they are installed. */
export async function withoutPython(): Promise<string | false> {
  const wanted = readFileSync(requirements, "utf8");
  try {
    if (readFileSync(stamp, "utf8") === wanted) return false;
  } catch {
    // Nothing is installed yet.
  }
  rmSync(join(folder, "venv"), { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const steps: [string, string[]][] = [
    ["python3", ["-m", "venv", join(folder, "venv")]],
    [program("pip"), ["install", "--quiet", "--disable-pip-version-check", "--requirement", requirements]],
  ];
  for (const [command, args] of steps) {
    const { code, output } = await run(command, args).catch((error: Error) => ({ code: null, output: error.message }));
    if (code === 0) continue;
    const reason = `SKIPPED, the Python tools cannot be installed: ${command} ${args.join(" ")}: ${output.slice(-2000)}`;
    process.stderr.write(`${reason}\n`);
    return reason;
  }
  writeFileSync(stamp, wanted);
  return false;
}
