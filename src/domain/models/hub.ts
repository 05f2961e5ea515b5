// Fetches models by their name on a hub: hf://organisation/name[/file]. Requests are sent only to the configured mirror,
// and a redirect to another host is refused. Without a mirror nothing is sent. A file is accepted only if its size and
// hash match the mirror's index.
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Failure } from "../../base/errors.ts";
import { freeBytes, temporaryName } from "../../base/files.ts";

export interface HubName {
  repository: string;
  file: string | null;
}

export interface HubFile {
  /** hf://organisation/name/file */
  source: string;
  revision: string;
  /** A temporary file; the caller moves or removes it. */
  path: string;
}

export interface HubParts {
  /** Base URL of the mirror; empty if there is none. */
  mirror: string;
  /** Folder for fetched files. */
  folder: string;
  /** Bytes of disk space that must stay free. */
  freeDisk: number;
}

const scheme = "hf://";
const stallMs = 30_000;
const maxRedirects = 5;
const maxIndexBytes = 16 << 20;

export const isHubName = (name: string): boolean => name.startsWith(scheme);

/** Parses a name. Null if it is invalid. Every part must be a plain path segment that cannot lead out of its folder. */
export function parseHubName(text: string): HubName | null {
  const parts = text.slice(scheme.length).split("/");
  const isPart = (part: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/.test(part) && !part.includes("..");
  if (!isHubName(text) || parts.length < 2 || !parts.every(isPart)) return null;
  return { repository: parts.slice(0, 2).join("/"), file: parts.length > 2 ? parts.slice(2).join("/") : null };
}

export const sourceOf = ({ repository, file }: HubName): string => `${scheme}${repository}/${file ?? ""}`;

const unreachable = (message: string, cause?: unknown): Failure =>
  new Failure("mirror_unreachable", message, { cause });
const unavailable = (message: string, cause?: unknown): Failure => new Failure("hub_unavailable", message, { cause });

/**
 * Finds the file that the name stands for and downloads it. A name without a file stands for the only GGUF file of its
 * repository. Throws hub_unavailable, mirror_unreachable, disk_full.
 */
export async function fetchFromHub(name: HubName, { mirror, folder, freeDisk }: HubParts): Promise<HubFile> {
  if (mirror === "")
    throw unavailable("The model is not on this machine, and no mirror of the model hub is configured");
  const revision = await revisionOf(name.repository, mirror);
  const file = await choose(name, revision, mirror);
  if ((await freeBytes(folder)) - file.size < freeDisk) throw new Failure("disk_full");
  const path = temporaryName(join(folder, "hub.gguf"));
  try {
    const url = `${mirror}/${name.repository}/resolve/${revision}/${file.path}`;
    await download(url, path, file, mirror);
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
  return { source: sourceOf({ repository: name.repository, file: file.path }), revision, path };
}

interface IndexEntry {
  path: string;
  size: number;
  sha256: string;
}

async function revisionOf(repository: string, mirror: string): Promise<string> {
  const about = (await askIndex(`${mirror}/api/models/${repository}`, mirror)) as { sha?: unknown };
  if (typeof about?.sha !== "string" || !/^[0-9a-f]{7,64}$/.test(about.sha))
    throw unavailable(`The mirror does not say which revision of ${repository} it has`);
  return about.sha;
}

async function choose({ repository, file }: HubName, revision: string, mirror: string): Promise<IndexEntry> {
  const listed = await askIndex(`${mirror}/api/models/${repository}/tree/${revision}?recursive=true`, mirror);
  const files = (Array.isArray(listed) ? listed : []).filter(isModelFile);
  const meant = files.filter(({ path }) => (file === null ? path.endsWith(".gguf") : path === file));
  if (meant.length > 1)
    throw unavailable(`${repository} has several GGUF files; name one: ${meant.map(({ path }) => path).join(", ")}`);
  const [only] = meant;
  if (!only) throw unavailable(file === null ? `${repository} has no GGUF file` : `${repository} has no file ${file}`);
  const { path, size, lfs } = only;
  if (!/^[0-9a-f]{64}$/.test(lfs?.oid ?? "")) throw unavailable(`The mirror does not give the SHA-256 of ${path}`);
  return { path, size, sha256: lfs!.oid };
}

/** Whether an index entry describes a file. The index is untrusted input, so malformed entries are ignored. */
function isModelFile(entry: unknown): entry is { path: string; size: number; lfs?: { oid: string } } {
  const { type, path, size } = (entry ?? {}) as Record<string, unknown>;
  const isSound = typeof path === "string" && parseHubName(`${scheme}a/b/${path}`) !== null;
  return type === "file" && isSound && Number.isSafeInteger(size) && Number(size) > 0;
}

async function askIndex(url: string, mirror: string): Promise<unknown> {
  const response = await ask(url, mirror);
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of bodyOf(response)) {
    bytes += part.length;
    if (bytes > maxIndexBytes) throw unavailable("The mirror's index is too long");
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch (error) {
    throw unavailable("The mirror's index is not valid JSON", error);
  }
}

async function download(url: string, path: string, { size, sha256 }: IndexEntry, mirror: string): Promise<void> {
  const response = await ask(url, mirror);
  const hash = createHash("sha256");
  let bytes = 0;
  const checked = async function* (): AsyncGenerator<Uint8Array> {
    for await (const part of bodyOf(response)) {
      bytes += part.length;
      if (bytes > size) throw unavailable("The mirror sent more bytes than its index says");
      hash.update(part);
      yield part;
    }
  };
  await pipeline(Readable.from(checked()), createWriteStream(path, { flags: "wx", mode: 0o600, flush: true }));
  if (bytes < size) throw unavailable(`The mirror sent ${bytes} of ${size} bytes`);
  if (hash.digest("hex") !== sha256)
    throw unavailable("The file sent by the mirror has a different SHA-256 than the mirror's index says");
}

/** Requests a URL of the mirror. Redirects are followed only within the mirror. Throws hub_unavailable, mirror_unreachable. */
async function ask(first: string, mirror: string): Promise<Response> {
  let url = first;
  for (let hops = 0; hops <= maxRedirects; hops++) {
    const response = await send(url);
    if (response.status < 300 || response.status > 399) {
      if (response.ok) return response;
      await response.body?.cancel();
      throw unavailable(`The mirror answered ${response.status} for ${new URL(url).pathname}`);
    }
    await response.body?.cancel();
    const next = URL.parse(response.headers.get("location") ?? "", url);
    if (next?.origin !== new URL(mirror).origin) throw unavailable("The mirror redirects to another host");
    url = next.href;
  }
  throw unavailable("The mirror redirects too many times");
}

async function send(url: string): Promise<Response> {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), stallMs);
  try {
    return await fetch(url, { redirect: "manual", signal: controller.signal });
  } catch (error) {
    throw unreachable("The mirror does not answer", error);
  } finally {
    clearTimeout(timer);
  }
}

/** Yields the parts of a body. All of them may take long, but mirror_unreachable is thrown if none arrives for `stallMs`. */
async function* bodyOf(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body!.getReader();
  try {
    for (;;) {
      const stalled = Promise.withResolvers<never>();
      const timer = setTimeout(() => stalled.reject(unreachable("The mirror stopped sending")), stallMs);
      const next = await Promise.race([reader.read(), stalled.promise]).finally(() => clearTimeout(timer));
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    throw error instanceof Failure ? error : unreachable("The connection to the mirror was lost", error);
  } finally {
    await reader.cancel().catch(() => {});
  }
}
