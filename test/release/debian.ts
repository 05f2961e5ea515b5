// A minimal Debian 12 as debootstrap makes it, and what strace(1) saw of the network.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { installation } from "./machine.ts";

const suite = "bookworm";
/** Kept between tests: making it downloads about 60 MB. */
const folder = join(installation, `build/debian-${suite}-minbase`);
const mirror = "http://deb.debian.org/debian";

/** Programs of this machine that a test in a minimal Debian needs. */
const needed = ["debootstrap", "strace", "unshare", "ip"];

/** The folder of a minimal Debian, or why there is none. */
export function minimalDebian(): { folder: string } | { missing: string } {
  if (process.getuid?.() !== 0) return { missing: "needs root" };
  for (const program of needed)
    if (spawnSync("sh", ["-c", `command -v ${program}`]).status !== 0)
      return { missing: `${program} is not installed` };
  if (existsSync(folder)) return { folder };
  const temporary = `${folder}.incomplete`;
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  const words = ["--variant=minbase", suite, temporary, mirror];
  try {
    execFileSync("debootstrap", words, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return { missing: `debootstrap of ${mirror}: ${`${stdout}${stderr}`.trim().split("\n").at(-1)}` };
  }
  renameSync(temporary, folder);
  return { folder };
}

/**
 * Lines of a trace that name a peer which is not this machine itself. A peer may be a socket in the file system, the kernel
 * (netlink), or an address of the loopback device.
 */
export function peersElsewhere(trace: string): string[] {
  return callsOf(trace).filter((line) => {
    const [, family] = /sa_family=(\w+)/.exec(line)!;
    if (family === "AF_UNIX" || family === "AF_NETLINK") return false;
    return !/inet_addr\("127\.|inet_pton\(AF_INET6, "::1"/.test(line);
  });
}

/** Lines of a trace in which a connection is opened to the loopback device. */
export const loopbackConnections = (trace: string): string[] =>
  callsOf(trace).filter((line) => /\bconnect\(.*inet_addr\("127\./.test(line));

/** The calls that connect or send to an address. */
const callsOf = (trace: string): string[] =>
  readFileSync(trace, "utf8")
    .split("\n")
    .filter((line) => /\b(connect|sendto|sendmsg|sendmmsg)\(.*sa_family=/.test(line));
