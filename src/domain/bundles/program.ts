// Reads from an executable's ELF headers (System V ABI) what kind of machine it is for.
import { open } from "node:fs/promises";
import { Failure } from "../../base/errors.ts";
import { leastGlibc, type MachineKind } from "../../base/machine.ts";

const architectures: Record<number, string> = { 62: "x64", 183: "arm64" };
const interpreterSegment = 3;

/**
 * The kind of machine that an executable is for. The glibc version is the one that every release needs; it is not read from the file.
 * Throws program_invalid.
 */
export async function machineOf(path: string): Promise<MachineKind> {
  const wrong = (why: string): Failure => new Failure("program_invalid", `${path} is not an executable: ${why}`);
  const file = await open(path, "r");
  try {
    const read = async (at: number, bytes: number): Promise<Buffer> => {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, at);
      if (bytesRead < bytes) throw wrong("it is cut off");
      return buffer;
    };
    const header = await read(0, 64);
    if (header.toString("latin1", 0, 4) !== "\x7fELF") throw wrong("it is not an ELF file");
    if (header[4] !== 2 || header[5] !== 1) throw wrong("it is not 64-bit little-endian");
    const machine = header.readUInt16LE(18);
    const segments = await read(Number(header.readBigUInt64LE(32)), header.readUInt16LE(54) * header.readUInt16LE(56));
    const interpreter = await interpreterIn(segments, header.readUInt16LE(54), read);
    const libc = /ld-linux/.test(interpreter) ? "glibc" : /ld-musl/.test(interpreter) ? "musl" : "none";
    return {
      os: "linux",
      architecture: architectures[machine] ?? `machine-${machine}`,
      libc,
      libc_version: libc === "glibc" ? leastGlibc : "",
    };
  } finally {
    await file.close();
  }
}

/** The path of the program that loads the executable's libraries. Empty if the executable names none. */
async function interpreterIn(
  segments: Buffer,
  entryBytes: number,
  read: (at: number, bytes: number) => Promise<Buffer>,
): Promise<string> {
  for (let at = 0; at + entryBytes <= segments.length; at += entryBytes) {
    if (segments.readUInt32LE(at) !== interpreterSegment) continue;
    const [offset, bytes] = [Number(segments.readBigUInt64LE(at + 8)), Number(segments.readBigUInt64LE(at + 32))];
    return (await read(offset, Math.min(bytes, 4096))).toString("latin1").split("\0")[0]!;
  }
  return "";
}
