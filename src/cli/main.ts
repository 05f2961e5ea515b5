// The command line: which verbs there are. Each is a file of its own, and only the one that is asked for is read.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command, CommanderError } from "commander";
import { installation } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { exitHelp } from "./exit-codes.ts";
import { speakFailure } from "./output.ts";

const { version, description } = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as {
  version: string;
  description: string;
};

// Whoever reads us through a pipe may have enough of it, as «head» does: what is left to say is not said, and no failure.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });

const json = process.argv.includes("--json");
const program = new Command("plumbline")
  .description(description)
  .version(version)
  .exitOverride()
  .configureOutput({ outputError: () => {} })
  .showHelpAfterError(false)
  .addHelpText("afterAll", `\n${exitHelp}\n\nSettings: config/plumbline.env lists every one with its default.`);

type Verb = { register(program: Command): void };

/** In the order of --help. */
const verbs: Record<string, () => Promise<Verb>> = {
  serve: () => import("./serve.ts"),
  demo: () => import("./demo.ts"),
  doctor: () => import("./doctor.ts"),
  model: () => import("./model.ts"),
  evaluation: () => import("./evaluation.ts"),
  key: () => import("./key.ts"),
  backup: () => import("./backup.ts"),
  restore: () => import("./restore.ts"),
  verify: () => import("./verify.ts"),
  bench: () => import("./bench.ts"),
  run: () => import("./run.ts"),
  "fit-prior": () => import("./fit-prior.ts"),
  "train-writer": () => import("./train-writer.ts"),
};

const asked = verbs[process.argv[2] ?? ""];
for (const load of asked ? [asked] : Object.values(verbs)) (await load()).register(program);

try {
  await program.parseAsync();
} catch (error) {
  // commander ends by throwing, for --help and --version as well.
  if (!(error instanceof CommanderError)) throw error;
  if (error.exitCode !== 0) speakFailure(new Failure("usage", usageMessage(error)), json);
}

function usageMessage(error: CommanderError): string {
  if (error.code === "commander.help") return "A verb is missing";
  const message = error.message.replace(/^error: /, "");
  return message.charAt(0).toUpperCase() + message.slice(1);
}
