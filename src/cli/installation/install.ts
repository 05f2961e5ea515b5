// Plans an installation, and its removal, as lists of steps.
import { chmod, chown, lchown, lstat, mkdir, readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { places } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno, writeFileDurably } from "../../base/files.ts";
import type { Account } from "../../base/processes.ts";
import { versionsInstalled } from "../../base/versions.ts";
import { findAccount } from "./account.ts";
import {
  bundleStaging,
  currentVersionIn,
  defaults,
  type Installation,
  type Layout,
  readInstallation,
  systemPlaces,
  upgradeBackup,
} from "./layout.ts";
import { isPlaced, linkDurably, makePublicFolder, ownProgram, placeProgram, targetOf } from "./program.ts";
import { isSystemdRunning, serviceOf, unitName } from "./service.ts";
import { command, type Step, succeeds } from "./steps.ts";
import { renderSettings, renderUnit } from "./unit.ts";

export interface Wanted {
  user: string;
  data: string;
}

export interface Plan {
  version: string;
  steps: Step[];
  installed: Installation;
  /** Whether the plan starts the service. */
  starts: boolean;
}

/** Plans the installation of the running program. Throws installed_already, usage, folder_not_empty. */
export async function planInstall(wanted: Partial<Wanted>, at: Layout): Promise<Plan> {
  const before = await readInstallation(at);
  const user = wanted.user ?? before?.user ?? defaults.user;
  const data = wanted.data ?? before?.data ?? defaults.data;
  const program = ownProgram();
  const { version } = await versionsInstalled();
  await refuseOther({ user, data }, version, before, at);
  const installed: Installation = {
    format: 1,
    user,
    data,
    environment: systemPlaces.environment,
    unit: systemPlaces.unit,
    made_user: before?.made_user ?? (await findAccount(user)) === null,
  };
  const place = at.programOf(version);
  const target = await targetOf(program, place);
  const unit = renderUnit(installed, at, target);
  const starts = await isSystemdRunning();
  let isUnitNew = false;
  const accountOf = async (): Promise<Account> => (await findAccount(user))!;
  const steps: Step[] = [
    // A source tree is not copied, so the service runs it where it is. A home folder lets no other user in.
    ...(target === place ? [] : [reachStep(user, target)]),
    {
      what: `create the system user ${user}`,
      isDone: async () => (await findAccount(user)) !== null,
      act: () =>
        command(
          ...(["useradd", "--system", "--user-group", "--no-create-home"] as const),
          ...(["--home-dir", data, "--shell", "/usr/sbin/nologin", user] as const),
        ),
    },
    {
      what: `create the data folder ${data} with mode 0700 for ${user}`,
      async isDone() {
        const found = await stat(data).catch(() => null);
        const account = await findAccount(user);
        return found !== null && (found.mode & 0o777) === 0o700 && found.uid === account?.uid;
      },
      async act() {
        const { uid, gid } = await accountOf();
        await makePublicFolder(dirname(data));
        await mkdir(data, { recursive: true });
        // Root may have restored a backup here, whose files the service's user has to open. The folder is given last, so that this
        // user cannot change meanwhile what is given.
        if ((await stat(data)).uid === 0)
          for (const entry of await readdir(data, { recursive: true, withFileTypes: true }))
            await lchown(join(entry.parentPath, entry.name), uid, gid);
        await chown(data, uid, gid);
        await chmod(data, 0o700);
      },
    },
    {
      what: `copy the program ${program} to ${place}`,
      isDone: () => isPlaced(program, place),
      async act() {
        await placeProgram(program, place);
      },
    },
    linkStep(version, at.current),
    linkStep(relative(dirname(at.command), at.program), at.command),
    {
      what: `write the settings ${installed.environment}, which are not changed after that`,
      content: renderSettings(data),
      isDone: async () => (await stat(installed.environment).catch(() => null)) !== null,
      async act() {
        const { gid } = await accountOf();
        await makePublicFolder(dirname(installed.environment));
        await writeFileDurably(installed.environment, renderSettings(data));
        // The settings may contain keys and secrets, so only root and the group of the service's user can read the file.
        await chown(installed.environment, 0, gid);
        await chmod(installed.environment, 0o640);
      },
    },
    {
      ...fileStep(installed.unit, unit, 0o644),
      async act() {
        isUnitNew = true;
        await writePublic(installed.unit, unit, 0o644);
      },
    },
    fileStep(at.record, `${JSON.stringify(installed, null, 2)}\n`, 0o644),
  ];
  if (starts)
    steps.push(
      {
        what: "make systemd read the unit: systemctl daemon-reload",
        isDone: async () => !isUnitNew && !(await succeedsShowing("NeedDaemonReload=yes")),
        act: () => command("systemctl", "daemon-reload"),
      },
      {
        what: `start the service now and at every boot: systemctl enable --now ${unitName}`,
        isDone: async () =>
          (await succeeds("systemctl", "is-enabled", "--quiet", unitName)) &&
          (await succeeds("systemctl", "is-active", "--quiet", unitName)),
        act: () => command("systemctl", "enable", "--now", unitName),
      },
    );
  return { version, steps, installed, starts };
}

const reachStep = (user: string, program: string): Step => ({
  what: `check that ${user} can run ${program}`,
  isDone: () => canRun(user, program),
  async act() {
    throw new Failure(
      "usage",
      `${user} cannot run ${program}: move the source tree, for example to /opt, or run chmod o+x on the folders above it`,
    );
  },
});

