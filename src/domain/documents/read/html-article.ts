// Finds the article of a page by Readability, which tells it from what stands beside it.
import { Readability } from "@mozilla/readability";
import { parseHTML } from "linkedom";
import { type DefaultTreeAdapterTypes, defaultTreeAdapter, serialize } from "parse5";
import { attribute, isText, type Tag, textOf, visit } from "./html-tree.ts";

const mark = "data-plumbline-at";
/**
 * Minimum share of the body's text that an article has. If Readability keeps less, it has mistaken a part for the whole, as happens
 * with an index, a manual or a list of links.
 */
const leastShare = 0.5;

/**
 * The tags of the article in `body`, whose text is `readable`. Null if the page is not an article. Readability works on a copy in
 * which every tag has a number, so that the tags that it keeps can be found in the tree with source positions.
 */
export function articleOf(document: DefaultTreeAdapterTypes.Document, body: Tag, readable: string): Set<Tag> | null {
  const tags: Tag[] = [];
  visit(body, (tag) => {
    tag.attrs.push({ name: mark, value: String(tags.length) });
    tags.push(tag);
  });
  const unwrap = wrapTexts(tags);
  const copy = serialize(document);
  unwrap();
  for (const tag of tags) tag.attrs = tag.attrs.filter((one) => one.name !== mark);
  const parsed = new Readability<{
    querySelectorAll(selector: string): Iterable<{ getAttribute(name: string): string | null }>;
    textContent: string | null;
  }>(parseHTML(copy).document, { serializer: (node) => node as never }).parse();
  if (!parsed?.content) return null;
  const words = (text: string): number => text.replace(/\s+/g, "").length;
  if (words(parsed.content.textContent ?? "") < leastShare * words(readable)) return null;
  return new Set(
    [...parsed.content.querySelectorAll(`[${mark}]`)].map((found) => tags[Number(found.getAttribute(mark))]!),
  );
}

/** Minimum characters, and maximum share of them in links, for a block that Readability drops within an article to be read anyway. */
const [leastProse, mostLinked] = [100, 1 / 3];

const navigation =
  /(?:^|[\s_-])(?:[a-z]*nav(?:bar|igation|header|footer|links?)?|breadcrumbs?|pag(?:er|ination))(?:[\s_-]|$)/i;
/** A banner may also be a short notice, so most of its text has to be links. */
const banner = /(?:^|[\s_-])banner(?:[\s_-]|$)/i;
/** Blocks that a generator puts links to other pages into. */
const navigationTags = new Set(["div", "dl", "ol", "p", "section", "table", "td", "tr", "ul"]);

/**
 * Whether a block leads to other pages: it has the class or id that generators of manuals and sites give to such a block, a link to
 * another page, little text outside links, and no heading. A section about navigation has its heading's words as its id.
 */
export function isNavigation(block: Tag): boolean {
  if (!navigationTags.has(block.tagName)) return false;
  const names = [attribute(block, "class") ?? "", attribute(block, "id") ?? ""];
  const isBanner = names.some((name) => banner.test(name));
  if (!isBanner && !names.some((name) => navigation.test(name))) return false;
  let isHeaded = false;
  let leads = false;
  visit(block, (tag) => {
    isHeaded ||= /^h[1-6]$/.test(tag.tagName);
    leads ||= tag.tagName === "a" && /^[^#]/.test(attribute(tag, "href") ?? "");
  });
  const { length, linked } = linksOf(block);
  const rest = length - linked;
  return leads && !isHeaded && rest < leastProse && (!isBanner || rest <= linked);
}

/** Whether a block tells something and does not only link to other pages. Readability drops a box for its class, whatever it says. */
export function isProse(block: Tag): boolean {
  const { length, linked } = linksOf(block);
  return length >= leastProse && linked <= mostLinked * length;
}

/** Characters of a block, and those of them that stand in links. */
function linksOf(block: Tag): { length: number; linked: number } {
  const lengthOf = (tag: Tag): number => textOf(tag).replace(/\s+/g, " ").length;
  let linked = 0;
  visit(block, (tag) => {
    if (tag.tagName === "a" && attribute(tag, "href") !== null) linked += lengthOf(tag);
  });
  return { length: lengthOf(block), linked };
}

/**
 * Puts the text of each div into spans with the number of the div, until the returned function is called. Readability replaces such a div
 * by a paragraph without a number, and the text would then count as dropped.
 */
function wrapTexts(tags: readonly Tag[]): () => void {
  const changed = tags
    .filter(({ tagName, childNodes }) => tagName === "div" && childNodes.some(isText))
    .map((tag) => ({ tag, childNodes: tag.childNodes }));
  for (const { tag, childNodes } of changed) {
    const number = tag.attrs.filter(({ name }) => name === mark);
    tag.childNodes = childNodes.map((child) => {
      if (!isText(child)) return child;
      const span = defaultTreeAdapter.createElement("span", tag.namespaceURI, number);
      span.childNodes = [child];
      return span;
    });
  }
  return () => {
    for (const { tag, childNodes } of changed) tag.childNodes = childNodes;
  };
}
