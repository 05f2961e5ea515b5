// plumbline serve: runs the appliance until SIGTERM or SIGINT. Unfinished work is left in a state that the next start
// resumes.
import type { Command } from "commander";
import type { House } from "../app/lifecycle.ts";
import { type Config, ownCommand, readConfig } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { isErrno } from "../base/files.ts";
import { createLog } from "../base/log.ts";
import { onParentGone } from "../base/processes.ts";
import { addressHint } from "./connection.ts";
import { exitCodes } from "./exit-codes.ts";
import { findGpus } from "./gpu.ts";
import { bytesText, note, print, speakFailure } from "./output.ts";

interface Options {
  json?: boolean;
  attached?: boolean;
}

/** Maximum time for shutting down. Work that has not ended properly by then is recovered at the next start. */
const goDownMs = 30_000;

export function register(program: Command): void {
  program
    .command("serve")
    .description("serve the API until SIGTERM or Ctrl-C")
    .option("--attached", "also end when standard input closes")
    .option("--json", "print the address and other facts known at the start as one JSON line")
    .action(async (options: Options) => {
      try {
        await serve(options);
      } catch (error) {
        speakFailure(error, options.json === true);
      }
      // Open handles, such as standard input, must not keep the process alive.
      process.exit();
    });
}

async function serve(options: Options): Promise<void> {
  const config = readConfig();
  const ending = untilTold(options);
  const { createHouse } = await import("../main.ts");
  const house = await createHouse({ config, log: createLog(config.logLevel) });
  try {
    const address = await listen(house, config);
    await sayHello(address, house.claimLink(), config, options);
    note(`plumbline: ${await ending.told}; finishing requests in progress`);
  } finally {
    ending.force();
    await house.close();
  }
}

async function listen(house: House, config: Config): Promise<string> {
  try {
    return await house.listen();
  } catch (error) {
    const what = `Cannot listen on ${config.host}:${config.port} (${(error as Error).message})`;
    if (isErrno(error, "EADDRINUSE")) throw new Failure("address_taken", what);
    if (isErrno(error, "EADDRNOTAVAIL", "EACCES")) throw new Failure("config_invalid", `${what}. ${addressHint}`);
    throw error;
  }
}

/**
 * `told` resolves at the first signal, which starts an orderly shutdown, or with --attached when standard input closes. After
 * `force`, a further signal or a timeout ends the process at once.
 */
function untilTold(options: Options): { told: Promise<string>; force(): void } {
  let forcing = false;
  let tell: (why: string) => void;
  const told = new Promise<string>((resolve) => {
    tell = resolve;
  });
  const leave = (): void => process.exit(exitCodes.failure.code);
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => {
      if (forcing) leave();
      tell(signal);
    });
  if (options.attached) onParentGone(() => tell("standard input closed"));
  return {
    told,
    force() {
      forcing = true;
      setTimeout(leave, goDownMs).unref();
    },
  };
}

async function sayHello(address: string, claim: string | null, config: Config, options: Options): Promise<void> {
  const { version } = (await import("../../package.json", { with: { type: "json" } })).default;
  if (options.json) print(JSON.stringify({ version, address, claim, data: config.data, pid: process.pid }));
  const next =
    claim === null
      ? `the API is described at ${address}/docs; create keys with ${ownCommand} key create --user NAME`
      : `open ${claim} in a browser on this machine: it creates the first key and shows the next steps`;
  const gpus = await findGpus();
  const gpu =
    "why" in gpus
      ? `none: ${gpus.why}`
      : gpus.found.map((one) => `${one.name}, ${bytesText(one.freeBytes)} free`).join("; ");
  note(
    [
      `plumbline ${version}`,
      `  data     ${config.data}`,
      `  address  ${address}`,
      `  gpu      ${gpu}`,
      `  next     ${next}`,
    ].join("\n"),
  );
}
