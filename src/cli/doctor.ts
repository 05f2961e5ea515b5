// plumbline doctor: reports what this machine has and lacks. Changes nothing without --fix.
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { checkMachine } from "./checks.ts";
import { mend } from "./mend.ts";
import { answers } from "./output.ts";

export function register(program: Command): void {
  const command = program
    .command("doctor")
    .description(
      "check this machine: Node, trainer, decode thread, model, memory, disk, permissions, leftovers, parts, port, clock, GPU",
    )
    .option(
      "--fix",
      "first repair what needs no decision: permissions, missing folders and indexes, leftovers of a crash; removes no data",
    );
  answers<{ fix?: boolean }>(command, async ({ fix }) => {
    const config = readConfig();
    const mended = fix ? await mend(config.data) : [];
    const checks = await checkMachine(config);
    const ok = checks.every((check) => check.ok || !check.needed);
    const width = Math.max(...checks.map((check) => check.name.length));
    const lines = checks.flatMap((check) => {
      const mark = check.ok ? "ok  " : check.needed ? "LACK" : "none";
      const line = `${mark}  ${check.name.padEnd(width)}  ${check.found}`;
      return check.hint === "" ? [line] : [line, `${" ".repeat(width + 8)}→ ${check.hint}`];
    });
    return {
      json: { ok, checks, ...(fix ? { mended } : {}) },
      text: [...mended.map((what) => `fixed  ${what}`), ...lines].join("\n"),
      exit: ok ? "ok" : "failure",
    };
  });
}
