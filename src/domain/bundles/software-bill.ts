// The bill of materials in a bundle: that of the release (CycloneDX 1.5, JSON), with the bundle's models added.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { readGgufHeader } from "../../engine/gguf/header.ts";
import type { Manifest } from "./manifest.ts";

export interface Component {
  type: string;
  "bom-ref": string;
  name: string;
  version?: string;
  hashes?: { alg: string; content: string }[];
  licenses?: { license: { id?: string; name?: string } }[];
}

export interface SoftwareBill {
  bomFormat: "CycloneDX";
  specVersion: string;
  components: Component[];
}

/** A file for the bundle: its path there, and its content as a path on the disk or as bytes. */
export interface Part {
  path: string;
  from: string | Buffer;
}

/** A model with its place in a bundle. */
export interface PlacedModel {
  /** The model's path in the bundle. */
  path: string;
  /** The file of the model's weights. */
  main: Part & { from: string };
  parts: (Part & { from: string })[];
}

/** Parts with their hashes. */
export interface Hashed {
  parts: Part[];
  files: Manifest["files"];
}

/** Reads a CycloneDX bill of materials. Throws file_missing, bundle_invalid. */
export async function readSoftwareBill(path: string): Promise<SoftwareBill> {
  const text = await readFile(path, "utf8").catch((error) => {
    if (isErrno(error, "ENOENT")) throw new Failure("file_missing", `The bill of materials ${path} does not exist`);
    throw error;
  });
  const wrong = (cause?: unknown): Failure =>
    new Failure("bundle_invalid", `${path} is not a CycloneDX bill of materials`, { cause });
  let bill: Partial<SoftwareBill> | null;
  try {
    bill = JSON.parse(text);
  } catch (error) {
    throw wrong(error);
  }
  if (bill?.bomFormat !== "CycloneDX" || !Array.isArray(bill.components)) throw wrong();
  return bill as SoftwareBill;
}

export const withModels = (bill: SoftwareBill, models: Component[]): SoftwareBill => ({
  ...bill,
  components: [...bill.components, ...models],
});

/**
 * Describes a model as a component. The last argument must include the hash of the model's weights. The licence comes from a GGUF
 * file's metadata; a model in another format has none.
 */
export function modelComponent(path: string, main: PlacedModel["main"], { files }: Hashed): Component {
  const { sha256: content } = files.find((file) => file.path === main.path)!;
  const licence = licenceOf(main.from);
  return {
    type: "machine-learning-model",
    "bom-ref": path,
    name: basename(path),
    hashes: [{ alg: "SHA-256", content }],
    ...(licence === null ? {} : { licenses: [{ license: { name: licence } }] }),
  };
}

function licenceOf(path: string): string | null {
  if (!path.endsWith(".gguf")) return null;
  const value = readGgufHeader(path).values.get("general.license");
  return typeof value === "string" ? value : null;
}
