// plumbline doctor: what this machine has and lacks. Changes nothing.
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { checkMachine } from "./checks.ts";
import { answers } from "./output.ts";

export function register(program: Command): void {
  const command = program
    .command("doctor")
    .description(
      "check this machine: Node, trainer, decode thread, model, memory, disk, permissions, port, clock, GPU",
    );
  answers(command, async () => {
    const checks = await checkMachine(readConfig());
    const ok = checks.every((check) => check.ok || !check.needed);
    const width = Math.max(...checks.map((check) => check.name.length));
    const lines = checks.flatMap((check) => {
      const mark = check.ok ? "ok  " : check.needed ? "LACK" : "none";
      const line = `${mark}  ${check.name.padEnd(width)}  ${check.found}`;
      return check.hint === "" ? [line] : [line, `${" ".repeat(width + 8)}→ ${check.hint}`];
    });
    return { json: { ok, checks }, text: lines.join("\n"), exit: ok ? "ok" : "failure" };
  });
}
