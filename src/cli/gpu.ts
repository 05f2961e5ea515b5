// The GPUs of this machine, as the driver's own tool (nvidia-smi) reports them.
import { isErrno } from "../base/files.ts";
import { finish, startProcess } from "../base/processes.ts";

export interface Gpu {
  name: string;
  totalBytes: number;
  freeBytes: number;
  driver: string;
}

export type Gpus = { found: Gpu[] } | { found: []; why: string };

const MiB = 1 << 20;

export async function findGpus(): Promise<Gpus> {
  const query = ["--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits"];
  try {
    const ended = await finish(startProcess("nvidia-smi", query), { timeoutMs: 10_000, maxBytes: 1 << 16 });
    if (ended.timedOut) return { found: [], why: "nvidia-smi did not answer within 10 s" };
    if (ended.code !== 0) return { found: [], why: firstLine(ended.stdout) || firstLine(ended.stderr) };
    return { found: ended.stdout.trim().split("\n").map(parse) };
  } catch (error) {
    if (isErrno(error, "ENOENT")) return { found: [], why: "no NVIDIA driver is installed" };
    // This user may not run it. Or it is not there, and this user may not look into one of the folders of PATH.
    if (isErrno(error, "EACCES")) return { found: [], why: "nvidia-smi is missing, or this user may not run it" };
    throw error;
  }
}

function parse(line: string): Gpu {
  const [name = "", total = "", free = "", driver = ""] = line.split(",").map((part) => part.trim());
  return { name, totalBytes: Number(total) * MiB, freeBytes: Number(free) * MiB, driver };
}

const firstLine = (text: string): string => text.trim().split("\n")[0] ?? "";
