// Opens a bundle and checks it, with the cheap checks first. Nothing in the bundle is used before all of it has been checked.
import { type FileHandle, open } from "node:fs/promises";
import { Damaged, hashParts, partsOf } from "../../base/content.ts";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { isLibcEnough, type MachineKind } from "../../base/machine.ts";
import { tarEnd, tarPadding } from "../../base/tar.ts";
import { isSignedBy } from "./key.ts";
import {
  type BundledFile,
  bundleBytes,
  filesFrom,
  headerOf,
  type Manifest,
  manifestName,
  mostManifestBytes,
  parseManifest,
  parseSignature,
  placeBytes,
  signatureFileBytes,
  signatureName,
} from "./manifest.ts";

export interface Bundle {
  manifest: Manifest;
  /** The pinned public key that verifies the bundle's signature. */
  key: string;
  /** Reads a file of the bundle, without checking it. */
  read(file: BundledFile): AsyncIterable<Buffer>;
  close(): Promise<void>;
}

export interface Expected {
  /** Public keys whose holders are trusted. */
  pinned: readonly string[];
  machine: MachineKind;
  now: Date;
}

/**
 * Maximum time that a bundle's creation may lie in the future. Beyond it, this machine's clock is too far behind to tell whether the
 * bundle has expired.
 */
const mostClockSkewMs = 24 * 3_600_000;
const headerBytes = headerOf(manifestName, 0).length;
const sizeField = { at: 124, end: 136 };

/**
 * Opens a bundle and checks all of it. Throws file_missing, bundle_invalid, bundle_truncated, bundle_altered, bundle_key_unpinned,
 * bundle_expired, bundle_not_yet_valid, bundle_other_machine.
 */
export async function openBundle(
  path: string,
  expected: Expected,
  tell: (doneBytes: number, totalBytes: number) => void,
): Promise<Bundle> {
  const file = await open(path, "r").catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) throw new Failure("file_missing", `The file ${path} does not exist`);
    throw error;
  });
  try {
    const { manifest, key, at } = await readManifest(file, path, expected.pinned);
    refuseUnfit(manifest, expected);
    const places = await checkContent(file, path, manifest, at, tell);
    return {
      manifest,
      key,
      read: ({ path: name, bytes }) => partsOf(file, bytes, places.get(name)!),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

const altered = (path: string, what: string): Failure => new Failure("bundle_altered", `${path} was altered: ${what}`);

async function readAt(file: FileHandle, path: string, at: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes);
  for (let done = 0; done < bytes; ) {
    const { bytesRead } = await file.read(buffer, done, bytes - done, at + done);
    if (bytesRead === 0) throw new Failure("bundle_truncated", `${path} is cut off after ${at + done} bytes`);
    done += bytesRead;
  }
  return buffer;
}

/** Checks the signature. Returns the manifest, the key that verifies it, and the offset at which the listed files begin. */
async function readManifest(
  file: FileHandle,
  path: string,
  pinned: readonly string[],
): Promise<{ manifest: Manifest; key: string; at: number }> {
  const header = await readAt(file, path, 0, headerBytes);
  const bytes = Number.parseInt(header.toString("latin1", sizeField.at, sizeField.end), 8);
  const isHeader = bytes > 0 && bytes <= mostManifestBytes && headerOf(manifestName, bytes).equals(header);
  if (!isHeader) throw new Failure("bundle_invalid", `${path} does not begin like a bundle`);
  const text = await readAt(file, path, headerBytes, bytes);
  await refusePadding(file, path, headerBytes + bytes, bytes);
  const at = placeBytes(bytes);
  if (!headerOf(signatureName, signatureFileBytes).equals(await readAt(file, path, at, headerBytes)))
    throw altered(path, `the header of ${signatureName}`);
  const signature = parseSignature(await readAt(file, path, at + headerBytes, signatureFileBytes));
  await refusePadding(file, path, at + headerBytes + signatureFileBytes, signatureFileBytes);
  if (signature === null || !isSignedBy(signature.key, text, signature.signature))
    throw altered(path, `its signature does not match its ${manifestName}`);
  if (!pinned.includes(signature.key))
    throw new Failure("bundle_key_unpinned", `${path} is signed with ${signature.key}, which is not pinned here`);
  return { manifest: parseManifest(text), key: signature.key, at: filesFrom(bytes) };
}

async function refusePadding(file: FileHandle, path: string, at: number, bytes: number): Promise<void> {
  const padding = tarPadding(bytes);
  if (!padding.equals(await readAt(file, path, at, padding.length))) throw altered(path, "the space between its files");
}

function refuseUnfit({ created_at, not_after, machine }: Manifest, { machine: here, now }: Expected): void {
  if (now.getTime() >= Date.parse(not_after))
    throw new Failure("bundle_expired", `The bundle was valid until ${not_after}, and it is now ${now.toISOString()}`);
  if (Date.parse(created_at) - now.getTime() > mostClockSkewMs)
    throw new Failure(
      "bundle_not_yet_valid",
      `The bundle was made on ${created_at}, but this machine's time is ${now.toISOString()}`,
    );
  const isFit =
    machine.os === here.os &&
    machine.architecture === here.architecture &&
    machine.libc === here.libc &&
    (machine.libc !== "glibc" || isLibcEnough(here.libc_version, machine.libc_version));
  if (!isFit)
    throw new Failure(
      "bundle_other_machine",
      `The bundle is for ${kindText(machine)}; this machine is ${kindText(here)}`,
    );
}

const kindText = ({ os, architecture, libc, libc_version }: MachineKind): string =>
  `${os} ${architecture} with ${libc} ${libc_version}`.trimEnd();

/** Checks size, headers, hashes, padding and end. Returns the offset of each file's content, by path. */
async function checkContent(
  file: FileHandle,
  path: string,
  manifest: Manifest,
  from: number,
  tell: (doneBytes: number, totalBytes: number) => void,
): Promise<Map<string, number>> {
  const { size } = await file.stat();
  const total = bundleBytes(manifest, from);
  if (size < total) throw new Failure("bundle_truncated", `${path} is cut off: it has ${size} of ${total} bytes`);
  if (size > total) throw altered(path, `${size - total} bytes follow after its end`);
  const places = new Map<string, number>();
  let at = from;
  for (const { path: name, bytes, sha256 } of manifest.files) {
    tell(at, total);
    if (!headerOf(name, bytes).equals(await readAt(file, path, at, headerBytes)))
      throw altered(path, `the header of ${name}`);
    at += headerBytes;
    places.set(name, at);
    await hashParts(told(partsOf(file, bytes, at), at, total, tell), sha256).catch((error) => {
      if (error instanceof Damaged) throw altered(path, `${name} ${error.message}`);
      throw error;
    });
    await refusePadding(file, path, at + bytes, bytes);
    at += placeBytes(bytes) - headerBytes;
  }
  if (!tarEnd.equals(await readAt(file, path, at, tarEnd.length))) throw altered(path, "its end");
  tell(total, total);
  return places;
}

async function* told(
  parts: AsyncIterable<Buffer>,
  from: number,
  total: number,
  tell: (doneBytes: number, totalBytes: number) => void,
): AsyncGenerator<Buffer> {
  let at = from;
  for await (const part of parts) {
    at += part.length;
    tell(at, total);
    yield part;
  }
}
