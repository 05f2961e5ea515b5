// Every setting with its default and meaning. Settings are read once from the environment, checked and frozen.
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { Failure } from "./errors.ts";

/** The folder of the installation. */
export const installation = resolve(import.meta.dirname, "../..");

interface Setting<T> {
  name: string;
  /** As written in config/plumbline.env. "" means empty, or a value determined at start. */
  default: string;
  about: string;
  parse: (text: string) => T;
  /** Set for numbers and choices, whose values reveal nothing private and may therefore be shown. */
  isPlain?: true;
}

const text = (name: string, fallback: string, about: string): Setting<string> => ({
  name,
  default: fallback,
  about,
  parse: (value) => value,
});

/** Empty or an http(s) URL. Slashes at the end are removed. */
const url = (name: string, about: string): Setting<string> => ({
  name,
  default: "",
  about,
  parse: (value) => {
    if (value !== "" && !/^https?:$/.test(URL.parse(value)?.protocol ?? ""))
      throw new Error("must be empty or an http or https URL");
    return value.replace(/\/+$/, "");
  },
});

const list = (name: string, fallback: string, about: string): Setting<string[]> => ({
  name,
  default: fallback,
  about,
  parse: (value) =>
    value
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== ""),
});

/** Comma-separated pairs `name=value`. `wrong` returns what is wrong with a value, or null. */
const pairs = (
  name: string,
  about: string,
  wrong: (value: string) => string | null = () => null,
): Setting<string[]> => ({
  ...list(name, "", about),
  parse: (text) => {
    const parts = list(name, "", about).parse(text);
    const names = parts.map((part) => /^([A-Za-z0-9._-]{1,100})=./.exec(part)?.[1]);
    if (names.includes(undefined)) throw new Error("must be name=value pairs separated by commas");
    if (new Set(names).size < names.length) throw new Error("contains the same name twice");
    const problem = parts.map((part) => wrong(part.slice(part.indexOf("=") + 1))).find((words) => words !== null);
    if (problem) throw new Error(problem);
    return parts;
  },
});

/** Comma-separated http(s) URLs. An error gives the position of a wrong URL, not its text, which may hold a secret. */
const urls = (name: string, about: string): Setting<string[]> => ({
  ...list(name, "", about),
  parse: (value) => {
    const parsed = list(name, "", about)
      .parse(value)
      .map((part) => URL.parse(part));
    for (const [at, one] of parsed.entries()) {
      if (!one || !/^https?:$/.test(one.protocol)) throw new Error(`number ${at + 1} is not an http or https URL`);
      if (one.username !== "" || one.password !== "")
        throw new Error(`number ${at + 1} contains a user name or password`);
    }
    const found = parsed.map((one) => one!.href);
    if (new Set(found).size < found.length) throw new Error("contains the same URL twice");
    return found;
  },
});

/** Comma-separated ed25519 public keys, in the form that `plumbline bundle key` prints. */
const publicKeys = (name: string, about: string): Setting<string[]> => ({
  ...list(name, "", about),
  parse: (value) => {
    const found = list(name, "", about).parse(value);
    for (const [at, one] of found.entries())
      if (!/^ed25519:[A-Za-z0-9_-]{43}$/.test(one))
        throw new Error(`number ${at + 1} is not "ed25519:" followed by 43 characters`);
    return found;
  },
});

/** An absolute path on this machine, or empty. */
const absolute = (name: string, about: string): Setting<string> => ({
  ...text(name, "", about),
  parse: (value: string) => {
    if (value !== "" && !isAbsolute(value)) throw new Error("must be empty or an absolute path");
    return value;
  },
});

/** Comma-separated signing secrets in the form of Standard Webhooks. */
const signingSecrets = (name: string, about: string): Setting<string[]> => ({
  ...list(name, "", about),
  parse: (value) => {
    const found = list(name, "", about).parse(value);
    for (const [at, one] of found.entries()) {
      const bytes = /^whsec_[A-Za-z0-9+/]+={0,2}$/.test(one) ? Buffer.from(one.slice(6), "base64").length : 0;
      if (bytes < 24 || bytes > 64)
        throw new Error(`number ${at + 1} is not "whsec_" followed by 24 to 64 bytes in base64`);
    }
    return found;
  },
});

