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
const titled = /^title:[ \t]*(["']?)(\S.*?)\1[ \t]*$/dm;

/** Null if the text has none. A text may also begin with a rule, so all lines before the next rule have to be YAML. */
export function frontMatterOf(text: string): FrontMatter | null {
  const found = fenced.exec(text);
  if (found === null || !found[1]!.split("\n").every((line) => line === "" || yaml.test(line))) return null;
  const title = titled.exec(found[0])?.indices?.[2];
  return { end: found[0].length, title: title === undefined ? null : { start: title[0], end: title[1] } };
}
