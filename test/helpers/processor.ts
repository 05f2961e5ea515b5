// How long work takes, apart from whatever else the machine does meanwhile.

/** Milliseconds of the processor that this process took for it. */
export function processorMs(work: () => void): number {
  const start = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}
