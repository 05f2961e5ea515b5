// The content and layout of a bundle. A bundle is a tar archive (src/base/tar.ts) of regular files in this order:
//
//   manifest.json     the bundle's description, with the path, size and SHA-256 of each file after the first two
//   signature.json    the signature of the bytes of manifest.json, and the public key that verifies it
//   ...               the files, in the manifest's order
//
// The manifest determines every byte of the headers, the padding and the end, so no change to the archive goes unnoticed.
import type { FromSchema } from "json-schema-to-ts";
import { Failure } from "../../base/errors.ts";
import { tarEnd, tarHeader, tarPadding } from "../../base/tar.ts";
import { compile } from "../../contract/validate.ts";
import { keyPattern, signatureLength } from "./key.ts";

export const manifestName = "manifest.json";
export const signatureName = "signature.json";
export const mostManifestBytes = 4 << 20;

/** A relative path that cannot leave its folder. It has at most 100 characters, because a tar header holds no more. */
const path = {
  type: "string",
  maxLength: 100,
  pattern: "^(?!\\.{1,2}(/|$))[A-Za-z0-9._+-]+(/(?!\\.{1,2}(/|$))[A-Za-z0-9._+-]+)*$",
} as const;

const time = { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$" } as const;
const word = { type: "string", pattern: "^[A-Za-z0-9._+-]*$", maxLength: 60 } as const;

const manifest = {
  type: "object",
  additionalProperties: false,
  required: ["format", "version", "created_at", "not_after", "machine", "program", "models", "files"],
  properties: {
    format: { const: 1 },
    /** The program's version. */
    version: { ...word, minLength: 1 },
    created_at: time,
    /** The bundle is refused from this time on. */
    not_after: time,
    /** The kind of machine that the program needs. */
    machine: {
      type: "object",
      additionalProperties: false,
      required: ["os", "architecture", "libc", "libc_version"],
      properties: { os: word, architecture: word, libc: word, libc_version: word },
    },
    /** Path of the release's executable. */
    program: path,
    /** Paths of base models, each a GGUF file or a sentence-transformers folder. */
    models: { type: "array", maxItems: 1000, items: path },
    /** Every file of the archive except the first two. */
    files: {
      type: "array",
      minItems: 1,
      maxItems: 10_000,
      items: {
        type: "object",
        additionalProperties: false,
        required: ["path", "bytes", "sha256"],
        properties: {
          path,
          bytes: { type: "integer", minimum: 0 },
          sha256: { type: "string", pattern: "^[0-9a-f]{64}$" },
        },
      },
    },
  },
} as const;

export type Manifest = FromSchema<typeof manifest>;
export type BundledFile = Manifest["files"][number];

const check = compile(manifest);

export const manifestBytes = (content: Manifest): Buffer => Buffer.from(`${JSON.stringify(content, null, 1)}\n`);

/** The failure of a bundle whose signature is valid, but not its manifest. */
const unknownFormat = (why: string): Failure =>
  new Failure("bundle_invalid", `The bundle is signed, but this version does not know its format: ${why}`);

/** Parses and checks a manifest whose signature is valid. Throws bundle_invalid, or what `wrong` makes of the reason. */
export function parseManifest(bytes: Buffer, wrong = unknownFormat): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch (error) {
    throw wrong((error as Error).message);
  }
  const checked = check(value);
  if (!checked.ok) throw wrong(checked.details.map(({ loc, msg }) => `${loc.join(".")} ${msg}`).join("; "));
  const paths = new Set(checked.value.files.map((file) => file.path));
  if (paths.size < checked.value.files.length) throw wrong("a file is listed twice");
  const { program, models } = checked.value;
  if (!paths.has(program)) throw wrong("the program is not among the files");
  for (const model of models)
    if (filesOf(checked.value, model).length === 0) throw wrong(`the model ${model} is not among the files`);
  return checked.value;
}

/** The files of a model: the file at the path `folder`, or all files below it. */
export const filesOf = ({ files }: Manifest, folder: string): BundledFile[] =>
  files.filter(({ path }) => path === folder || path.startsWith(`${folder}/`));

export interface Signature {
  key: string;
  signature: string;
}

export const signatureBytes = ({ key, signature }: Signature): Buffer =>
  Buffer.from(`${JSON.stringify({ key, signature })}\n`);

/** Size of every signature.json. */
export const signatureFileBytes = signatureBytes({
  key: `ed25519:${"x".repeat(43)}`,
  signature: "x".repeat(signatureLength),
}).length;

/** Parses a signature.json. Null if its bytes differ from what signatureBytes writes. */
export function parseSignature(bytes: Buffer): Signature | null {
  try {
    const { key, signature } = JSON.parse(bytes.toString("utf8")) as Signature;
    const isWritten = typeof key === "string" && typeof signature === "string" && new RegExp(keyPattern).test(key);
    return isWritten && signatureBytes({ key, signature }).equals(bytes) ? { key, signature } : null;
  } catch {
    return null;
  }
}

/** The tar header of a file in a bundle. Its modification time is 0, so that name and size determine every byte. */
export const headerOf = (name: string, bytes: number): Buffer => tarHeader(name, bytes, 0);

const block = headerOf("x", 0).length;

/** Bytes that a file takes in the archive, with header and padding. */
export const placeBytes = (bytes: number): number => block + bytes + tarPadding(bytes).length;

/** Size in bytes of an archive whose listed files begin at the offset `from`. */
export const bundleBytes = ({ files }: Manifest, from: number): number =>
  files.reduce((sum, { bytes }) => sum + placeBytes(bytes), from + tarEnd.length);

/** Offset at which the listed files begin, in bytes. */
export const filesFrom = (bytesOfManifest: number): number =>
  placeBytes(bytesOfManifest) + placeBytes(signatureFileBytes);
