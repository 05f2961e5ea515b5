// Where an installation has its parts:
//
//   PREFIX/lib/plumbline/<version>/plumbline   the program of one version: a file, or a link into a source tree
//   PREFIX/lib/plumbline/current               a link to the version that runs
//   PREFIX/lib/plumbline/installation.json     what `upgrade` and `uninstall` need to know
//   PREFIX/lib/plumbline/upgrade.json          exists while an upgrade is under way (see journal.ts)
//   PREFIX/lib/plumbline/undo                  during an upgrade, a link to the version to go back to
//   PREFIX/bin/plumbline                       a link to the current program
//
// Only root can write there, so that the service's user cannot decide what an upgrade does.
import { readFile, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";

/** What was installed, as installation.json keeps it. */
export interface Installation {
  format: 1;
  user: string;
  data: string;
  /** File of the service's settings. */
  environment: string;
  unit: string;
  /** Whether `install` created the user. If so, --purge removes the user. */
  made_user: boolean;
}

export const systemPlaces = {
  environment: "/etc/plumbline/plumbline.env",
  unit: "/etc/systemd/system/plumbline.service",
  /** Folder for the service's compiled code, created by systemd. */
  cache: "/var/cache/plumbline",
};

export const defaults = { user: "plumbline", data: "/var/lib/plumbline", prefix: "/usr/local" };

export function layout(prefix: string) {
  const library = join(prefix, "lib/plumbline");
  return {
    prefix,
    library,
    current: join(library, "current"),
    program: join(library, "current/plumbline"),
    command: join(prefix, "bin/plumbline"),
    record: join(library, "installation.json"),
    journal: join(library, "upgrade.json"),
    /** During an upgrade, a link to the old version, which can undo the upgrade even if the new version does not run. */
    undo: join(library, "undo"),
    undoProgram: join(library, "undo/plumbline"),
    /** Lock file, held by the process that upgrades. */
    lock: join(library, "upgrade.lock"),
    /** Folder of a new program whose version is not known yet. */
    incoming: join(library, "incoming"),
    versionFolder: (version: string) => join(library, version),
    programOf: (version: string) => join(library, version, "plumbline"),
  };
}

export type Layout = ReturnType<typeof layout>;

/** Where an upgrade puts its backup: beside the data folder, because a backup must not be inside it. */
export const upgradeBackup = (data: string): string => `${data}.before-upgrade`;

/**
 * Where root writes the models of a bundle, which the service's user then imports. This is beside the data folder, where that
 * user cannot write.
 */
export const bundleStaging = (data: string): string => `${data}.bundle`;

/** What root types before a verb, so that it works on the service's data as the service's user. */
export const serviceCommand = ({ user, data }: Installation, { command }: Layout): string =>
  `runuser -u ${user} -- env PLUMBLINE_DATA=${data} ${command}`;

export async function readInstallation({ record, library }: Layout): Promise<Installation | null> {
  try {
    return JSON.parse(await readFile(record, "utf8")) as Installation;
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (isErrno(error, "EACCES")) throw new Failure("not_root", `${library} cannot be read`);
    throw error;
  }
}

/** Version that the link `current` points to; null if there is no such link. */
export async function currentVersionIn({ current }: Layout): Promise<string | null> {
  try {
    return basename(await readlink(current));
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw error;
  }
}
