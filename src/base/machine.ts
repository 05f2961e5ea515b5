// Describes kinds of machines: the kind that a program needs, and the kind that this machine is.

export interface MachineKind {
  os: string;
  /** Node's name for the architecture, such as x64 or arm64. */
  architecture: string;
  libc: string;
  /** Version of the C library: the lowest that a program needs, or the one that a machine has. Empty for musl. */
  libc_version: string;
}

/** Lowest version of glibc that plumbline runs on, because the inference engine is built against it. */
export const leastGlibc = "2.34";

/** The C library that this process runs on. musl does not report its version. */
function libcHere(): Pick<MachineKind, "libc" | "libc_version"> {
  // The network is left out of the report, because looking up names and addresses can take seconds.
  if (process.report) Object.assign(process.report, { excludeNetwork: true });
  const report = process.report?.getReport() as unknown as { header: { glibcVersionRuntime?: string } } | undefined;
  const version = report?.header.glibcVersionRuntime;
  return version === undefined ? { libc: "musl", libc_version: "" } : { libc: "glibc", libc_version: version };
}

export const machineHere = (): MachineKind => ({
  os: process.platform,
  architecture: process.arch,
  ...libcHere(),
});

/** Whether the C library's version `has` is at least `needed`. Both have the form 2.34. */
export function isLibcEnough(has: string, needed: string): boolean {
  const [[hasMajor = 0, hasMinor = 0], [major = 0, minor = 0]] = [has, needed].map((one) =>
    one.split(".").map(Number),
  ) as [number[], number[]];
  return hasMajor > major || (hasMajor === major && hasMinor >= minor);
}
