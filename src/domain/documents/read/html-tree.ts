// The parts of parse5's tree that reading HTML works on.
import type { DefaultTreeAdapterTypes } from "parse5";

export type Node = DefaultTreeAdapterTypes.ChildNode;
export type Tag = DefaultTreeAdapterTypes.Element;

export const isTag = (node: Node | DefaultTreeAdapterTypes.Node): node is Tag => "tagName" in node;
/** Whether a node is text that is not blank. */
export const isText = (node: Node): node is DefaultTreeAdapterTypes.TextNode =>
  node.nodeName === "#text" && /\S/.test((node as DefaultTreeAdapterTypes.TextNode).value);
export const attribute = (tag: Tag, name: string): string | null =>
  tag.attrs.find((one) => one.name === name)?.value ?? null;

/** Tags whose content is never shown, or is not meant for reading. */
export const unread = new Set(
  "head script style noscript template svg math iframe object embed button select textarea input nav audio video canvas dialog menu map rt rp".split(
    " ",
  ),
);

/** Calls `look` with the tag and every tag below it, in the order of the page. */
export function visit(tag: Tag, look: (tag: Tag) => void): void {
  const open: Tag[] = [tag];
  while (open.length > 0) {
    const next = open.pop()!;
    look(next);
    // A call can have only about a hundred thousand arguments, and a tag more children.
    for (const child of next.childNodes.toReversed()) if (isTag(child)) open.push(child);
  }
}

/** The text within a tag, without what is never read. */
export function textOf(tag: Tag): string {
  let text = "";
  const open: Node[] = [tag];
  while (open.length > 0) {
    const next = open.pop()!;
    if ("value" in next) text += next.value;
    else if (isTag(next) && (next === tag || !unread.has(next.tagName)))
      for (const child of next.childNodes.toReversed()) open.push(child);
  }
  return text;
}