const oneOf = <const T extends string>(
  name: string,
  fallback: T,
  choices: readonly T[],
  about: string,
): Setting<T> => ({
  name,
  default: fallback,
  about: `${about} One of ${choices.join(", ")}.`,
  isPlain: true,
  parse: (value) => {
    if (!(choices as readonly string[]).includes(value)) throw new Error(`must be one of ${choices.join(", ")}`);
    return value as T;
  },
});

/** A whole number in a range. If the setting is empty, `found` returns the value. */
const whole = (
  name: string,
  fallback: number | "",
  least: number,
  most: number,
  about: string,
  found?: () => number,
): Setting<number> => ({
  name,
  default: String(fallback),
  about,
  isPlain: true,
  parse: (value) => {
    if (value === "" && found) return found();
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < least || number > most)
      throw new Error(`must be a whole number from ${least} to ${most}`);
    return number;
  },
});

const MiB = 1 << 20;
const GiB = 1 << 30;

/**
 * Default number of connections: three quarters of the process's file descriptors, but at least 8 and at most 16384. The other
 * descriptors are left for files and for pipes to child processes.
 */
function mostConnections(): number {
  const limits = existsSync("/proc/self/limits") ? readFileSync("/proc/self/limits", "utf8") : "";
  const descriptors = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? 1024);
  return Math.max(8, Math.min(16_384, Math.floor((descriptors * 3) / 4)));
}

export const mostSlotContext = 1_048_576;

