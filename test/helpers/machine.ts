import { readFileSync } from "node:fs";
import { cpus } from "node:os";

/** What figures of this machine are kept under: many processors share a name such as «AMD EPYC», so Linux's family and model tell them apart. */
export function processorOf(): string {
  const field = (name: string): string | undefined =>
    new RegExp(String.raw`^${name}\s*:\s*(.+)$`, "m").exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1];
  const [family, model] = process.platform === "linux" ? [field("cpu family"), field("model")] : [];
  const exact = family && model ? ` (family ${family}, model ${model})` : "";
  return `${cpus().length} cores of ${cpus()[0]?.model.trim() ?? "an unknown processor"}${exact}`;
}
