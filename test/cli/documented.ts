// The commands that the README and /help tell users to type, and a shell to type them into.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { installation } from "../../src/base/config.ts";
import { startProcess } from "../../src/base/processes.ts";

const textOf = (path: string): string => readFileSync(join(installation, path), "utf8");

const readme = textOf("README.md");

/** Contents of the README's fenced blocks of shell. */
export const shellBlocks: readonly string[] = [...readme.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(
  ([, block]) => block!,
);

/** First lines of the README's blocks that are indented instead of fenced. */
export const indentedBlocks: readonly string[] = [...readme.matchAll(/(?<=^\n) {4,}(\S.*)$/gm)].map(
  ([, line]) => line!,
);

/** A comment runs from a # at the start of a word, outside of quotes, to the end of the line. */
const withoutComment = (line: string): string => /^(?:'[^']*'|"[^"]*"|\\.|(?<=\S)#|[^#'"\\])*/.exec(line)![0].trim();

/** The commands of a block, one each; a line that ends with a backslash goes on. */
export const commandsIn = (block: string): string[] =>
  block
    .replace(/\\\n\s*/g, "")
    .split("\n")
    .map(withoutComment)
    .filter((line) => line !== "");

const entities: Record<string, string> = { quot: '"', amp: "&", lt: "<", gt: ">" };
const ofHelp = (language: string): string[] =>
  [...textOf(`src/console/help/${language}.html`).matchAll(/<code class="command">([^<]+)</g)].map(([, line]) =>
    line!.replace(/&(\w+);/g, (_, name: string) => entities[name]!),
  );

/** Every command of each of them, in its order. */
export const documented: Readonly<Record<"README" | "help" | "help in German", string[]>> = {
  README: shellBlocks.flatMap(commandsIn),
  help: ofHelp("en"),
  "help in German": ofHelp("de"),
};

export interface Typed {
  code: number;
  stdout: string;
  stderr: string;
}

export interface Shell {
  /** Types one line and waits until it is done. Variables and functions stay for the next one. */
  type(line: string): Promise<Typed>;
  close(): Promise<void>;
}

/** A bash in a folder, with nothing but these variables and those that every child has. */
export function openShell(cwd: string, env: Record<string, string>): Shell {
  const bash = startProcess("bash", ["--noprofile", "--norc"], { cwd, env });
  const said = { stdout: "", stderr: "" };
  let onPart = (): void => {};
  for (const name of ["stdout", "stderr"] as const)
    bash[name].setEncoding("utf8").on("data", (part: string) => {
      said[name] += part;
      onPart();
    });
  let count = 0;
  return {
    async type(line) {
      const mark = `--done-${count++}--`;
      const ending = new RegExp(`${mark}(\\d+)\n$`);
      const done = new Promise<void>((resolve) => {
        onPart = () => {
          if (ending.test(said.stdout) && ending.test(said.stderr)) resolve();
        };
      });
      // What it runs reads nothing: the shell's own standard input is the lines to come.
      bash.stdin.write(`{ ${line}\n} </dev/null\ncode=$?; echo "${mark}$code"; echo "${mark}$code" >&2\n`);
      const gone = bash.ended.then(({ code, signal }) => {
        throw new Error(`${line}: the shell ended with ${code ?? signal}: ${said.stderr}`);
      });
      await Promise.race([done, gone]);
      const code = Number(ending.exec(said.stdout)![1]);
      const typed = { code, stdout: said.stdout.replace(ending, ""), stderr: said.stderr.replace(ending, "") };
      said.stdout = "";
      said.stderr = "";
      return typed;
    },
    async close() {
      bash.stdin.end();
      await bash.ended;
    },
  };
}
