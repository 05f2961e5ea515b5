// Finds the front matter of a Markdown text: lines of YAML between two lines of hyphens, at the text's start.
export interface FrontMatter {
  /** Offset in the text at which the front matter ends. */
  end: number;
  /** Where the title stands in the text; null if there is none. */
  title: { start: number; end: number } | null;
}

const fenced = /^---[ \t]*\n([\s\S]*?)\n(?:---|\.\.\.)[ \t]*(?=\n|$)/;
/** A key, a list's item, a comment, or a line that goes on within a key. */
const yaml = /^(?:[\w-]+:(?:\s|$)|[-#](?:\s|$)|\s)/;
const titled = /^title:[ \t]*(?=\S)/m;
/** A quoted value, or a plain one without a comment. A value of several lines begins with a sign instead. */
const valued = /^(?:(["'])(?<quoted>(?:(?!\1).)+)\1|(?<plain>(?!["'>|#&*!])(?:(?! #).)+))/;

/** Null if the text has none. A text may also begin with a rule, so all lines before the next rule have to be YAML. */
export function frontMatterOf(text: string): FrontMatter | null {
  const found = fenced.exec(text);
  if (found === null || !found[1]!.split("\n").every((line) => line === "" || yaml.test(line))) return null;
  return { end: found[0].length, title: titleOf(found[0]) };
}

function titleOf(lines: string): FrontMatter["title"] {
  const key = titled.exec(lines);
  if (key === null) return null;
  const from = key.index + key[0].length;
  const { quoted, plain } = valued.exec(lines.slice(from, lines.indexOf("\n", from)))?.groups ?? {};
  const title = (quoted ?? plain ?? "").trimEnd();
  const start = from + (quoted === undefined ? 0 : 1);
  return title === "" ? null : { start, end: start + title.length };
}
