// Performs an upgrade step by step, and restores the old version on any failure. The journal records the progress (journal.ts).
//
// While the database may belong to either version, the data folder contains the file `upgrading`. With it, only an appliance that
// the upgrade itself starts can use the folder. This also holds if the upgrade was killed.
import { chown, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { places } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, renameDurably, syncFolder } from "../../base/files.ts";
import { type Lock, tryLock } from "../../base/lock.ts";
import { checkPlaces, makeBackup, openFolderTarget, runsUnderWay } from "../../domain/backups/index.ts";
import { schemaVersion } from "../../store/snapshot.ts";
import { asService, findAccount } from "./account.ts";
import { bringDatabaseBack, forgetCopy, isMigrated, keepDatabase } from "./database.ts";
import { awaitHealth, checkData } from "./health.ts";
import { endJournal, type Journal, readJournal, type Step, steps, writeJournal } from "./journal.ts";
import { currentVersionIn, type Installation, type Layout, readInstallation, upgradeBackup } from "./layout.ts";
import { compareVersions, linkDurably, placeProgram, refuseStranger, versionOf } from "./program.ts";
import { type Service, serviceOf } from "./service.ts";

export interface UpgradeOptions {
  prefix: Layout;
  /** How long a version may take before it answers. */
  timeoutMs: number;
  tell(line: string): void;
}

export interface UpgradeReport {
  from: string;
  to: string;
  /** Where the backup is. */
  backup: string;
  outcome: "upgraded" | "undone" | "nothing to do";
}

/**
 * Upgrades to the program `file`. Throws upgrade_refused, program_invalid, file_missing, upgrade_unfinished, upgrade_locked,
 * not_installed, not_root, data_missing, upgrade_failed, and usage if the place of the backup is not allowed.
 */
export const beginUpgrade = (file: string, backup: string | undefined, options: UpgradeOptions) =>
  withUpgrade(options, async (upgrade) => {
    if (upgrade.journal !== null) throw new Failure("upgrade_unfinished");
    const { data } = upgrade.installed;
    const from = await currentVersionIn(options.prefix);
    if (from === null) throw new Failure("not_installed", `${options.prefix.current} points to no version`);
    const place = backup ?? upgradeBackup(data);
    await checkPlaces(data, place);
    const to = await receive(file, from, upgrade.installed, options.prefix);
    const runs = await runsUnderWay(data);
    if (runs > 0)
      options.tell(
        `${runs === 1 ? "A run is" : `${runs} runs are`} in progress: interrupted now, and resumed later from the last checkpoint`,
      );
    return upgrade.goOn({
      ...({ format: 1, from, to, reached: "begun", backup: place } as const),
      was_running: await upgrade.service.isRunning(),
      schema: schemaVersion(places(data).database),
      begun_at: new Date().toISOString(),
    });
  });

/** Puts a program into the folder `incoming`, checks it and returns its version. Throws upgrade_refused, program_invalid, file_missing. */
async function receive(file: string, from: string, installed: Installation, at: Layout): Promise<string> {
  const program = join(at.incoming, "plumbline");
  try {
    await placeProgram(file, program);
    const by = await asService(installed);
    const to = await versionOf(program, by);
    await refuseStranger(program, by);
    const order = compareVersions(to, from);
    if (order === 0) throw new Failure("upgrade_refused", `Version ${to} is already installed`);
    if (order < 0) throw new Failure("upgrade_refused", `Version ${to} is older than the installed version ${from}`);
    return to;
  } catch (error) {
    await rm(at.incoming, { recursive: true, force: true });
    throw error;
  }
}

/** Continues an upgrade that was cut off, or its undoing. Throws usage if there is none, otherwise as beginUpgrade does. */
export const resumeUpgrade = (options: UpgradeOptions) =>
  withUpgrade(options, async (upgrade) => {
    if (upgrade.journal === null) throw new Failure("usage", "There is no upgrade to resume");
    return upgrade.goOn(upgrade.journal);
  });

