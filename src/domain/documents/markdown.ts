// Finds the blocks of a Markdown text. Table rows are not split into cells, because cells are not needed here and the library
// takes quadratic time for them.
import type { Nodes, Parents } from "mdast";
import { type Extension, fromMarkdown } from "mdast-util-from-markdown";
import { gfmTable } from "micromark-extension-gfm-table";
import { Failure } from "../../base/errors.ts";
import type { PlainBlock } from "./chunk.ts";
import { frontMatterOf } from "./front-matter.ts";
import { mostColumns, mostDepth } from "./limits.ts";
import { tooWide } from "./refusal.ts";

/** The table extension without the part that splits a row into cells. */
const [table] = [gfmTable().flow!.null!].flat();
const rowsAlone = { flow: { null: { name: "table", tokenize: table!.tokenize } } };

/** Makes a table node contain only the header row. The other rows become nodes beside it. */
const rowsAsNodes: Extension = {
  enter: {
    tableHead(token) {
      this.enter({ type: "table", children: [] }, token);
    },
    tableRow(token) {
      this.enter({ type: "tableRow", children: [] }, token);
    },
  },
  exit: {
    tableHead(token) {
      this.exit(token);
    },
    tableRow(token) {
      this.exit(token);
    },
  },
};

/**
 * Returns the blocks in order. The title of the front matter is a heading if the text has none of the first level. `name` is the file's
 * name. Throws document_limit.
 */
export function markdownBlocks(text: string, name: string): PlainBlock[] {
  const matter = frontMatterOf(text);
  if (matter === null) return blocksOf(text, name);
  // Spaces in place of the front matter keep the offsets.
  const blocks = blocksOf(text.slice(0, matter.end).replace(/[^\n]/g, " ") + text.slice(matter.end), name);
  if (matter.title === null || blocks.some(({ type, level }) => type === "heading" && level === 1)) return blocks;
  return [{ type: "heading", level: 1, ...matter.title }, ...blocks];
}

function blocksOf(text: string, name: string): PlainBlock[] {
  checkDepth(text, name);
  const blocks: PlainBlock[] = [];
  const add = (type: PlainBlock["type"], level: number, node: Nodes): void => {
    const [start, end] = [node.position?.start.offset ?? 0, node.position?.end.offset ?? 0];
    const written = text.slice(start, end);
    if (type === "row" && written.split("|").length - 1 > mostColumns) throw tooWide(name);
    if (written.trim() !== "") blocks.push({ type, level, start, end });
  };
  const walk = (node: Nodes, inItem: boolean): void => {
    if (node.type === "heading") blocks.push(...inside(text, node, "heading", node.depth));
    else if (node.type === "table") for (const row of node.children) add("row", 1, row);
    else if (node.type === "tableRow") add("row", 2, node);
    else if (node.type === "paragraph") add(inItem ? "item" : "paragraph", 0, node);
    else if (node.type === "code" || node.type === "html") add("code", 0, node);
    else if ("children" in node) for (const child of node.children) walk(child, inItem || node.type === "listItem");
  };
  walk(fromMarkdown(text, { extensions: [rowsAlone], mdastExtensions: [rowsAsNodes] }), false);
  return blocks;
}

/** The block of a node's words, without the Markdown marks around them. Empty if there are no words. */
function inside(text: string, node: Parents, type: PlainBlock["type"], level: number): PlainBlock[] {
  const start = node.children[0]?.position?.start.offset;
  const end = node.children.at(-1)?.position?.end.offset;
  if (start === undefined || end === undefined || text.slice(start, end).trim() === "") return [];
  return [{ type, level, start, end }];
}

/** Matches the mark of a list item, which a space, a tab or the line's end must follow. */
const itemMark = /(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)/y;

/**
 * Throws document_limit for lists and quotations nested too deeply. The check comes before the library reads the text, because for
 * every line the library takes time quadratic in the depth.
 */
function checkDepth(text: string, name: string): void {
  /** Columns of the marks of the open lists, outermost first. */
  const lists: number[] = [];
  for (const line of text.split("\n")) {
    const end = ruleIn(line);
    let quotations = 0;
    let column = 0;
    for (let at = 0; at < end; ) {
      const sign = line[at]!;
      if (sign === " " || sign === "\t") column += sign === "\t" ? 4 - (column % 4) : 1;
      else if (sign === ">") {
        quotations++;
        column++;
      } else {
        itemMark.lastIndex = at;
        const mark = itemMark.exec(line)?.[0].length;
        if (mark === undefined) break;
        // A nested item is indented further than its parent.
        while (lists.length > 0 && lists.at(-1)! > column - 2) lists.pop();
        lists.push(column);
        column += mark;
        at += mark - 1;
      }
      at++;
      if (quotations + lists.length > mostDepth)
        throw new Failure("document_limit", `${name} is nested too deeply; the limit is ${mostDepth} levels`);
    }
  }
}

/**
 * Index at which a thematic break at the end of a line begins; the line's length if there is none. The marks of a thematic break
 * may have spaces between them, but are not list items.
 */
function ruleIn(line: string): number {
  const sign = line.trimEnd().at(-1);
  if (sign === undefined || !"*-_".includes(sign)) return line.length;
  let from = line.length;
  let signs = 0;
  for (let at = line.length - 1; at >= 0 && (line[at] === sign || line[at] === " " || line[at] === "\t"); at--)
    if (line[at] === sign) {
      from = at;
      signs++;
    }
  return signs >= 3 ? from : line.length;
}
