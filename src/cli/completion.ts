// plumbline completion: prints scripts with which shells complete the command line, made from the definitions of the verbs.
import { Argument, type Command } from "commander";
import { type Grammar, renderers, type Shell, type Taker } from "./completion/scripts.ts";
import { answers } from "./output.ts";

const shells = Object.keys(renderers) as Shell[];

export function register(program: Command, all: () => Promise<Command>): void {
  const completion = program
    .command("completion")
    .description("print the completion script for a shell")
    .addArgument(new Argument("<shell>", "which").choices(shells))
    .addHelpText(
      "after",
      `
bash:  source <(plumbline completion bash), in ~/.bashrc
zsh:   plumbline completion zsh > _plumbline, in a folder of $fpath
fish:  plumbline completion fish > ~/.config/fish/completions/plumbline.fish`,
    );
  answers(completion, async (_, shell) => {
    const script = renderers[shell as Shell](grammarOf(await all()));
    return { json: { shell, script }, text: script, content: `${script}\n` };
  });
}

/** Returns every command, with the words that lead to it. `hidden` adds the commands that --help does not list. */
export function grammarOf(program: Command, { hidden = false } = {}): Grammar {
  const found: Grammar = [];
  const walk = (command: Command, path: string[]): void => {
    const visible = program.createHelp().visibleCommands(command);
    const commands = command.commands.filter((one) => hidden || visible.includes(one));
    found.push({
      path,
      words: commands.map((one) => ({ word: one.name(), about: one.description() })),
      options: command.options.map(({ long, description, argChoices, flags }) => ({
        word: long ?? flags,
        about: description,
        takes: flags.includes("<") ? (argChoices ?? takenBy(flags)) : null,
      })),
      takes: command.registeredArguments.map((one) => one.argChoices ?? takenBy(one.name())),
    });
    for (const one of commands) walk(one, [...path, one.name()]);
  };
  walk(program, []);
  return found;
}

/** Decides from an argument's name what it takes. Only paths are completed, as files; ids and texts cannot be guessed. */
const takenBy = (name: string): Taker => (/path|file|folder|dir|backup/i.test(name) ? "file" : "text");