export const settings = {
  data: text("PLUMBLINE_DATA", "data", "Folder for everything plumbline keeps; relative to the installation."),
  host: text(
    "PLUMBLINE_HOST",
    "127.0.0.1",
    "Address to listen on. Any address but loopback requires an API key to exist first.",
  ),
  port: whole("PLUMBLINE_PORT", 8642, 0, 65_535, "Port to listen on; 0 picks a free one."),
  address: url(
    "PLUMBLINE_ADDRESS",
    "Base URL that the command line uses to reach the appliance; empty: built from PLUMBLINE_HOST and PLUMBLINE_PORT.",
  ),
  publicUrl: url(
    "PLUMBLINE_PUBLIC_URL",
    "Base URL that clients use, such as that of a proxy; endpoint addresses begin with it, and its host name is answered to. Empty: the listening address.",
  ),
  key: text(
    "PLUMBLINE_KEY",
    "",
    "API key that the command line uses; empty: the key in ~/.config/plumbline/key, where `key create --save` puts it.",
  ),
  allowedHosts: list(
    "PLUMBLINE_ALLOWED_HOSTS",
    "",
    "Host names to answer to besides loopback and the listening address, separated by commas.",
  ),
  logLevel: oneOf("PLUMBLINE_LOG", "info", ["debug", "info", "warn", "error"], "Lowest level that is logged."),
  threads: whole(
    "PLUMBLINE_THREADS",
    "",
    1,
    1024,
    "Threads for models; empty: one per core of the machine.",
    availableParallelism,
  ),
  memory: whole(
    "PLUMBLINE_MEMORY",
    "",
    256 * MiB,
    Number.MAX_SAFE_INTEGER,
    "Bytes of memory that models and runs may use together; empty: 75 % of the machine's memory.",
    () => Math.floor(totalmem() * 0.75),
  ),
  gpuMemory: whole(
    "PLUMBLINE_GPU_MEMORY",
    0,
    0,
    Number.MAX_SAFE_INTEGER,
    "Bytes of GPU memory that models and runs may use together; 0: all of it. Runs leave an eighth for inference.",
  ),
  slots: whole("PLUMBLINE_SLOTS", 8, 1, 64, "Requests answered at the same time by each base model."),
  slotContext: whole(
    "PLUMBLINE_SLOT_CONTEXT",
    2048,
    128,
    mostSlotContext,
    "Context of one slot in tokens, prompt and answer together.",
  ),
  queueLimit: whole(
    "PLUMBLINE_QUEUE_LIMIT",
    256,
    0,
    100_000,
    "Requests that may wait for a slot; further requests get a 503.",
  ),
  maxRuns: whole("PLUMBLINE_MAX_RUNS", 2, 1, 64, "Alignment runs at the same time, if memory allows."),
  autoAlign: oneOf(
    "PLUMBLINE_AUTO_ALIGN",
    "execute",
    ["execute", "record"],
    "Whether auto-align requests are executed or only recorded. Requests recorded earlier stay recorded.",
  ),
  trainer: text(
    "PLUMBLINE_TRAINER",
    "build/plumbline-trainer",
    "Path of the trainer's executable; relative to the installation.",
  ),
  cublasLt: absolute(
    "PLUMBLINE_CUBLASLT",
    "Path of the cuBLASLt library of CUDA 12 or 13; empty: the loader finds it.",
  ),
  starterModel: text(
    "PLUMBLINE_STARTER_MODEL",
    ".cache/smollm2-135m-instruct-q4_1.gguf",
    "GGUF file imported at the first start, if it exists; relative to the installation.",
  ),
  hubMirror: url(
    "PLUMBLINE_HUB_MIRROR",
    "Base URL of a mirror of the model hub, from which hf:// models are fetched; empty: nothing is fetched.",
  ),
  bundleKeys: publicKeys(
    "PLUMBLINE_BUNDLE_KEYS",
    "Public keys whose bundles may be applied, separated by commas; empty: none. Set them here, where the service's user cannot write.",
  ),
  upstreams: pairs(
    "PLUMBLINE_UPSTREAMS",
    "OpenAI-compatible servers that X-Provider may name, as name=https://host/v1 pairs separated by commas; empty: none, and no data leaves.",
    (url) => (/^https?:\/\//.test(url) && URL.canParse(url) ? null : `${url} is not an http or https URL`),
  ),
  upstreamKeys: pairs("PLUMBLINE_UPSTREAM_KEYS", "API keys for those servers, as name=key pairs separated by commas."),
  verifiers: absolute(
    "PLUMBLINE_VERIFIERS",
    "Folder of programs that judge sampled answers, named as program:NAME in an auto-align's reward; empty: none.",
  ),
  webhooks: urls(
    "PLUMBLINE_WEBHOOKS",
    "URLs that receive webhook events, separated by commas (write a comma within a URL as %2C); empty: none, and no data leaves.",
  ),
  webhookSecrets: signingSecrets(
    "PLUMBLINE_WEBHOOK_SECRETS",
    "Secrets that sign webhook events, each whsec_ followed by 24 to 64 bytes in base64: one for all URLs or, separated by commas, one per URL in the same order.",
  ),
  traces: url(
    "PLUMBLINE_TRACES",
    "URL of an OpenTelemetry collector that receives traces as OTLP over HTTP, such as http://host:4318/v1/traces; empty: none, and no data leaves.",
  ),
  uploadBytes: whole("PLUMBLINE_UPLOAD_BYTES", 64 * MiB, 1, GiB, "Maximum size of an uploaded file, in bytes."),
  modelBytes: whole(
    "PLUMBLINE_MODEL_BYTES",
    64 * GiB,
    1,
    Number.MAX_SAFE_INTEGER,
    "Maximum size of an uploaded model, in bytes.",
  ),
  uploadFiles: whole("PLUMBLINE_UPLOAD_FILES", 100, 1, 10_000, "Maximum number of files in one upload."),
  personalData: oneOf(
    "PLUMBLINE_PERSONAL_DATA",
    "flag",
    ["off", "flag", "mask"],
    "What to do with e-mail addresses, phone and account numbers, keys and similar data in documents.",
  ),
  bodyBytes: whole(
    "PLUMBLINE_BODY_BYTES",
    MiB,
    1024,
    GiB,
    "Maximum size of a JSON body, in bytes; inference accepts ten times as much.",
  ),
  connections: whole(
    "PLUMBLINE_CONNECTIONS",
    "",
    1,
    1_000_000,
    "Connections open at the same time; empty: three quarters of the files that this process may open, up to 16384.",
    mostConnections,
  ),
  connectionsPerAddress: whole(
    "PLUMBLINE_CONNECTIONS_PER_ADDRESS",
    "",
    1,
    1_000_000,
    "Connections open at the same time from one address; empty: half of the default of PLUMBLINE_CONNECTIONS. A proxy counts as one address: behind one, set this to PLUMBLINE_CONNECTIONS.",
    () => Math.ceil(mostConnections() / 2),
  ),
  requestsPerConnection: whole(
    "PLUMBLINE_REQUESTS_PER_CONNECTION",
    32,
    1,
    10_000,
    "Requests that a client may send ahead on one connection; they are answered in order.",
  ),
  headSeconds: whole("PLUMBLINE_HEAD_SECONDS", 15, 1, 3600, "Seconds within which the head of a request must arrive."),
  bodySeconds: whole("PLUMBLINE_BODY_SECONDS", 60, 1, 86_400, "Seconds within which a JSON body must arrive."),
  uploadSeconds: whole("PLUMBLINE_UPLOAD_SECONDS", 3600, 1, 86_400, "Seconds within which an upload must arrive."),
  bodyRate: whole(
    "PLUMBLINE_BODY_RATE",
    512,
    0,
    GiB,
    "Minimum rate of a body or an upload in bytes per second, over any 15 seconds; a slower one is cut off.",
  ),
  stallSeconds: whole(
    "PLUMBLINE_STALL_SECONDS",
    30,
    1,
    3600,
    "Seconds within which a client must read some of its answer; a client that reads nothing is cut off.",
  ),
  freeDisk: whole(
    "PLUMBLINE_FREE_DISK",
    512 * MiB,
    0,
    Number.MAX_SAFE_INTEGER,
    "Free bytes under PLUMBLINE_DATA; with fewer, new work is refused.",
  ),
} satisfies Record<string, Setting<unknown>>;

/** Renamed settings: each old name with its new name. `readConfig` refuses an old name. */
export const renamedSettings: Readonly<Record<string, string>> = {
  PLUMBLINE_SEATS: "PLUMBLINE_SLOTS",
  PLUMBLINE_SEAT_CONTEXT: "PLUMBLINE_SLOT_CONTEXT",
};

export type Config = Readonly<{ [K in keyof typeof settings]: ReturnType<(typeof settings)[K]["parse"]> }>;

export const executableName = "PLUMBLINE_EXECUTABLE";

/**
 * Path of the release's executable, which sets PLUMBLINE_EXECUTABLE when it starts the program that it has unpacked. Null if this program
 * runs from a source tree.
 */
export const ownExecutable = (): string | null => process.env[executableName] ?? null;

/** Lacks the prefix PLUMBLINE_, so that a version that does not know this name does not refuse to start. */
export const starterName = "_PLUMBLINE_STARTED_BY";

/**
 * Returns true if an upgrade started this process and has ended since. The upgrade put its process id into the environment. A process
 * whose parent has ended gets another parent, so the two ids differ.
 */
export function isLeftAlone(): boolean {
  const starter = process.env[starterName];
  return starter !== undefined && Number(starter) !== process.ppid;
}

/** What a user types to run this program. */
export const ownCommand = ownExecutable() === null ? "bin/plumbline" : "plumbline";

/** What a user must do to restore a missing part of the installation. */
export const ownRepair =
  ownExecutable() === null ? "Run ./install.sh" : "Start plumbline again: it unpacks the missing files";

/** Reads and checks the settings. Throws config_invalid, which lists every invalid setting and every unknown PLUMBLINE_ name. */
export function readConfig(environment: Record<string, string | undefined> = process.env): Config {
  const problems: string[] = [];
  const known = new Set<string>([...Object.values(settings).map((setting) => setting.name), executableName]);
  for (const name of Object.keys(environment))
    if (name.startsWith("PLUMBLINE_") && !known.has(name)) problems.push(`${name}: ${whyUnknown(name)}`);
  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(settings) as [string, Setting<unknown>][])
    try {
      values[key] = setting.parse(environment[setting.name] ?? setting.default);
    } catch (error) {
      problems.push(`${setting.name}: ${(error as Error).message}`);
    }
  problems.push(...wrongTogether(values as Partial<Config>));
  if (problems.length > 0) throw new Failure("config_invalid", problems.join("; "));
  for (const key of ["data", "trainer", "starterModel"]) values[key] = resolve(installation, String(values[key]));
  return Object.freeze(values) as Config;
}

