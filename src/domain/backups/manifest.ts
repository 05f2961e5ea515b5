// The manifest of a backup. It is written last, so a folder without one is not a backup.
//
//   manifest.json           this
//   content/<ab>/<sha256>   the content of the database and of each file, stored once, whatever its names in the data folder
//
// A backup is such a folder, or a tar archive of one.
import type { FromSchema } from "json-schema-to-ts";
import { Failure } from "../../base/errors.ts";
import { compile } from "../../contract/validate.ts";

export const manifestName = "manifest.json";

const content = {
  sha256: { type: "string", pattern: "^[0-9a-f]{64}$" },
  bytes: { type: "integer", minimum: 0 },
} as const;

/** A path that stays within a data folder. */
const path = {
  type: "string",
  maxLength: 4096,
  pattern: "^(blobs|models|runs)(/(?!\\.{1,2}(/|$))[^/\\u0000]+)+$",
} as const;

const manifest = {
  type: "object",
  additionalProperties: false,
  required: ["format", "plumbline", "schema", "created_at", "database", "files"],
  properties: {
    format: { const: 1 },
    plumbline: { type: "string" },
    /** Schema version of the database. A version newer than this plumbline knows is not restored. */
    schema: { type: "integer", minimum: 1 },
    created_at: { type: "string" },
    database: { type: "object", additionalProperties: false, required: ["sha256", "bytes"], properties: content },
    files: {
      type: "array",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["path", "sha256", "bytes"],
        properties: {
          path,
          ...content,
          /**
           * Time of the last change of a run's file, which is not named by its hash. While this and the size stay the
           * same, the next backup does not read the file.
           */
          modified_ms: { type: "number" },
        },
      },
    },
  },
} as const;

export type Manifest = FromSchema<typeof manifest>;
export type ManifestFile = Manifest["files"][number];

const check = compile(manifest);

/** Throws backup_invalid. */
export function readManifest(text: string): Manifest {
  const wrong = (why: string): Failure => new Failure("backup_invalid", `${manifestName} is damaged: ${why}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw wrong((error as Error).message);
  }
  const checked = check(value);
  if (!checked.ok) throw wrong(checked.details.map(({ loc, msg }) => `${loc.join(".")} ${msg}`).join("; "));
  const paths = new Set(checked.value.files.map((file) => file.path));
  if (paths.size < checked.value.files.length) throw wrong("a file is listed twice");
  return checked.value;
}

/** An open backup, either a folder or an archive. */
export interface Backup {
  manifest: Manifest;
  /** Reads content by its hash, without checking it. Throws ENOENT if it is missing. */
  read(sha256: string): AsyncIterable<Buffer>;
  /** Lists the files in the backup that the manifest does not name. */
  others(): Promise<string[]>;
  close(): Promise<void>;
}
