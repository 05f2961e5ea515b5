// The README's command lines: each is one that the program takes. Those in its blocks are typed by documented.test.ts; of those that its
// text names, the verbs are run by a test.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Command } from "commander";
import { installation } from "../../src/base/config.ts";
import { defaults, layout, serviceCommand } from "../../src/cli/installation/layout.ts";
import { createProgram } from "../../src/cli/verbs.ts";
import { documented } from "./documented.ts";

const readme = readFileSync(join(installation, "README.md"), "utf8");
const { scripts } = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as {
  scripts: Record<string, string>;
};

/** Commands of its blocks, and what is named in the text. */
const shell = documented.README.flatMap((line) => line.split("&&")).map((part) => part.trim());
const named = [...readme.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!);

/** What may stand before the program's name: another user, or another machine. */
const launched = /^(?:sudo )?(?:runuser -u \S+ -- env \S+ )?(?:ssh host \S*\/)?(?:bin\/)?plumbline (.+)$/;

/** The words after the program's name. */
const commandsIn = (lines: string[]): string[][] =>
  [...new Set(lines.flatMap((line) => launched.exec(line)?.[1] ?? []))].map((line) => line.trim().split(" "));
const commands = { shell: commandsIn(shell), named: commandsIn(named) };

/** By verb, the test that runs it, and the words by which it does so there. */
const ranBy: Record<string, [file: string, words: string]> = {
  serve: ["test/cli/plumbline.ts", '["serve", "--json"'],
  demo: ["test/release/demo.test.ts", '["demo", "--json"'],
  try: ["test/cli/try.test.ts", '"try"'],
  doctor: ["test/cli/verbs.test.ts", '"--fix"'],
  "document add": ["test/cli/api-verbs.test.ts", '"document", "add"'],
  "benchmark create": ["test/cli/api-calls.ts", '"benchmark create"'],
  "align create": ["test/cli/api-calls.ts", '"align create"'],
  report: ["test/cli/api-verbs.test.ts", '"report"'],
  deploy: ["test/cli/api-verbs.test.ts", '"deploy"'],
  chat: ["test/cli/api-verbs.test.ts", '"chat"'],
  completion: ["test/cli/completion.test.ts", '"completion"'],
  "key create": ["test/cli/api-verbs.test.ts", '"--save"'],
  "model import": ["test/cli/machine-verbs.test.ts", '"model", "import"'],
  "evaluation stop": ["test/cli/machine-verbs.test.ts", '"evaluation", "stop"'],
  install: ["test/cli/install.test.ts", '"install"'],
  upgrade: ["test/cli/upgrade.test.ts", "it.upgrade("],
  uninstall: ["test/cli/install.test.ts", '"uninstall"'],
  "bundle key": ["test/helpers/bundle.ts", '"bundle", "key"'],
  "bundle create": ["test/helpers/bundle.ts", '"bundle", "create"'],
  "bundle apply": ["test/helpers/bundle.ts", '"bundle", "apply"'],
  backup: ["test/cli/machine-verbs.test.ts", '"backup"'],
  verify: ["test/cli/machine-verbs.test.ts", '"verify"'],
  restore: ["test/cli/machine-verbs.test.ts", '"restore"'],
  support: ["test/cli/support.test.ts", '"support"'],
};

/** By verb, why no test runs it. */
const notRun: Record<string, string> = {
  "fit-prior": "aligns the starter model for minutes, and writes into this tree's config/confidence",
};

/** Has every command do nothing, so that only its line is read. */
function hush(command: Command): void {
  command.exitOverride().configureOutput({ outputError: () => {} });
  if (command.commands.length === 0) command.action(() => {});
  command.commands.forEach(hush);
}

async function read(words: string[]): Promise<string | null> {
  const program = await createProgram();
  hush(program);
  return program.parseAsync(words, { from: "user" }).then(
    () => null,
    (error: { code: string }) => error.code,
  );
}

test("each of the README's command lines is one that the program takes", async () => {
  assert.ok(commands.shell.length >= 20, String(commands.shell.length));
  for (const words of commands.shell) assert.equal(await read(words), null, words.join(" "));
  assert.ok(commands.named.length >= 5, String(commands.named.length));
  // In the text a command may be named without its arguments, and several at once.
  const mayLack = [null, "commander.missingArgument", "commander.missingMandatoryOptionValue"];
  for (const words of commands.named) {
    const found = await read(words.map((word) => word.split("|")[0]!));
    assert.ok(mayLack.includes(found), `${words.join(" ")}: ${found}`);
  }
});

test("each command that the README's text names is run by a test, or is known not to be", () => {
  for (const words of commands.named) {
    const verb = [words.slice(0, 2).join(" "), words[0]!].find((name) => name in ranBy || name in notRun);
    assert.ok(verb, `${words.join(" ")} is run by no test that is named here`);
    if (verb in notRun) continue;
    const [file, run] = ranBy[verb]!;
    assert.ok(readFileSync(join(installation, file), "utf8").includes(run), `${file} does not run ${verb}`);
  }
});

test("a command for the service's data is the one that install prints", () => {
  const at = layout(defaults.prefix);
  const installed = { ...defaults, format: 1, environment: "", unit: "", made_user: true } as const;
  const typed = `sudo ${serviceCommand(installed, at).replace(at.command, "plumbline")} key create --user ann`;
  assert.ok(named.includes(typed), typed);
});

test("each npm script of the README is there", () => {
  const scriptNames = [...shell, ...named].flatMap((line) => /^npm (?:run )?(\S+)/.exec(line)?.[1] ?? []);
  assert.ok(scriptNames.length >= 3);
  for (const name of scriptNames) assert.ok(name in scripts, name);
});