const whyUnknown = (name: string): string =>
  Object.hasOwn(renamedSettings, name) ? `it is called ${renamedSettings[name]} now` : "unknown setting";

/** Returns the conflicts between settings that are valid on their own. Invalid settings are undefined here and already reported. */
function wrongTogether({ webhooks = [], webhookSecrets }: Partial<Config>): string[] {
  if (webhooks.length === 0 || !webhookSecrets || [1, webhooks.length].includes(webhookSecrets.length)) return [];
  const wanted = webhooks.length === 1 ? "one secret" : `one secret, or ${webhooks.length} (one per URL)`;
  return [`${settings.webhookSecrets.name}: must be ${wanted} for ${settings.webhooks.name}`];
}

/**
 * Returns the environment in which a release's program runs. Relative paths are resolved against `folder`, the folder of the executable.
 * They cannot be relative to the installation, because the executable unpacks it and a newer executable removes it.
 */
export function environmentBeside(
  folder: string,
  environment: Record<string, string | undefined> = process.env,
): Record<string, string> {
  const beside: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) if (value !== undefined) beside[name] = value;
  for (const { name } of [settings.trainer, settings.starterModel])
    if (beside[name] !== undefined) beside[name] = resolve(folder, beside[name]);
  const { name, default: fallback } = settings.data;
  return { ...beside, [name]: resolve(folder, beside[name] ?? fallback) };
}

