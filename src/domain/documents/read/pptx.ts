// Reads a PPTX file into elements. Each slide is a page. Titles become headings, bulleted paragraphs become items, and tables
// become rows. Notes follow their slide. Slide numbers, dates and footers are left out.
import { Failure } from "../../../base/errors.ts";
import { type Element, isBlank, type Page, PageText, type Piece, type Reading } from "../elements.ts";
import { mostPages } from "../limits.ts";
import type { Archive } from "./archive.ts";
import { neededPart, partOf, relationsOf } from "./office.ts";
import { all, at, nodes, type XmlNode } from "./xml.ts";

export async function readPptx(archive: Archive, main: string, name: string): Promise<Reading> {
  const presentation = await neededPart(archive, main, name);
  const targets = new Map((await relationsOf(archive, main, name)).map(({ id, target }) => [id, target]));
  const elements: Element[] = [];
  const pages: Page[] = [];
  const slides = nodes(at(presentation, "sldIdLst"));
  if (slides.length > mostPages)
    throw new Failure("too_many_pages", `${name} has ${slides.length} slides; the limit is ${mostPages}`);
  for (const listed of slides) {
    const part = targets.get(listed.attributes["r:id"] ?? "");
    if (part === undefined) continue;
    const text = new PageText(pages.length);
    elements.push(...slide(at(await neededPart(archive, part, name), "cSld", "spTree"), text));
    const notes = (await relationsOf(archive, part, name)).find(({ type }) => type === "notesSlide");
    const noted = notes && (await partOf(archive, notes.target, name));
    if (noted) elements.push(...slide(at(noted, "cSld", "spTree"), text));
    pages.push({ label: null, characters: text.characters });
  }
  return { pages, elements, warnings: [] };
}

const leftOut = new Set(["sldNum", "dt", "ftr", "hdr", "sldImg"]);
const placeholderOf = (shape: XmlNode): XmlNode | undefined => at(shape, "nvSpPr", "nvPr", "ph");
const isTitle = (shape: XmlNode): boolean => /^(title|ctrTitle)$/.test(placeholderOf(shape)?.attributes.type ?? "");

function slide(tree: XmlNode | undefined, text: PageText): Element[] {
  // The title is read first, wherever it is drawn.
  const shapes = nodes(tree).toSorted((a, b) => Number(isTitle(b)) - Number(isTitle(a)));
  return shapes.flatMap((shape): Element[] => {
    if (shape.tag === "grpSp") return slide(shape, text);
    if (shape.tag === "AlternateContent") return slide(at(shape, "Choice"), text);
    if (shape.tag === "graphicFrame") return [...all(shape, "tbl")].flatMap((table) => rows(table, text));
    return shape.tag === "sp" ? shapeText(shape, text) : [];
  });
}

function shapeText(shape: XmlNode, text: PageText): Element[] {
  const placeholder = placeholderOf(shape);
  if (leftOut.has(placeholder?.attributes.type ?? "")) return [];
  const paragraphs = nodes(at(shape, "txBody")).filter((node) => node.tag === "p");
  if (isTitle(shape)) {
    const pieces = paragraphs.flatMap((paragraph) => runs(paragraph, text));
    return isBlank(pieces) ? [] : [{ type: "heading", level: 2, pieces }];
  }
  const written = paragraphs
    .map((paragraph) => ({ paragraph, pieces: runs(paragraph, text) }))
    .filter(({ pieces }) => !isBlank(pieces));
  // The layout puts bullets on the paragraphs of a content placeholder, unless a paragraph switches them off. A single
  // paragraph is taken for a sentence.
  const isList =
    placeholder !== undefined && !/^(subTitle|body)$/.test(placeholder.attributes.type ?? "obj") && written.length > 1;
  return written.map(({ paragraph, pieces }): Element => {
    const properties = at(paragraph, "pPr");
    const own = at(properties, "buChar") ?? at(properties, "buAutoNum");
    const none = at(properties, "buNone");
    if (!own && (none || !isList)) return { type: "paragraph", pieces };
    return { type: "item", depth: Number(properties?.attributes.lvl ?? 0) || 0, mark: null, pieces };
  });
}

function runs(paragraph: XmlNode, text: PageText): Piece[] {
  text.part();
  return nodes(paragraph).flatMap((node): Piece[] => {
    if (node.tag === "br") return [text.take("\n")];
    if (node.tag !== "r" && node.tag !== "fld") return [];
    return nodes(node)
      .filter((part) => part.tag === "t")
      .map((part) => text.take(part.children.filter((child) => typeof child === "string").join("")));
  });
}

function rows(table: XmlNode, text: PageText): Element[] {
  return nodes(table)
    .filter((node) => node.tag === "tr")
    .map((row, index) => ({
      type: "row",
      first: index === 0,
      cells: nodes(row)
        .filter((node) => node.tag === "tc")
        .map((cell) =>
          nodes(at(cell, "txBody"))
            .filter((node) => node.tag === "p")
            .flatMap((paragraph) => [text.take(" "), ...runs(paragraph, text)]),
        ),
    }));
}