/** Whether a user may run a program; if there is no such user yet, whether one without rights of its own may. */
async function canRun(user: string, program: string): Promise<boolean> {
  const account = await findAccount(user);
  const as =
    account === null
      ? ["--reuid=65534", "--regid=65534", "--clear-groups"]
      : [`--reuid=${account.uid}`, `--regid=${account.gid}`, "--init-groups"];
  return succeeds("setpriv", ...as, "test", "-x", program);
}

const succeedsShowing = async (line: string): Promise<boolean> =>
  (await command("systemctl", "show", "--property=NeedDaemonReload", unitName)).trim() === line;

async function refuseOther({ user, data }: Wanted, version: string, before: Installation | null, at: Layout) {
  for (const [what, path] of Object.entries({ "--data": data, "--prefix": at.prefix }))
    if (!/^\/[A-Za-z0-9._/-]*[A-Za-z0-9_-]$/.test(path) || resolve(path) !== path)
      throw new Failure("usage", `${what} needs an absolute path of letters, digits and . _ / -`);
  if (!/^[a-z_][a-z0-9_-]{0,30}$/.test(user)) throw new Failure("usage", `--user needs a system user's name`);
  const current = await currentVersionIn(at);
  if (current !== null && current !== version)
    throw new Failure(
      "installed_already",
      `Version ${current} is installed in ${at.library}, but this is version ${version}`,
    );
  if (before !== null && (before.user !== user || before.data !== data))
    throw new Failure(
      "installed_already",
      `It is installed for the user ${before.user} with the data folder ${before.data}`,
    );
  const stranger = await strangerIn(data);
  if (stranger !== undefined)
    throw new Failure("folder_not_empty", `${data} contains ${stranger}, which is not a file of plumbline`);
}

function nothingThere(error: unknown): string[] {
  if (isErrno(error, "ENOENT", "EACCES")) return [];
  throw error;
}

async function writePublic(path: string, content: string, mode: number): Promise<void> {
  await makePublicFolder(dirname(path));
  await writeFileDurably(path, content);
  await chmod(path, mode);
}

const fileStep = (path: string, content: string, mode: number): Step => ({
  what: `write ${path}`,
  content,
  isDone: async () => (await readFile(path, "utf8").catch(() => null)) === content,
  act: () => writePublic(path, content, mode),
});

const linkStep = (target: string, link: string): Step => ({
  what: `link ${link} to ${target}`,
  isDone: async () => (await readlink(link).catch(() => null)) === target,
  async act() {
    const found = await lstat(link).catch(() => null);
    if (found && !found.isSymbolicLink()) throw new Error("another file has that name");
    await makePublicFolder(dirname(link));
    await linkDurably(target, link);
  },
});

/** Plans the removal of an installation, with its data and user if `purge` is set. Throws not_installed, upgrade_unfinished. */
export async function planUninstall(at: Layout, { purge }: { purge: boolean }): Promise<Plan> {
  const installed = await readInstallation(at);
  if (installed === null) throw new Failure("not_installed", `Nothing is installed in ${at.library}`);
  if (await stat(at.journal).catch(() => null)) throw new Failure("upgrade_unfinished");
  const version = (await currentVersionIn(at)) ?? "";
  const { data, unit, environment, user } = installed;
  const service = await serviceOf(installed, at);
  const hasSystemd = await isSystemdRunning();
  const steps: Step[] = [
    { what: "stop the service", isDone: async () => !(await service.isRunning()), act: () => service.stop() },
  ];
  if (hasSystemd)
    steps.push({
      what: `do not start it at boot any more: systemctl disable ${unitName}`,
      isDone: async () => !(await succeeds("systemctl", "is-enabled", "--quiet", unitName)),
      act: () => command("systemctl", "disable", unitName),
    });
  steps.push(removeStep(unit));
  if (hasSystemd)
    steps.push({
      what: "make systemd read its units again: systemctl daemon-reload",
      isDone: async () => false,
      act: () => command("systemctl", "daemon-reload"),
    });
  steps.push(removeStep(at.command), removeStep(systemPlaces.cache));
  if (purge)
    steps.push(
      removeStep(data, "with all documents, models and runs in it"),
      removeStep(upgradeBackup(data), "the backup of the last upgrade"),
      removeStep(bundleStaging(data), "the remains of a bundle that was cut off"),
      removeStep(dirname(environment), "with the settings"),
    );
  if (purge && installed.made_user)
    steps.push({
      what: `remove the system user ${user}`,
      isDone: async () => (await findAccount(user)) === null,
      act: () => command("userdel", user),
    });
  // The record of the installation is removed last, so that an uninstall that was cut off can be repeated.
  steps.push(removeStep(at.library));
  return { version, steps, installed, starts: false };
}

const removeStep = (path: string, more = ""): Step => ({
  what: `remove ${path}${more === "" ? "" : `, ${more}`}`,
  isDone: async () => (await lstat(path).catch(() => null)) === null,
  act: () => rm(path, { recursive: true, force: true }),
});

/**
 * Returns the name of a file in the data folder that is not plumbline's. Undefined if there is none, or if the folder does not
 * exist or cannot be read.
 */
async function strangerIn(data: string): Promise<string | undefined> {
  // The folder is also the home of the service's user. Other programs keep files there whose names begin with a dot.
  const known = new Set(Object.values(places("")));
  const names = await readdir(data).catch(nothingThere);
  return names.find((name) => !known.has(name) && !/^(plumbline\.db|lock|\.)/.test(name));
}

/** Throws usage if the data folder contains a file that is not plumbline's, because --purge would delete it permanently. */
export async function refuseStrangeData(data: string): Promise<void> {
  const stranger = await strangerIn(data);
  if (stranger !== undefined)
    throw new Failure("usage", `${join(data, stranger)} is not a file of plumbline; move it away before --purge`);
}
