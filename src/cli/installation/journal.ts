// The journal of an upgrade: upgrade.json, replaced durably after each step, and gone with the last. Whoever finds it after a
// kill or a power cut knows what was done last; every step can be done twice.
//
//   begun ─► placed ─► backed_up ─► stopped ─► switched ─► started ─► confirmed ─► (no journal)
//     └────────┴───────────┴────────────┴──────────┴───────────┴─► undoing ─► (no journal)
//
// Until `confirmed` the old version can come back, and does on any failure. From there on the upgrade is only finished.
import { readFile, rm } from "node:fs/promises";
import { isErrno, syncFolder, writeJsonDurably } from "../../base/files.ts";
import type { Layout } from "./layout.ts";

/** Steps in their order, by what they reach. */
export const steps = ["placed", "backed_up", "stopped", "switched", "started", "confirmed"] as const;

export type Step = (typeof steps)[number];
export type Reached = "begun" | Step | "undoing";

export interface Journal {
  format: 1;
  from: string;
  to: string;
  reached: Reached;
  /** Whether the service ran, and is to run again in the end. */
  was_running: boolean;
  /** Schema version of the database before. */
  schema: number;
  backup: string;
  begun_at: string;
  /** Why it is undone. */
  reason?: string;
}

export async function readJournal({ journal }: Layout): Promise<Journal | null> {
  try {
    return JSON.parse(await readFile(journal, "utf8")) as Journal;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  }
}

export const writeJournal = ({ journal }: Layout, content: Journal): Promise<void> =>
  writeJsonDurably(journal, content);

export async function endJournal({ journal, library }: Layout): Promise<void> {
  await rm(journal, { force: true });
  await syncFolder(library);
}
