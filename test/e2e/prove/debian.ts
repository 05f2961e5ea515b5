// Material that Debian packages and this repository does not ship: fetched once, unpacked, never installed.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** The folder with a package's files. */
export function unpacked(folder: string, name: string): string {
  const files = join(folder, name);
  if (existsSync(join(files, "usr"))) return files;
  mkdirSync(files, { recursive: true });
  execFileSync("apt-get", ["download", name], { cwd: files, stdio: ["ignore", "ignore", "inherit"] });
  const archive = readdirSync(files).find((file) => file.startsWith(`${name}_`) && file.endsWith(".deb"))!;
  execFileSync("dpkg-deb", ["-x", archive, "."], { cwd: files });
  return files;
}