/** Returns the configuration as environment variables, for a child process that reads the configuration again. */
export const environmentOf = (config: Config): Record<string, string> =>
  Object.fromEntries(
    (Object.keys(settings) as (keyof Config)[])
      // What only connections to other machines need is kept from child processes.
      .filter((key) => !["key", "upstreamKeys", "webhooks", "webhookSecrets", "traces"].includes(key))
      .map((key) => [settings[key].name, String(config[key])]),
  );

/** Returns every setting by its name, without secrets: numbers and choices with their value, all others as "default" or "set". */
export const settingsShown = (
  environment: Record<string, string | undefined> = process.env,
): Record<string, string | number> =>
  Object.fromEntries(
    (Object.values(settings) as Setting<unknown>[]).map(({ name, default: fallback, isPlain, parse }) => {
      const text = environment[name] ?? fallback;
      if (isPlain) return [name, parse(text) as string | number];
      return [name, text === fallback ? "default" : "set"];
    }),
  );

/** Returns the content of config/plumbline.env, which is a generated file. A test compares the two. */
export function renderEnvironmentFile(): string {
  const lines = ["# All settings of plumbline with their defaults. Generated from src/base/config.ts."];
  for (const setting of Object.values(settings))
    lines.push("", `# ${setting.about}`, `#${setting.name}=${setting.default}`);
  return `${lines.join("\n")}\n`;
}

/** Paths within the data folder. */
export const places = (data: string) => ({
  database: join(data, "plumbline.db"),
  lock: join(data, "lock"),
  adminSocket: join(data, "admin.sock"),
  ballast: join(data, "ballast"),
  blobs: join(data, "blobs"),
  models: join(data, "models"),
  runs: join(data, "runs"),
  /** Files that a release's executable unpacks, in one folder per version. */
  runtime: join(data, "runtime"),
  uploads: join(data, "uploads"),
  /** Models of a bundle that is being applied. */
  bundle: join(data, "bundle"),
  /** Exists while a restore into the folder is under way. */
  restoring: join(data, "restoring.json"),
  /** While this file exists, an upgrade is unfinished and the database may be of either version. The upgrade holds it as a lock. */
  upgrading: join(data, "upgrading"),
});

/** Paths of files that are named by their hash. `blob` is relative to `blobs`; the others are relative to `models`. */
export const contentPaths = {
  /** Two levels, so that no folder has too many entries to list. */
  blob: (digest: string): string => join(digest.slice(0, 2), digest),
  base: (sha256: string): string => `${sha256}.gguf`,
  adapter: (sha256: string): string => join("adapters", `${sha256}.gguf`),
  sources: (sha256: string): string => join("sources", `${sha256}.json`),
};

export type Places = ReturnType<typeof places>;
