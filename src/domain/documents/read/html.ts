// Reads HTML into elements. parse5 parses the HTML as browsers do and gives the source position of each text.
import {
  type DefaultTreeAdapterMap,
  type DefaultTreeAdapterTypes,
  defaultTreeAdapter,
  Parser,
  Token,
  TokenizerMode,
  type TreeAdapter,
} from "parse5";
import { Failure } from "../../../base/errors.ts";
import { normalised } from "../../../base/text.ts";
import { type Element, isBlank, type Piece, wordsOf } from "../elements.ts";
import { mostColumns } from "../limits.ts";
import { tooWide } from "../refusal.ts";
import { articleOf, isNavigation, isProse } from "./html-article.ts";
import { attribute, isTag, isText, type Node, type Tag, textOf, unread, visit } from "./html-tree.ts";
import { asRaised } from "./raised.ts";

/**
 * Reads one HTML page. Offsets count in `source`, the decoded text. `page` is the page's index in the document. `isPage` tells
 * whether the HTML was made for a browser; then what surrounds an article is dropped. Throws document_invalid, document_limit.
 */
export function readHtml(
  source: string,
  page: number,
  name: string,
  isPage = true,
): { title: string | null; elements: Element[] } {
  const parser = isXhtml.test(source) ? XhtmlParser : Parser;
  const document = parser.parse(source, { sourceCodeLocationInfo: true, treeAdapter: shallowTree(name) });
  const root = document.childNodes.find(isTag);
  const body = root?.childNodes.filter(isTag).find((tag) => tag.tagName === "body");
  const head = root?.childNodes.filter(isTag).find((tag) => tag.tagName === "head");
  if (!root || !body) throw new Failure("document_invalid", `${name} has no HTML body`);
  visit(body, (tag) => {
    if (tag.tagName === "tr" && tag.childNodes.filter(isTag).length > mostColumns) throw tooWide(name);
  });
  const main = mainPart(body);
  const article = isPage && main === body ? articleOf(document, body, readableText(body)) : null;
  const titleTag = head?.childNodes.filter(isTag).find((tag) => tag.tagName === "title");
  const title = titleTag ? textOf(titleTag).replace(/\s+/g, " ").trim() || null : null;
  const reader = new Reader(source, page, article, title, isPage);
  reader.block(main);
  reader.close();
  return { title, elements: reader.elements };
}

