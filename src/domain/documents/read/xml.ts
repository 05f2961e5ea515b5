// Parses the XML of documents. It must be well-formed, may use only the five entities that XML defines, and may be nested only up to
// a limit.
import { SaxesParser } from "saxes";
import { Failure } from "../../../base/errors.ts";
import { decode } from "../charset.ts";

export interface XmlNode {
  /** The name without its prefix. */
  tag: string;
  /** Keyed by local name, and also by full name, such as `r:id`. */
  attributes: Record<string, string>;
  children: (XmlNode | string)[];
}

const mostDepth = 500;
const local = (name: string): string => name.slice(name.indexOf(":") + 1);

/**
 * Returns the root element. Elements named `each` are passed to `use` when they end and are not kept, so that a large sheet is never
 * held as a whole. Throws entities_refused, document_limit, document_invalid, document_type.
 */
export function parseXml(bytes: Uint8Array, name: string, each?: string, use?: (node: XmlNode) => void): XmlNode {
  const parser = new SaxesParser();
  const root: XmlNode = { tag: "", attributes: {}, children: [] };
  const open: XmlNode[] = [root];
  parser.on("doctype", (doctype) => {
    if (/<!ENTITY/i.test(doctype)) throw new Failure("entities_refused", `${name} declares its own entities`);
  });
  parser.on("opentag", ({ name: full, attributes }) => {
    const found: Record<string, string> = {};
    for (const [key, value] of Object.entries(attributes)) {
      found[local(key)] ??= value;
      found[key] = value;
    }
    const node: XmlNode = { tag: local(full), attributes: found, children: [] };
    if (open.length > mostDepth)
      throw new Failure("document_limit", `${name} is nested too deeply; the limit is ${mostDepth} levels`);
    open.at(-1)!.children.push(node);
    open.push(node);
  });
  parser.on("closetag", () => {
    const node = open.pop()!;
    if (node.tag !== each) return;
    open.at(-1)!.children.pop();
    use?.(node);
  });
  const text = (value: string): void => void open.at(-1)!.children.push(value);
  parser.on("text", text);
  parser.on("cdata", text);
  parser.on("error", (error) => {
    throw new Failure("document_invalid", `${name} is damaged: ${error.message}`, { cause: error });
  });
  parser.write(decode(bytes, name, declared(bytes))).close();
  return root.children.find((child) => typeof child !== "string")!;
}

function declared(bytes: Uint8Array): string | null {
  const head = Buffer.from(bytes.subarray(0, 200)).toString("latin1");
  return /^<\?xml[^>]*\sencoding\s*=\s*["']([\w.-]+)["']/.exec(head)?.[1] ?? null;
}

export const nodes = (node: XmlNode | undefined): XmlNode[] =>
  node?.children.filter((child): child is XmlNode => typeof child !== "string") ?? [];

/** Follows a path of names down from `node`, each time to the first child with the name. Undefined if there is none. */
export function at(node: XmlNode | undefined, ...path: string[]): XmlNode | undefined {
  let found = node;
  for (const tag of path) found = nodes(found).find((child) => child.tag === tag);
  return found;
}

/** All elements named `tag` below `node`, in document order. */
export function* all(node: XmlNode | undefined, tag: string): Generator<XmlNode> {
  for (const child of nodes(node)) {
    if (child.tag === tag) yield child;
    yield* all(child, tag);
  }
}

export const textOf = (node: XmlNode | undefined): string =>
  node?.children.map((child) => (typeof child === "string" ? child : textOf(child))).join("") ?? "";