/**
 * Restores the old version. An upgrade that was already confirmed is completed instead. The service is started only if it had
 * to be stopped, so that systemd can run this before it starts the service.
 */
export const undoUpgrade = (options: UpgradeOptions) =>
  withUpgrade(options, async (upgrade) => {
    const { journal } = upgrade;
    if (journal === null) return { from: "", to: "", backup: "", outcome: "nothing to do" } satisfies UpgradeReport;
    if (journal.reached === "confirmed") return upgrade.goOn({ ...journal, was_running: true });
    const isRunning = await upgrade.service.isRunning();
    await upgrade.undo({ ...journal, was_running: isRunning }, journal.reason ?? "as requested");
    return { from: journal.from, to: journal.to, backup: journal.backup, outcome: "undone" } satisfies UpgradeReport;
  });

async function withUpgrade(
  options: UpgradeOptions,
  work: (upgrade: Upgrade) => Promise<UpgradeReport>,
): Promise<UpgradeReport> {
  const at = options.prefix;
  const installed = await readInstallation(at);
  if (installed === null) throw new Failure("not_installed", `Nothing is installed in ${at.library}`);
  const lock = lockUpgrade(at);
  try {
    const service = await serviceOf(installed, at);
    const upgrade = new Upgrade(options, installed, service, await readJournal(at));
    return await work(upgrade).finally(() => upgrade.letGo());
  } finally {
    lock.release();
  }
}

function lockUpgrade(at: Layout): Lock {
  try {
    const lock = tryLock(at.lock);
    if (lock !== null) return lock;
  } catch (error) {
    if (isErrno(error, "EACCES", "EROFS", "SQLITE_CANTOPEN"))
      throw new Failure("not_root", `${at.library} is not writable`);
    throw error;
  }
  throw new Failure("upgrade_locked");
}

class Upgrade {
  readonly journal: Journal | null;
  readonly installed: Installation;
  readonly service: Service;
  readonly #options: UpgradeOptions;
  readonly #at: Layout;
  readonly #data: string;
  #marker: Lock | null = null;

  constructor(options: UpgradeOptions, installed: Installation, service: Service, journal: Journal | null) {
    this.#options = options;
    this.#at = options.prefix;
    this.#data = installed.data;
    this.installed = installed;
    this.service = service;
    this.journal = journal;
  }

