// Reads an EPUB into elements: the chapters of the spine in order, each a page. The book's table of contents is left out, because
// the headings say the same.
import { Failure } from "../../../base/errors.ts";
import { decode } from "../charset.ts";
import type { Element, Page, Reading } from "../elements.ts";
import { mostPages } from "../limits.ts";
import type { Archive } from "./archive.ts";
import { readHtml } from "./html.ts";
import { neededPart, partOf, resolvePart } from "./office.ts";
import { all, at, nodes } from "./xml.ts";

export async function readEpub(archive: Archive, name: string): Promise<Reading> {
  const locked = await partOf(archive, "META-INF/encryption.xml", name);
  // Only obfuscated fonts are accepted; any other encryption is refused.
  for (const method of all(locked ?? undefined, "EncryptionMethod"))
    if (!/obfuscation|#RC$/i.test(method.attributes.Algorithm ?? ""))
      throw new Failure("document_encrypted", `${name} is encrypted`);
  const [root] = [...all(await neededPart(archive, "META-INF/container.xml", name), "rootfile")];
  const packagePart = root?.attributes["full-path"];
  if (packagePart === undefined)
    throw new Failure("document_invalid", `${name} is damaged: its container.xml names no package file`);
  const book = await neededPart(archive, packagePart, name);
  const folder = packagePart.slice(0, packagePart.lastIndexOf("/") + 1);
  const manifest = new Map(nodes(at(book, "manifest")).map(({ attributes }) => [attributes.id ?? "", attributes]));
  const elements: Element[] = [];
  const pages: Page[] = [];
  const spine = nodes(at(book, "spine"));
  if (spine.length > mostPages)
    throw new Failure("too_many_pages", `${name} has ${spine.length} chapters; the limit is ${mostPages}`);
  for (const { attributes } of spine) {
    const item = manifest.get(attributes.idref ?? "");
    if (!item?.href || attributes.linear === "no" || /(^|\s)nav(\s|$)/.test(item.properties ?? "")) continue;
    if (!/^(application\/xhtml\+xml|text\/html)$/.test(item["media-type"] ?? "")) continue;
    const part = resolvePart(folder, decodeURI(item.href));
    const bytes = await archive.read(part);
    if (bytes === null) throw new Failure("document_invalid", `${name} lacks its chapter ${part}`);
    const chapter = readHtml(decode(bytes, `${name}: ${part}`), pages.length, `${name}: ${part}`, false);
    for (const element of chapter.elements) elements.push(element);
    const characters = chapter.elements.reduce(
      (sum, element) =>
        sum +
        (element.type === "row" ? element.cells.flat() : element.pieces).reduce((n, piece) => n + piece.text.length, 0),
      0,
    );
    pages.push({ label: chapter.title ?? part, characters });
  }
  return { pages, elements, warnings: [] };
}
