// The verbs, in the order of --help. Each has its own file, and only the requested verb is loaded.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command, CommanderError } from "commander";
import { installation } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { exitHelp } from "./exit-codes.ts";
import { speakFailure } from "./output.ts";

interface Verb {
  /** Adds the verb to `program`. `all` returns a program with every verb. */
  register(program: Command, all: () => Promise<Command>): void;
}

const verbs: Record<string, () => Promise<Verb>> = {
  serve: () => import("./serve.ts"),
  demo: () => import("./demo.ts"),
  try: () => import("./try.ts"),
  doctor: () => import("./doctor.ts"),
  document: () => import("./document.ts"),
  benchmark: () => import("./benchmark.ts"),
  align: () => import("./align.ts"),
  "auto-align": () => import("./auto-align.ts"),
  evaluate: () => import("./evaluate.ts"),
  report: () => import("./report.ts"),
  deploy: () => import("./deploy.ts"),
  undeploy: () => import("./undeploy.ts"),
  chat: () => import("./chat.ts"),
  model: () => import("./model.ts"),
  evaluation: () => import("./evaluation.ts"),
  key: () => import("./key.ts"),
  backup: () => import("./backup.ts"),
  restore: () => import("./restore.ts"),
  verify: () => import("./verify.ts"),
  bundle: () => import("./bundle.ts"),
  support: () => import("./support.ts"),
  install: () => import("./install.ts"),
  upgrade: () => import("./upgrade.ts"),
  uninstall: () => import("./uninstall.ts"),
  bench: () => import("./bench.ts"),
  run: () => import("./run.ts"),
  "fit-prior": () => import("./fit-prior.ts"),
  "train-writer": () => import("./train-writer.ts"),
  "train-warm-start": () => import("./train-warm-start.ts"),
  completion: () => import("./completion.ts"),
};

const { version, description } = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as {
  version: string;
  description: string;
};

/** Returns the program with the verb `asked`, or with all verbs if no verb has that name. */
export async function createProgram(asked?: string): Promise<Command> {
  const program = new Command("plumbline")
    .description(description)
    .version(version)
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    .showHelpAfterError(false)
    .addHelpText(
      "afterAll",
      `\n${exitHelp}\n\nSettings: ${join(installation, "config/plumbline.env")} lists all settings with their defaults.`,
    );
  const load = asked !== undefined && Object.hasOwn(verbs, asked) ? [verbs[asked]!] : Object.values(verbs);
  for (const one of load) (await one()).register(program, createProgram);
  return program;
}

/** Runs a command line, answers on standard output, and sets the exit status. */
export async function runCommandLine(words: string[]): Promise<void> {
  const program = await createProgram(words[0]);
  try {
    await program.parseAsync(words, { from: "user" });
  } catch (error) {
    // commander ends by throwing, for --help and --version as well.
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) speakFailure(new Failure("usage", usageMessage(error)), words.includes("--json"));
  }
}

function usageMessage(error: CommanderError): string {
  if (error.code === "commander.help") return "A verb is missing";
  // speakFailure adds a full stop between message and hint.
  const message = error.message.replace(/^error: /, "").replace(/\.$/, "");
  return message.charAt(0).toUpperCase() + message.slice(1);
}
