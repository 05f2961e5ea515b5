// Makes build/release/plumbline-<version>-linux-x64, one executable file, of an installation, without a network: the installation's own
// Node with the launcher in it, and after it the archive that the launcher unpacks. `--full` adds the starter model and the sentence
// encoder. pkg makes the executable, in the mode that uses Node's single executables: its other mode downloads a Node of its own. That
// mode takes the path of a Node through the function alone, not from pkg's command line.
import { mkdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import makeExecutable from "@yao-pkg/pkg/lib-es5/sea.js";
import { sha256OfFile } from "../src/base/files.ts";
import { appendArchive } from "./archive.ts";
import { bundleLauncher } from "./bundle.ts";
import { collectContents } from "./contents.ts";

const root = resolve(import.meta.dirname, "..");
const { values } = parseArgs({ options: { full: { type: "boolean", default: false } } });
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };

const folder = join(root, "build/release");
const work = join(folder, ".work");
const output = join(folder, `plumbline-${version}-linux-x64${values.full ? "-full" : ""}`);
rmSync(work, { recursive: true, force: true });
mkdirSync(work, { recursive: true });

const contents = await collectContents(work, values.full);
const launcher = join(work, "launcher.cjs");
await bundleLauncher(launcher);
const executable = join(work, "executable");
await makeExecutable.default(launcher, {
  targets: [{ platform: "linux", arch: "x64", nodeRange: "node24", output: executable }],
  nodePath: join(root, contents.node),
  seaConfig: { disableExperimentalSEAWarning: true, useSnapshot: false, useCodeCache: true },
});
const unpackedBytes = appendArchive(executable, contents);
renameSync(executable, output);
rmSync(work, { recursive: true });

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
console.log(`${output}
  ${megabytes(statSync(output).size)}; unpacks to ${contents.files.length} files, ${megabytes(unpackedBytes)}
  sha256 ${await sha256OfFile(output)}`);