  /** Continues from the state in the journal to the end. On a failure, returns to the old version and throws upgrade_failed. */
  async goOn(journal: Journal): Promise<UpgradeReport> {
    const { from, to, backup } = journal;
    if (journal.reached === "undoing") {
      await this.undo(journal, journal.reason ?? "");
      throw failed(journal, journal.reason ?? "it was undone");
    }
    try {
      // When an upgrade is resumed, this writes the same journal again, which changes nothing.
      await writeJournal(this.#at, journal);
      if (isReached(journal, "stopped")) await this.#mark();
      for (const step of steps) {
        if (isReached(journal, step)) continue;
        await this.#steps[step](journal);
        journal = { ...journal, reached: step };
        await writeJournal(this.#at, journal);
      }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      await this.undo(journal, reason);
      throw failed(journal, reason, error);
    }
    await this.#finish(journal);
    return { from, to, backup, outcome: "upgraded" };
  }

  /** Each step reaches the state that it is named after, and can safely be repeated. */
  readonly #steps: Record<Step, (journal: Journal) => Promise<void>> = {
    placed: async ({ from, to }) => {
      await linkDurably(from, this.#at.undo);
      if (!(await stat(this.#at.incoming).catch(() => null))) return;
      await rm(this.#at.versionFolder(to), { recursive: true, force: true });
      await renameDurably(this.#at.incoming, this.#at.versionFolder(to));
    },
    backed_up: async ({ backup, from }) => {
      this.#options.tell(`backing up to ${backup}`);
      const target = await openFolderTarget(backup);
      const now = (): string => new Date().toISOString();
      try {
        await makeBackup(target, { data: this.#data, version: from, now, onProgress: () => {} });
      } finally {
        await target.close();
      }
    },
    stopped: async ({ from }) => {
      this.#options.tell(`stopping version ${from}`);
      await this.#mark();
      await this.service.stop();
      await keepDatabase(this.installed);
    },
    switched: ({ to }) => linkDurably(to, this.#at.current),
    started: async ({ to }) => {
      this.#options.tell(`starting version ${to}`);
      await this.#startVersion(to);
    },
    confirmed: async ({ to }) => {
      this.#options.tell("checking the data");
      // The service may have ended since the last step, for example if the machine was restarted.
      await this.#startVersion(to);
      await checkData(this.installed, this.#at);
    },
  };

  async #finish({ from, to, was_running }: Journal): Promise<void> {
    if (!was_running) await this.service.stop();
    await this.#unmark();
    await forgetCopy(this.#data);
    await rm(this.#at.undo, { force: true });
    // The previous version is kept, in case somebody wants to inspect it.
    for (const name of await readdir(this.#at.library, { withFileTypes: true }))
      if (name.isDirectory() && name.name !== from && name.name !== to)
        await rm(this.#at.versionFolder(name.name), { recursive: true, force: true });
    await endJournal(this.#at);
  }

  async undo(journal: Journal, reason: string): Promise<void> {
    const { from, to, schema, was_running } = journal;
    this.#options.tell(`going back to version ${from}: ${reason}`);
    await writeJournal(this.#at, { ...journal, reached: "undoing", reason });
    // Without the marker, the old version was never stopped, or it is already completely restored.
    if (await this.#isMarked()) {
      await this.#mark();
      await this.service.stop();
      await linkDurably(from, this.#at.current);
      if (isMigrated(this.#data, schema)) {
        this.#options.tell(`restoring the database; the one that version ${to} changed is kept beside it`);
        await bringDatabaseBack(this.installed, to);
      }
      await forgetCopy(this.#data);
      if (was_running) await this.#startAgain(from);
      await this.#unmark();
    }
    for (const folder of [this.#at.versionFolder(to), this.#at.incoming])
      await rm(folder, { recursive: true, force: true });
    await rm(this.#at.undo, { force: true });
    await endJournal(this.#at);
  }

  /** Starts the service unless it is running, and waits until this version answers. */
  async #startVersion(version: string): Promise<void> {
    await awaitHealth(this.installed, version, await this.service.start(), this.#options.timeoutMs);
  }

  async #startAgain(from: string): Promise<void> {
    await this.#startVersion(from).catch((error: Error) => {
      throw new Failure("upgrade_unfinished", `Version ${from} is installed again. ${error.message}`, {
        cause: error,
      });
    });
  }

  /** Marks and locks the data folder, so that only an appliance that this upgrade starts can use it. Throws upgrade_locked. */
  async #mark(): Promise<void> {
    if (this.#marker !== null) return;
    const { upgrading } = places(this.#data);
    if (!(await this.#isMarked())) {
      await writeFile(upgrading, "", { flag: "wx", mode: 0o600 });
      const account = await findAccount(this.installed.user);
      if (account && process.getuid?.() === 0) await chown(upgrading, account.uid, account.gid);
      await syncFolder(this.#data);
    }
    this.#marker = tryLock(upgrading);
    if (this.#marker === null) throw new Failure("upgrade_locked");
  }

  #isMarked(): Promise<boolean> {
    return stat(places(this.#data).upgrading).then(
      () => true,
      () => false,
    );
  }

  async #unmark(): Promise<void> {
    await rm(places(this.#data).upgrading, { force: true });
    await syncFolder(this.#data);
    this.letGo();
  }

  letGo(): void {
    this.#marker?.release();
    this.#marker = null;
  }
}

const isReached = ({ reached }: Journal, step: Step): boolean =>
  (steps as readonly string[]).indexOf(reached) >= steps.indexOf(step);

const failed = ({ from, to, was_running }: Journal, reason: string, cause?: unknown): Failure =>
  new Failure(
    "upgrade_failed",
    `The upgrade to ${to} failed: ${reason}. Version ${from} ${was_running ? "runs again" : "is installed again"}`,
    { cause },
  );
