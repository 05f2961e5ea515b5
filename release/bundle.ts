// One esbuild bundle of the program: its entries are the command line and every file that runs as a thread or a process of its own.
// All of it is in one flat folder, in place of src/ and most packages. Code that finds files relative to itself still finds them:
// `import.meta` of each source is replaced by what it would be in the installation.
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { build, type Metafile, type Plugin } from "esbuild";

const root = resolve(import.meta.dirname, "..");
const commandLine = "src/cli/main.ts";
/** node-llama-cpp starts this file as a process, which tries a native library: loading one that does not fit can end a process. */
const probe = "node_modules/node-llama-cpp/dist/bindings/utils/testBindingBinary.js";

/** Packages that stay folders: they have native parts, or files that they load by their place. */
const wholePackages = ["better-sqlite3", "pdfjs-dist", "piscina", "@node-llama-cpp/*"];
/** Optional parts of packages that no installation uses. */
const unused = ["@napi-rs/canvas", "@napi-rs/nice", "@reflink/reflink"];

const ofThread = String.raw`new URL\("([^"]+\.ts)", import\.meta\.url\)`;
const ofProcess = String.raw`join\(import\.meta\.dirname, "([^"]+\.ts)"\)`;
const places = new RegExp(`${ofThread}|${ofProcess}|import\\.meta\\.(url|dirname|filename)`, "g");

/** Name of an entry's file in the bundle. The probe keeps its own, by which it knows that it may be started. */
const nameOf = (entry: string): string =>
  entry === probe ? basename(probe, ".js") : relative("src", entry).replace(/\.ts$/, "").replaceAll("/", "-");

/** Every source that another one starts as a thread or a process. */
function entries(): string[] {
  const found = new Set([commandLine, probe]);
  for (const name of readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".ts")) continue;
    const file = join(root, "src", name);
    for (const [, thread, child] of readFileSync(file, "utf8").matchAll(places)) {
      const started = thread ?? child;
      if (started !== undefined) found.add(relative(root, resolve(dirname(file), started)));
    }
  }
  return [...found].sort();
}

/** The text of a source, for a bundle in src/. */
function placed(text: string, path: string): string {
  const source = relative(root, path);
  const fromBundle = source === probe ? `${nameOf(probe)}.js` : relative("src", source);
  return text.replaceAll(places, (_, thread?: string, child?: string, part?: string) => {
    const started = thread ?? child;
    if (started !== undefined) {
      const name = JSON.stringify(`${nameOf(relative(root, resolve(dirname(path), started)))}.js`);
      return thread === undefined ? `join(import.meta.dirname, ${name})` : `new URL(${name}, import.meta.url)`;
    }
    if (part === "url") return `new URL(${JSON.stringify(fromBundle)}, import.meta.url).href`;
    const what = part === "filename" ? fromBundle : dirname(fromBundle);
    return `(import.meta.dirname + ${JSON.stringify(`/${what}`)})`;
  });
}

const keepPlaces: Plugin = {
  name: "keep-places",
  setup({ onLoad }) {
    onLoad({ filter: /\.(ts|m?js)$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      if (!text.includes("import.meta.")) return null;
      return { contents: placed(text, path), loader: path.endsWith(".ts") ? "ts" : "js" };
    });
  },
};

/** Bundles the program into a folder; returns the name of the command line's file and the packages that are in the bundle. */
export async function bundleProgram(folder: string): Promise<{ program: string; packages: string[] }> {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: entries().map((entry) => ({ in: entry, out: nameOf(entry) })),
    outdir: folder,
    chunkNames: "part-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    // Some packages have, in the older module system, a form whose own files cannot be found when bundling.
    mainFields: ["module", "main"],
    minifySyntax: true,
    minifyWhitespace: true,
    external: [...wholePackages, ...unused],
    // Packages of the older module system call `require` for Node's own modules.
    banner: { js: 'import{createRequire as $require}from"node:module";const require=$require(import.meta.url);' },
    legalComments: "none",
    metafile: true,
    logLevel: "warning",
    plugins: [keepPlaces],
  });
  refuseMissing(folder);
  return { program: `${nameOf(commandLine)}.js`, packages: packagesOf(metafile) };
}

/** Throws if a package would look for one of its files at run time: there is only the bundle then. */
function refuseMissing(folder: string): void {
  for (const name of readdirSync(folder)) {
    const [missing] = /\brequire\d*\("\.[^"]*"\)/.exec(readFileSync(join(folder, name), "utf8")) ?? [];
    if (missing !== undefined) throw new Error(`${name} has ${missing}, which the bundle has no file for`);
  }
}

/** Bundles the launcher into one file of the older module system, which is what a single executable starts. */
export async function bundleLauncher(file: string): Promise<void> {
  await build({
    absWorkingDir: root,
    entryPoints: ["src/launcher/main.ts"],
    outfile: file,
    bundle: true,
    format: "cjs",
    platform: "node",
    target: "node24",
    // Only base/config.ts asks where it stands, for the folder of an installation, which the launcher does not use.
    define: { "import.meta.dirname": '"/"' },
    logLevel: "warning",
  });
}

const packagesOf = ({ inputs }: Metafile): string[] => [
  ...new Set(Object.keys(inputs).flatMap((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [])),
];
