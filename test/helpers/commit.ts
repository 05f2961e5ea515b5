// Which state of the code a figure was measured with.
import { execFileSync } from "node:child_process";
import { lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../src/base/config.ts";
import { sha256 } from "../../src/base/files.ts";

/** Figures that a measurement writes are no other state of what they are about. */
const figures = [":(exclude)test/e2e/promises.json", ":(exclude)test/*/RESULTS.md"];
/** Where new code may be. Other new files, such as those that a proof makes, change nothing of what is measured. */
const folders = ["bin", "config", "native", "release", "src", "test"];

const git = (...args: string[]): string =>
  execFileSync("git", args, { cwd: installation, encoding: "utf8", maxBuffer: 64 << 20 });

/** The commit; with changes that are not committed, also a hash of them. */
export function commitNow(): string {
  const commit = git("rev-parse", "HEAD").trim();
  const changed = git("diff", "HEAD", "--", ".", ...figures);
  const added = git("ls-files", "--others", "--exclude-standard", "-z", "--", ...folders, ...figures)
    .split("\0")
    .filter((name) => name !== "" && lstatSync(join(installation, name)).isFile());
  if (changed === "" && added.length === 0) return commit;
  const files = added.map((name) => [name, sha256(readFileSync(join(installation, name)))]);
  return `${commit}-dirty-${sha256(JSON.stringify([changed, files])).slice(0, 8)}`;
}

/** As tables show it. */
export const shortened = (commit: string): string => commit.replace(/^(\w{7})\w*/, "$1");