const isXhtml = /^\s*<\?xml\s|<html(?=\s)[^<>]*\sxmlns\s*=\s*["']http:\/\/www\.w3\.org\/1999\/xhtml["']/i;

/** Ends a tag at its slash, as XML does. In HTML, `<title/>` goes on to the end of the file. */
class XhtmlParser extends Parser<DefaultTreeAdapterMap> {
  override onStartTag(token: Token.TagToken): void {
    super.onStartTag(token);
    if (!token.selfClosing || token.ackSelfClosing) return;
    this.tokenizer.state = TokenizerMode.DATA;
    this.onEndTag({ ...token, type: Token.TokenType.END_TAG, attrs: [] });
  }
}

/** Maximum nesting depth, because the time for a page is quadratic in its depth. Browsers stop nesting at 512. */
const mostDepth = 1000;

function shallowTree(name: string): TreeAdapter<DefaultTreeAdapterMap> {
  let depth = 0;
  return {
    ...defaultTreeAdapter,
    onItemPush() {
      if (++depth > mostDepth)
        throw new Failure("document_limit", `${name} is nested too deeply; the limit is ${mostDepth} levels`);
    },
    onItemPop() {
      depth--;
    },
  };
}

const aside = new Set(["navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alert"]);

function isUnread(tag: Tag, within: Tag | null, isPage: boolean): boolean {
  if (unread.has(tag.tagName)) return true;
  if (aside.has(attribute(tag, "role") ?? "")) return true;
  if (attribute(tag, "hidden") !== null || attribute(tag, "aria-hidden") === "true") return true;
  if (/(^|;)\s*(display\s*:\s*none|visibility\s*:\s*hidden)/i.test(attribute(tag, "style") ?? "")) return true;
  // Link symbols that documentation generators put beside headings.
  if (tag.tagName === "a" && /(^|\s)(headerlink|anchor|heading-anchor)(\s|$)/.test(attribute(tag, "class") ?? ""))
    return true;
  if (isNoteMark(tag) || isNavigation(tag) || (tag.tagName === "label" && isInForm(tag))) return true;
  // A header, footer or aside of a whole page is not read. Those inside an article or a section, or of a book's chapter, are read.
  return isPage && /^(header|footer|aside)$/.test(tag.tagName) && (within === null || within.tagName === "body");
}

/** Whether a tag is the mark of a footnote: raised, and a link to a place. */
function isNoteMark(tag: Tag): boolean {
  const isLink = ({ tagName, attrs }: Tag): boolean =>
    tagName === "a" && attrs.some(({ name, value }) => name === "href" && value.includes("#"));
  const [only, ...others] = tag.childNodes.filter((node) => isTag(node) || isText(node));
  if (only === undefined || !isTag(only) || others.length > 0) return false;
  return (tag.tagName === "sup" && isLink(only)) || (isLink(tag) && only.tagName === "sup");
}

/** Whether a tag is in a form, where a label names a control. */
function isInForm({ parentNode }: Tag): boolean {
  for (let above = parentNode; above !== null && isTag(above); above = above.parentNode)
    if (above.tagName === "form") return true;
  return false;
}

/** The part that the page marks as main, if there is exactly one and it has text. Otherwise the whole body. */
function mainPart(body: Tag): Tag {
  const found: Tag[] = [];
  visit(body, (tag) => {
    if (tag.tagName === "main" || attribute(tag, "role") === "main") found.push(tag);
  });
  return found.length === 1 && textOf(found[0]!).trim() !== "" ? found[0]! : body;
}

function readableText(body: Tag): string {
  const reader = new Reader("", 0, null, null, true);
  reader.block(body);
  reader.close();
  return reader.elements
    .map((element) => (element.type === "row" ? element.cells.flat() : element.pieces))
    .map(wordsOf)
    .join("");
}

const blockTags = new Set(
  "address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr legend li main ol p pre section summary table tbody td tfoot th thead tr ul caption".split(
    " ",
  ),
);

/** Whether a line break ends a line that is bold as a whole and begins a paragraph: the title of what follows. */
function endsTitle(lineBreak: Tag): boolean {
  let hasTitle = false;
  for (const node of lineBreak.parentNode?.childNodes ?? []) {
    if (node === lineBreak) break;
    if (!isTag(node) && (!("value" in node) || node.value.trim() === "")) continue;
    if (hasTitle || !isTag(node) || !/^(?:b|strong)$/.test(node.tagName)) return false;
    hasTitle = true;
  }
  return hasTitle;
}

interface Item {
  depth: number;
  mark: string | null;
}

/** Walks a tree and collects elements. The text of an element ends where a block begins or ends. */
class Reader {
  readonly elements: Element[] = [];
  #source: string;
  #page: number;
  #article: Set<Tag> | null;
  /** The normalised words of the page's title. */
  #title: string;
  #isPage: boolean;
  #pieces: Piece[] = [];
  #lists: { counts: number | null }[] = [];
  /** What the next text becomes: a list item, or a heading of this level. A paragraph if both are null. */
  #item: Item | null = null;
  #heading: number | null = null;

  constructor(source: string, page: number, article: Set<Tag> | null, title: string | null, isPage: boolean) {
    this.#source = source;
    this.#page = page;
    this.#article = article;
    this.#title = normalised(title ?? "");
    this.#isPage = isPage;
  }

  close(): void {
    const pieces = this.#pieces;
    this.#pieces = [];
    if (isBlank(pieces)) return;
    if (this.#heading !== null) this.elements.push({ type: "heading", level: this.#heading, pieces });
    else if (this.#item !== null) this.elements.push({ type: "item", ...this.#item, pieces });
    else this.elements.push({ type: "paragraph", pieces });
    this.#item = null;
  }

  block(tag: Tag, within: Tag | null = null, wanted = true): void {
    const inner = /^(body|article|section|main)$/.test(tag.tagName) ? tag : within;
    const only = tag.childNodes.filter(isTag).length === 1;
    for (const [index, child] of tag.childNodes.entries()) {
      if ("value" in child) {
        if (wanted) this.#take(child);
      } else if (isTag(child) && !isUnread(child, inner, this.#isPage)) {
        const isBlock = blockTags.has(child.tagName);
        // Readability merges a block into its only child, which then carries the block's number. It also drops the
        // page's main heading, which it takes for the title.
        const isKept = this.#article === null || this.#article.has(child) || this.#isMainHeading(child);
        const kept = isKept || (wanted && (only || !isBlock));
        // A box that is read although Readability drops it is read whole, as if the page were no article.
        const isBox = !kept && wanted && isProse(child);
        const article = this.#article;
        if (isBox) this.#article = null;
        const from = this.#pieces.length;
        this.#tag(child, inner, kept || isBox, isBlock);
        if (child.tagName === "sup") raise(this.#pieces, from, isNumerator(tag.childNodes, index));
        this.#article = article;
      }
    }
  }

  /** Whether a tag is the page's main heading: an h1, or an h2 whose words are in the page's title. */
  #isMainHeading(tag: Tag): boolean {
    if (tag.tagName !== "h2") return tag.tagName === "h1";
    const words = normalised(textOf(tag));
    return words !== "" && this.#title.includes(words);
  }

  #tag(tag: Tag, within: Tag | null, wanted: boolean, isBlock: boolean): void {
    const name = tag.tagName;
    if (!isBlock) {
      if (name === "br" && wanted && this.#heading === null && this.#item === null && endsTitle(tag)) this.close();
      else if (name === "br" && wanted) this.#space(tag);
      this.block(tag, within, wanted);
      return;
    }
    this.close();
    if (name === "pre") {
      if (wanted) this.#code(tag);
    } else if (name === "table" && isData(tag)) {
      if (wanted) this.#table(tag);
    } else if (/^h[1-6]$/.test(name)) {
      this.#heading = Number(name[1]);
      this.block(tag, within, wanted);
      this.close();
      this.#heading = null;
    } else if (name === "ul" || name === "ol") {
      this.#lists.push({ counts: name === "ol" ? Number.parseInt(attribute(tag, "start") ?? "1", 10) || 1 : null });
      this.block(tag, within, wanted);
      this.close();
      this.#lists.pop();
    } else if (name === "li") {
      const list = this.#lists.at(-1);
      const mark = list?.counts == null ? null : `${list.counts++}.`;
      this.#item = { depth: Math.max(0, this.#lists.length - 1), mark };
      this.block(tag, within, wanted);
      this.close();
      this.#item = null;
    } else this.block(tag, within, wanted);
    this.close();
  }

  #take(node: DefaultTreeAdapterTypes.TextNode): void {
    for (const piece of this.#piecesOf(node)) this.#pieces.push(piece);
  }

  #space(tag: Tag): void {
    this.#pieces.push({ text: "\n", page: this.#page, start: tag.sourceCodeLocation?.startOffset ?? 0 });
  }

  /** The text of a node, split at entities into pieces with their source positions. */
  #piecesOf(node: DefaultTreeAdapterTypes.TextNode): Piece[] {
    const page = this.#page;
    const start = node.sourceCodeLocation?.startOffset ?? 0;
    const written = this.#source.slice(start, node.sourceCodeLocation?.endOffset ?? start);
    const { value } = node;
    // The source may begin with a line feed that the value lacks, because the parser drops one right after <pre>.
    if (written.endsWith(value)) return [{ text: value, page, start: start + written.length - value.length }];
    if (written.length === value.length) return [{ text: value, page, start }];
    const pieces: Piece[] = [];
    let at = 0;
    let read = 0;
    for (const { 0: entity, index } of [
      ...written.matchAll(/&[^\s;&<]{1,32};?|\r\n/g),
      { 0: "", index: written.length },
    ]) {
      const plain = written.slice(at, index);
      const found = plain === "" ? read : value.indexOf(plain, read);
      // The value differs from the source because the parser moved text. The whole value gets the node's start.
      if (found < 0 || found - read > 4) return [{ text: value, page, start }];
      if (found > read) pieces.push({ text: value.slice(read, found), page, start: start + at - 1 });
      if (plain !== "") pieces.push({ text: plain, page, start: start + at });
      read = found + plain.length;
      at = index + entity.length;
    }
    if (read < value.length) pieces.push({ text: value.slice(read), page, start: start + written.length - 1 });
    return pieces;
  }

  #code(tag: Tag): void {
    const pieces = this.#textsIn(tag);
    if (!isBlank(pieces)) this.elements.push({ type: "code", pieces: trimLines(pieces) });
  }

  #textsIn(tag: Tag): Piece[] {
    const pieces: Piece[] = [];
    const walk = (node: Tag): void => {
      for (const [index, child] of node.childNodes.entries()) {
        if ("value" in child) for (const piece of this.#piecesOf(child)) pieces.push(piece);
        else if (isTag(child) && child.tagName === "br")
          pieces.push({ text: "\n", page: this.#page, start: child.sourceCodeLocation?.startOffset ?? 0 });
        else if (isTag(child) && !isUnread(child, node, this.#isPage)) {
          const from = pieces.length;
          walk(child);
          if (child.tagName === "sup") raise(pieces, from, isNumerator(node.childNodes, index));
          // Blocks in a cell separate words as line ends do.
          const end = child.sourceCodeLocation?.endOffset;
          if (blockTags.has(child.tagName) && end !== undefined)
            pieces.push({ text: " ", page: this.#page, start: end });
        }
      }
    };
    walk(tag);
    return pieces;
  }

  #table(table: Tag): void {
    for (const caption of table.childNodes.filter(isTag).filter((tag) => tag.tagName === "caption")) {
      this.block(caption);
      this.close();
    }
    /** Number of further rows that a cell above spans, by column. */
    const reaching: number[] = [];
    let first = true;
    for (const row of rowsOf(table)) {
      const cells: Piece[][] = [];
      for (const cell of row.childNodes.filter(isTag).filter((tag) => /^t[dh]$/.test(tag.tagName))) {
        while ((reaching[cells.length] ?? 0) > 0) {
          reaching[cells.length]!--;
          cells.push([]);
        }
        const [columns, rows] = [spanOf(cell, "colspan"), spanOf(cell, "rowspan")];
        for (let i = 0; i < columns; i++) {
          reaching[cells.length] = rows - 1;
          cells.push(i === 0 ? this.#textsIn(cell) : []);
        }
      }
      // A cell above can also span columns to the right of the row's last cell.
      for (let column = cells.length; column < reaching.length; column++)
        reaching[column] = Math.max(0, (reaching[column] ?? 0) - 1);
      if (cells.every(isBlank)) continue;
      this.elements.push({ type: "row", first, cells });
      first = false;
    }
  }
}

/**
 * Writes the pieces from index `from`, which are raised, so that they are told from what stands before them. `overStroke`: whether they
 * are the numerator of a fraction.
 */
function raise(pieces: Piece[], from: number, overStroke: boolean): void {
  const before = pieces[from - 1]?.text ?? "";
  const raised = pieces.splice(from);
  if (!overStroke) pieces.push(...asRaised(raised, before));
  // A number before a fraction is the whole part of a mixed number, not a digit of the numerator.
  else if (raised[0] !== undefined && /\p{N}$/u.test(before)) pieces.push({ ...raised[0], text: " " }, ...raised);
  else pieces.push(...raised);
}

/** Whether a raised text is the numerator of a fraction: a stroke and a lowered text follow it. */
function isNumerator(siblings: readonly Node[], index: number): boolean {
  const [stroke, below] = [siblings[index + 1], siblings[index + 2]];
  if (stroke === undefined || !isText(stroke)) return false;
  if (/^\s*\u2044/.test(stroke.value)) return true;
  return /^\s*\/\s*$/.test(stroke.value) && below !== undefined && isTag(below) && below.tagName === "sub";
}

const spanOf = (cell: Tag, name: string): number => Math.min(Math.max(Number(attribute(cell, name)) || 1, 1), 100);

function rowsOf(table: Tag): Tag[] {
  return table.childNodes.filter(isTag).flatMap((tag) => {
    if (tag.tagName === "tr") return [tag];
    return /^t(head|body|foot)$/.test(tag.tagName)
      ? tag.childNodes.filter(isTag).filter((row) => row.tagName === "tr")
      : [];
  });
}

/** Whether a table holds data: it has rows of several cells and no nested table. Other tables only lay out the page. */
function isData(table: Tag): boolean {
  let tables = 0;
  visit(table, (tag) => {
    if (tag.tagName === "table") tables++;
  });
  const widths = rowsOf(table).map((row) => row.childNodes.filter(isTag).length);
  return tables === 1 && widths.some((width) => width > 1);
}

/** Removes blank lines at both ends. */
function trimLines(pieces: Piece[]): Piece[] {
  const kept = pieces.filter((piece) => piece.text !== "");
  while (kept.length > 0) {
    const lead = /^(?:[ \t]*\r?\n)*/.exec(kept[0]!.text)![0].length;
    kept[0] = { ...kept[0]!, text: kept[0]!.text.slice(lead), start: kept[0]!.start + lead };
    if (kept[0].text !== "") break;
    kept.shift();
  }
  while (kept.length > 0) {
    const last = kept.at(-1)!;
    kept[kept.length - 1] = { ...last, text: last.text.trimEnd() };
    if (kept.at(-1)!.text !== "") break;
    kept.pop();
  }
  return kept;
}
