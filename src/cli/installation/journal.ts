// The journal of an upgrade, upgrade.json. It is replaced durably after each step, and removed after the last one. After a kill or
// a power cut, it says which step was completed last. Every step can safely be repeated.
//
//   begun ─► placed ─► backed_up ─► stopped ─► switched ─► started ─► confirmed ─► (no journal)
//     └────────┴───────────┴────────────┴──────────┴───────────┴─► undoing ─► (no journal)
//
// Before `confirmed`, any failure restores the old version. From `confirmed` on, the upgrade can only be completed.
import { readFile, rm } from "node:fs/promises";
import { isErrno, syncFolder, writeJsonDurably } from "../../base/files.ts";
import type { Layout } from "./layout.ts";

/** The steps in order. Each is named after the state that it reaches. */
export const steps = ["placed", "backed_up", "stopped", "switched", "started", "confirmed"] as const;

export type Step = (typeof steps)[number];
export type Reached = "begun" | Step | "undoing";

export interface Journal {
  format: 1;
  from: string;
  to: string;
  reached: Reached;
  /** Whether the service was running before, and so must run again at the end. */
  was_running: boolean;
  /** Schema version of the database before the upgrade. */
  schema: number;
  backup: string;
  begun_at: string;
  /** Why the upgrade is being undone. */
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
