// The bill of materials of a release (CycloneDX 1.5, JSON): the packages that are in it, as npm knows them, and what is linked into
// the native parts. Without time and serial number: the same release has the same bill.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { Component, SoftwareBill } from "../src/domain/bundles/software-bill.ts";

const root = resolve(import.meta.dirname, "..");

interface Package {
  name: string;
  version: string;
}

export interface Native {
  name: string;
  version: string;
  licence: string;
}

const packageAt = (folder: string): Package =>
  JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as Package;
const referenceOf = ({ name, version }: Package): string => `${name}@${version}`;

/** What CMake linked into the trainer, with the file of its licence. */
export function linkedIn(): (Native & { text: string })[] {
  const cache = readFileSync(join(root, "build/CMakeCache.txt"), "utf8");
  const headers = /^openblas_include:PATH=(.+)$/m.exec(cache)?.[1];
  const said =
    headers && /OPENBLAS_VERSION " OpenBLAS ([^ ]+) "/.exec(readFileSync(join(headers, "openblas_config.h"), "utf8"));
  if (!said) throw new Error("the version of OpenBLAS is not found in build/CMakeCache.txt and its headers");
  const { tag } = JSON.parse(
    readFileSync(join(root, "node_modules/node-llama-cpp/llama/llama.cpp.info.json"), "utf8"),
  ) as { tag: string };
  return [
    { name: "OpenBLAS", version: said[1]!, licence: "BSD-3-Clause", text: "/usr/share/doc/libopenblas-dev/copyright" },
    { name: "llama.cpp", version: tag, licence: "MIT", text: join(root, "build/llama.cpp/LICENSE") },
  ];
}

/** `packages`: folders of all packages in the release. `models`: files of models in it, with their hashes. */
export function softwareBill(packages: string[], models: { path: string; sha256: string }[]): SoftwareBill {
  const words = ["sbom", "--sbom-format", "cyclonedx", "--package-lock-only"];
  const told = execFileSync("npm", words, { cwd: root, encoding: "utf8", maxBuffer: 64 << 20 });
  const known = JSON.parse(told) as SoftwareBill & {
    metadata: { component: Component };
    dependencies: { ref: string; dependsOn: string[] }[];
  };
  const wanted = new Set(packages.map((folder) => referenceOf(packageAt(folder))));
  const ofNpm = known.components.filter((component) => wanted.has(component["bom-ref"]));
  const missing = [...wanted].filter((reference) => !ofNpm.some((component) => component["bom-ref"] === reference));
  if (missing.length > 0) throw new Error(`npm sbom does not know ${missing.join(", ")}`);
  const own = packageAt(".");
  const linked = linkedIn().map(
    ({ name, version, licence }): Component => ({
      ...{ type: "library", "bom-ref": `${name}@${version}`, name, version },
      licenses: [{ license: { id: licence } }],
    }),
  );
  const carried = models.map(
    ({ path, sha256 }): Component => ({
      ...{ type: "machine-learning-model", "bom-ref": path, name: basename(path) },
      hashes: [{ alg: "SHA-256", content: sha256 }],
    }),
  );
  return {
    ...{ bomFormat: "CycloneDX", specVersion: known.specVersion, version: 1 },
    metadata: { component: { ...known.metadata.component, type: "application", name: own.name } },
    components: [...ofNpm.map(withoutLinks), ...linked, ...carried],
    dependencies: known.dependencies
      .filter(({ ref }) => ref === referenceOf(own) || wanted.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => wanted.has(one)) })),
  } as SoftwareBill;
}

/** npm's empty lists say nothing. */
const withoutLinks = (component: Component): Component =>
  Object.fromEntries(
    Object.entries(component).filter(([, value]) => !Array.isArray(value) || value.length > 0),
  ) as unknown as Component;
