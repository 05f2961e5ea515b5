// plumbline support: writes one file to send when asking for help, without any text that a person wrote.
import { open } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { isErrno } from "../base/files.ts";
import { unwritable } from "../base/unwritable.ts";
import { answers, bytesText } from "./output.ts";

export function register(program: Command): void {
  const command = program
    .command("support")
    .description("write a file for support: versions, settings, checks, counts, jobs and runs, but no content")
    .argument("[file]", "where to write it (default: plumbline-support-<date>.json in this folder)")
    .option("--log <file>", "add the last lines of a log, as printed by `journalctl -u plumbline -o cat`")
    .addHelpText(
      "after",
      `
The file contains no text of documents, questions or answers, no names of files, models or people, no keys, no addresses and no paths
of this machine. For settings it shows numbers and choices, and whether any other setting is set. It is JSON: read it before you send
it.`,
    );
  answers<{ log?: string }>(command, async ({ log }, file) => {
    const { collect } = await import("./support/collect.ts");
    const now = new Date();
    const path = resolve(file ?? `plumbline-support-${now.toISOString().slice(0, 10)}.json`);
    const bundle = await collect(readConfig(), { now, log: log === undefined ? null : resolve(log) });
    const content = `${JSON.stringify(bundle, null, 1)}\n`;
    await writeNew(path, content);
    const bytes = Buffer.byteLength(content);
    return {
      json: { path, bytes, parts: Object.keys(bundle) },
      text: `${path}: ${bytesText(bytes)}. Read it before you send it`,
    };
  });
}

/** Writes a file that only its owner may read. Throws usage if it exists already or cannot be written. */
async function writeNew(path: string, content: string): Promise<void> {
  const file = await open(path, "wx", 0o600).catch((error) => {
    if (isErrno(error, "EEXIST")) throw new Failure("usage", `${path} already exists`);
    throw unwritable(path, error);
  });
  try {
    await file.writeFile(content);
  } finally {
    await file.close();
  }
}
