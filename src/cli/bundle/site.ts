// Where a bundle is applied: to the installed service if root applies it and there is one, otherwise to the data folder of the
// settings.
import { chmod, mkdir } from "node:fs/promises";
import { type Config, environmentOf, places, readConfig } from "../../base/config.ts";
import { Failure, type FailureCode, failures } from "../../base/errors.ts";
import { makeFolder } from "../../base/files.ts";
import { createLog } from "../../base/log.ts";
import { finish, startProcess } from "../../base/processes.ts";
import { versionsInstalled } from "../../base/versions.ts";
import type { BaseRecord } from "../../domain/models/handlers.ts";
import { asService } from "../installation/account.ts";
import {
  bundleStaging,
  currentVersionIn,
  type Installation,
  type Layout,
  readInstallation,
} from "../installation/layout.ts";
import { configOf } from "../installation/service.ts";

export interface Site {
  /** Trusted public keys, from the settings. */
  pinned: readonly string[];
  data: string;
  /** Version in use. */
  version: string;
  /**
   * Folder that models are written to before they are imported. For a service, only root can write there: otherwise the
   * service's user could redirect what root writes.
   */
  staging: string;
  makeStaging(): Promise<void>;
  models(): Promise<BaseRecord[]>;
  importModel(path: string, sha256: string): Promise<BaseRecord>;
  /** Returns a sentence that says how to replace the version in use with the program at `path`. */
  replacing(version: string, path: string): string;
}

/** Time limit of a command: enough to copy, hash and load a model of many gigabytes on a slow disk. */
const importMs = 12 * 3_600_000;

/** Finds where this process applies a bundle. Throws config_invalid, not_installed. */
export async function findSite(at: Layout): Promise<Site> {
  const installed = process.getuid?.() === 0 ? await readInstallation(at) : null;
  return installed === null ? ownSite(readConfig()) : serviceSite(installed, at);
}

async function ownSite(config: Config): Promise<Site> {
  const { version: own } = await versionsInstalled();
  const admin = async (verb: string, args: unknown = {}): Promise<unknown> => {
    const { callAdmin } = await import("../admin.ts");
    return callAdmin(config, createLog("warn"), verb, args);
  };
  return {
    ...{ pinned: config.bundleKeys, data: config.data, version: own },
    staging: places(config.data).bundle,
    makeStaging: async () => void (await makeFolder(places(config.data).bundle)),
    models: async () => (await admin("model.list")) as BaseRecord[],
    importModel: async (path, sha256) => (await admin("model.import", { path, sha256, mode: "copy" })) as BaseRecord,
    replacing: (version, path) =>
      `Version ${version} is at ${path}: stop plumbline, and start this file instead of ${own}`,
  };
}

async function serviceSite(installed: Installation, at: Layout): Promise<Site> {
  const config = configOf(installed);
  const version = await currentVersionIn(at);
  if (version === null) throw new Failure("not_installed", `${at.current} points to no version`);
  const staging = bundleStaging(installed.data);
  const run = async (...words: string[]): Promise<unknown> => {
    const by = await asService(installed);
    const env = { ...environmentOf(config), ...by.env };
    const child = startProcess(at.program, [...words, "--json"], { ...by, env });
    const done = await finish(child, { timeoutMs: importMs, maxBytes: 16 << 20 });
    return answerOf(words, done.stdout, done.stderr);
  };
  return {
    ...{ pinned: config.bundleKeys, data: installed.data, version, staging },
    async makeStaging() {
      await mkdir(staging, { recursive: true });
      await chmod(staging, 0o755);
    },
    models: async () => ((await run("model", "ls")) as { base_models: BaseRecord[] }).base_models,
    importModel: async (path, sha256) => (await run("model", "import", path, "--sha256", sha256)) as BaseRecord,
    replacing: (newer, path) => `To replace ${version} with ${newer}, run: plumbline upgrade ${path}`,
  };
}

/**
 * Parses what a verb printed with --json. Throws the failure that the verb reported, with its code, and work_failed if the verb gave no
 * answer or reported a code that this version does not know.
 */
export function answerOf(words: string[], stdout: string, stderr: string): unknown {
  let answer: { error?: { code: string; message: string } };
  try {
    answer = JSON.parse(stdout) as typeof answer;
  } catch (cause) {
    throw new Failure("work_failed", `plumbline ${words.join(" ")} gave no answer: ${stderr.trim()}`, { cause });
  }
  if (answer.error === undefined) return answer;
  const { code, message } = answer.error;
  const known = Object.hasOwn(failures, code) ? (code as FailureCode) : "work_failed";
  throw new Failure(known, `plumbline ${words.join(" ")}: ${message}`);
}
