// What a program must fit to run on a machine, and what this machine is.

export interface MachineKind {
  os: string;
  /** As Node names it: x64, arm64. */
  architecture: string;
  libc: string;
  /** Version of the C library: the least that a program needs, or the one that a machine has. */
  libc_version: string;
}

/** The inference engine is built against it. */
export const leastGlibc = "2.34";

/** The C library that this process runs on. musl does not say its version. */
function libcHere(): Pick<MachineKind, "libc" | "libc_version"> {
  // Looking up network names and addresses can take seconds.
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

/** Whether a C library of version `has` is at least `needed`. Both are of the form 2.34. */
export function isLibcEnough(has: string, needed: string): boolean {
  const [[hasMajor = 0, hasMinor = 0], [major = 0, minor = 0]] = [has, needed].map((one) =>
    one.split(".").map(Number),
  ) as [number[], number[]];
  return hasMajor > major || (hasMajor === major && hasMinor >= minor);
}
