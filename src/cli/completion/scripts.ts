// Renders a grammar of commands as a completion script for each shell.

/** What an option or argument takes: one of these words, the name of a file, or other text. */
export type Taker = readonly string[] | "file" | "text";

interface Word {
  word: string;
  about: string;
}

export interface GrammarCommand {
  /** Words after the program's name that lead to the command. */
  path: string[];
  /** Its subcommands. */
  words: Word[];
  options: (Word & { takes: Taker | null })[];
  /** What each of its arguments takes, in order. */
  takes: Taker[];
}

export type Grammar = GrammarCommand[];
export type Shell = "bash" | "zsh" | "fish";

/** Every command has --help, but commander does not list it. */
const help: Word & { takes: null } = { word: "--help", about: "display help for command", takes: null };
const optionsOf = ({ options }: GrammarCommand) => [...options, help];

/** Puts text in single quotes, in a form that all three shells read alike. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const joined = ({ path }: GrammarCommand): string => path.join(" ");

/** Whether an argument of the command is a file. Other text is not completed, because its values are unknown. */
const takesFile = ({ takes }: GrammarCommand): boolean => takes.includes("file");
const choicesOf = ({ takes }: GrammarCommand): string[] => takes.flatMap((one) => (typeof one === "string" ? [] : one));

function valuesOf(grammar: Grammar): { path: string; option: string; takes: Taker }[] {
  return grammar.flatMap((command) =>
    command.options.flatMap(({ word, takes }) =>
      takes === null ? [] : [{ path: joined(command), option: word, takes }],
    ),
  );
}

/**
 * Renders the body that bash and zsh share. In the script, `verb` is the command so far, and `before` is the word before the
 * one that is being completed.
 */
function walk(grammar: Grammar, give: { words(of: string[]): string; files: string }): string {
  const isCommand = grammar.filter(({ path }) => path.length > 0).map((one) => quoted(joined(one)));
  const values = valuesOf(grammar).map(({ path, option, takes }) => {
    const then = takes === "file" ? give.files : takes === "text" ? ":" : give.words([...takes]);
    return `    ${quoted(`${path}|${option}`)}) ${then}; return ;;`;
  });
  const cases = grammar.map((command) => {
    const options = optionsOf(command).map(({ word }) => word);
    const words = [...command.words.map(({ word }) => word), ...choicesOf(command)];
    const files = takesFile(command) ? `; [[ "$current" == -* ]] || ${give.files}` : "";
    return `    ${quoted(joined(command))}) if [[ "$current" == -* ]]; then ${give.words(options)}; else ${give.words(words)}${files}; fi ;;`;
  });
  return `  for word in "\${before_words[@]}"; do
    case "\${verb:+$verb }$word" in
      ${isCommand.join("|")}) verb="\${verb:+$verb }$word" ;;
    esac
  done
  case "$verb|$before" in
${values.join("\n")}
  esac
  case "$verb" in
${cases.join("\n")}
  esac`;
}

function bash(grammar: Grammar): string {
  const body = walk(grammar, {
    words: (of) => `COMPREPLY+=($(compgen -W $${quoted(of.join("\\n"))} -- "$current"))`,
    files: `COMPREPLY+=($(compgen -f -- "$current"))`,
  });
  return `# plumbline, for bash
_plumbline() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD - 1]}" verb="" word IFS=$'\\n'
  local before_words=("\${COMP_WORDS[@]:1:COMP_CWORD - 1}")
  COMPREPLY=()
${body}
}
complete -o filenames -F _plumbline plumbline`;
}

function zsh(grammar: Grammar): string {
  const body = walk(grammar, {
    words: (of) => (of.length === 0 ? ":" : `compadd -- ${of.map(quoted).join(" ")}`),
    files: "_files",
  });
  return `#compdef plumbline
_plumbline() {
  local current="\${words[CURRENT]}" before="\${words[CURRENT - 1]}" verb="" word
  local -a before_words
  before_words=("\${(@)words[2,CURRENT - 1]}")
${body}
}
compdef _plumbline plumbline`;
}

/** Renders the script for fish, which also shows what each word is about. */
function fish(grammar: Grammar): string {
  const lines = grammar.flatMap((command) => {
    const at = `__plumbline_at ${quoted(joined(command))}`;
    const when = `complete -c plumbline -n ${quoted(at)}`;
    const takes = takesFile(command) ? "-F" : "-f";
    return [
      ...command.words.map(({ word, about }) => `${when} -f -a ${quoted(word)} -d ${quoted(about)}`),
      ...(choicesOf(command).length > 0 ? [`${when} -f -a ${quoted(choicesOf(command).join(" "))}`] : []),
      ...optionsOf(command).map(({ word, about, takes: value }) => {
        const given =
          value === null
            ? ""
            : value === "file"
              ? " -r -F"
              : value === "text"
                ? " -x"
                : ` -x -a ${quoted(value.join(" "))}`;
        return `${when} -l ${word.replace(/^--/, "")} -d ${quoted(about)}${given}`;
      }),
      `${when} ${takes}`,
    ];
  });
  const commands = grammar.filter(({ path }) => path.length > 0).map((one) => quoted(joined(one)));
  return `# plumbline, for fish
set -g __plumbline_commands ${commands.join(" ")}
function __plumbline_at
  set -l path
  for word in (commandline -opc)[2..]
    set -l longer (string join ' ' -- $path $word)
    contains -- $longer $__plumbline_commands; and set path $longer
  end
  test "$path" = "$argv[1]"
end
${lines.join("\n")}`;
}

export const renderers: Record<Shell, (grammar: Grammar) => string> = { bash, zsh, fish };
