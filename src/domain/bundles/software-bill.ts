// The bill of materials in a bundle: the release's own (CycloneDX 1.5, JSON), and the models beside it.
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

/** A file or bytes to put in, with its place in the bundle. */
export interface Part {
  path: string;
  from: string | Buffer;
}

/** A model with its place in a bundle. */
export interface PlacedModel {
  /** In the bundle. */
  path: string;
  /** The file of its weights. */
  main: Part & { from: string };
  parts: (Part & { from: string })[];
}

/** Parts with their hashes. */
export interface Hashed {
  parts: Part[];
  files: Manifest["files"];
}

/** Throws file_missing, bundle_invalid. */
export async function readSoftwareBill(path: string): Promise<SoftwareBill> {
  const text = await readFile(path, "utf8").catch((error) => {
    if (isErrno(error, "ENOENT")) throw new Failure("file_missing", `The bill of materials ${path} does not exist`);
    throw error;
  });
  const bill = JSON.parse(text) as SoftwareBill;
  if (bill.bomFormat !== "CycloneDX" || !Array.isArray(bill.components))
    throw new Failure("bundle_invalid", `${path} is not a CycloneDX bill of materials`);
  return bill;
}

export const withModels = (bill: SoftwareBill, models: Component[]): SoftwareBill => ({
  ...bill,
  components: [...bill.components, ...models],
});

/** A model as a component. `hashed` has the hash of its weights. The licence is what a GGUF file says of itself. */
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
