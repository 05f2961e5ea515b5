// Reads a DOCX file into elements: headings by style or outline level, lists, tables, and footnotes at the end. Deleted and hidden
// text is not read. Headers and footers are separate parts and are ignored.
import { type Element, isBlank, type Page, PageText, type Piece, type Reading } from "../elements.ts";
import type { Archive } from "./archive.ts";
import { isOn, neededPart, partOf, relationsOf } from "./office.ts";
import { asRaised } from "./raised.ts";
import { at, nodes, textOf, type XmlNode } from "./xml.ts";

interface Style {
  /** Heading level; 0 if the style is not a heading. */
  heading: number;
  numbering: XmlNode | undefined;
}

export async function readDocx(archive: Archive, main: string, name: string): Promise<Reading> {
  const document = await neededPart(archive, main, name);
  const relations = await relationsOf(archive, main, name);
  const related = async (type: string): Promise<XmlNode | null> => {
    const target = relations.find((relation) => relation.type === type)?.target;
    return target === undefined ? null : partOf(archive, target, name);
  };
  const [styles, numbering] = [stylesOf(await related("styles")), numberingOf(await related("numbering"))];
  const reader = new Body(styles, numbering);
  reader.blocks(at(document, "body"));
  // Notes with a type attribute are skipped. They are the separator lines between text and notes.
  for (const type of ["footnotes", "endnotes"])
    for (const note of nodes((await related(type)) ?? undefined))
      if (note.attributes.type === undefined) reader.note(note);
  return { pages: reader.pages, elements: reader.elements, warnings: [] };
}

function stylesOf(root: XmlNode | null): Map<string, Style> {
  const found = new Map<string, XmlNode>();
  for (const style of nodes(root ?? undefined))
    if (style.tag === "style" && style.attributes.styleId) found.set(style.attributes.styleId, style);
  const read = (id: string, seen: number): Style => {
    const style = found.get(id);
    if (!style || seen > 20) return { heading: 0, numbering: undefined };
    const base = read(at(style, "basedOn")?.attributes.val ?? "", seen + 1);
    const named = /^(?:heading (\d)|(title))$/i.exec(at(style, "name")?.attributes.val ?? "");
    const outline = at(style, "pPr", "outlineLvl")?.attributes.val;
    const own = named ? Number(named[1] ?? 1) : outline === undefined ? null : outlineLevel(outline);
    return { heading: own ?? base.heading, numbering: at(style, "pPr", "numPr") ?? base.numbering };
  };
  return new Map([...found.keys()].map((id) => [id, read(id, 0)]));
}

/** Converts an outline level (from 0) to a heading level (from 1). Returns 0 for the outline level 9, which means body text. */
const outlineLevel = (value: string): number => (Number(value) < 9 ? Number(value) + 1 : 0);

/** Returns a function that tells whether the items of a list (by id and level) are numbered, or null if they are not list items. */
function numberingOf(root: XmlNode | null): (id: string, level: number) => boolean | null {
  const abstract = new Map<string, XmlNode>();
  const instances = new Map<string, string>();
  for (const node of nodes(root ?? undefined)) {
    if (node.tag === "abstractNum") abstract.set(node.attributes.abstractNumId ?? "", node);
    if (node.tag === "num") instances.set(node.attributes.numId ?? "", at(node, "abstractNumId")?.attributes.val ?? "");
  }
  return (id, level) => {
    const list = abstract.get(instances.get(id) ?? "");
    if (!list) return null;
    const own = nodes(list).find((node) => node.tag === "lvl" && node.attributes.ilvl === String(level));
    const format = at(own, "numFmt")?.attributes.val ?? "bullet";
    return format === "none" ? null : format !== "bullet";
  };
}

class Body {
  readonly elements: Element[] = [];
  #texts = [new PageText(0)];
  #text = this.#texts[0]!;
  /** The page that refers to each footnote and endnote. */
  #noted = new Map<string, PageText>();
  #styles: Map<string, Style>;
  #isCounted: (id: string, level: number) => boolean | null;
  /** Number of items so far, by list and level. */
  #counts = new Map<string, number>();

  constructor(styles: Map<string, Style>, isCounted: (id: string, level: number) => boolean | null) {
    this.#styles = styles;
    this.#isCounted = isCounted;
  }

  /** Adds a footnote or endnote to the page that refers to it. */
  note(node: XmlNode): void {
    this.#text = this.#noted.get(`${node.tag} ${node.attributes.id}`) ?? this.#text;
    this.blocks(node);
  }

  /** Pages as the word processor last rendered them; null if the file does not mark them. */
  get pages(): Page[] | null {
    return this.#texts.length === 1 ? null : this.#texts.map((text) => ({ label: null, characters: text.characters }));
  }

  blocks(parent: XmlNode | undefined): void {
    for (const node of nodes(parent)) {
      if (node.tag === "p") this.#paragraph(node);
      else if (node.tag === "tbl") this.#table(node);
      else if (node.tag === "sdt") this.blocks(at(node, "sdtContent"));
      else if (/^(ins|moveTo|customXml|smartTag)$/.test(node.tag)) this.blocks(node);
    }
  }

  #paragraph(paragraph: XmlNode): void {
    const boxes: XmlNode[] = [];
    this.#text.part();
    const pieces = this.#runs(paragraph, boxes);
    if (!isBlank(pieces)) this.elements.push(this.#kindOf(paragraph, pieces));
    for (const box of boxes) this.blocks(box);
  }

  #kindOf(paragraph: XmlNode, pieces: Piece[]): Element {
    const properties = at(paragraph, "pPr");
    const style = this.#styles.get(at(properties, "pStyle")?.attributes.val ?? "");
    const outline = at(properties, "outlineLvl")?.attributes.val;
    const level = outline === undefined ? (style?.heading ?? 0) : outlineLevel(outline);
    if (level > 0) return { type: "heading", level, pieces };
    const numbering = at(properties, "numPr") ?? style?.numbering;
    const list = at(numbering, "numId")?.attributes.val ?? "0";
    const depth = Number(at(numbering, "ilvl")?.attributes.val ?? 0) || 0;
    const counted = this.#isCounted(list, depth);
    if (counted === null) return { type: "paragraph", pieces };
    return { type: "item", depth, mark: counted ? `${this.#count(list, depth)}.` : null, pieces };
  }

  /** Returns the number of the next item, and restarts the counts of deeper levels. */
  #count(list: string, depth: number): number {
    const key = `${list} ${depth}`;
    for (let below = depth + 1; below < 9; below++) this.#counts.delete(`${list} ${below}`);
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    return count;
  }

  /** Returns the text of a paragraph's runs. Text boxes are inside a run, but are collected in `boxes` and read after the paragraph. */
  #runs(parent: XmlNode, boxes: XmlNode[]): Piece[] {
    const pieces: Piece[] = [];
    for (const node of nodes(parent)) {
      if (node.tag === "t")
        pieces.push(this.#text.take(node.children.filter((child) => typeof child === "string").join("")));
      else if (node.tag === "tab" || node.tag === "ptab") pieces.push(this.#text.take("\t"));
      else if (node.tag === "br" || node.tag === "cr") pieces.push(this.#text.take("\n"));
      else if (node.tag === "lastRenderedPageBreak") {
        this.#text = new PageText(this.#texts.length);
        this.#texts.push(this.#text);
      } else if (node.tag === "footnoteReference" || node.tag === "endnoteReference")
        this.#noted.set(`${node.tag.replace("Reference", "")} ${node.attributes.id}`, this.#text);
      else if (node.tag === "noBreakHyphen") pieces.push(this.#text.take("-"));
      else if (node.tag === "txbxContent") boxes.push(node);
      else if (node.tag === "f" && at(node, "num")) {
        // A number before a fraction is the whole part of a mixed number, not a digit of the numerator.
        if (/\p{N}$/u.test(this.#text.last)) pieces.push(this.#text.take(" "));
        pieces.push(...this.#formula(node, "num", "/", "den", boxes));
      } else if (node.tag === "sSup") pieces.push(...this.#formula(node, "e", "^", "sup", boxes));
      else if (!skipped.has(node.tag) && !isOn(at(node, "rPr", "vanish"))) {
        const within = this.#runs(node, boxes);
        const isRaised = at(node, "rPr", "vertAlign")?.attributes.val === "superscript";
        pieces.push(...(isRaised ? asRaised(within, pieces.at(-1)?.text ?? "") : within));
      }
    }
    return pieces;
  }

  /** The text of two parts of a formula with the sign between them. A part of several terms is put in brackets. */
  #formula(node: XmlNode, left: string, sign: string, right: string, boxes: XmlNode[]): Piece[] {
    const part = (name: string): Piece[] => {
      const found = at(node, name);
      if (found === undefined) return [];
      if (/^[\p{L}\p{N}.,]*$/u.test(textOf(found).trim())) return this.#runs(found, boxes);
      return [this.#text.take("("), ...this.#runs(found, boxes), this.#text.take(")")];
    };
    return [...part(left), this.#text.take(sign), ...part(right)];
  }

  #table(table: XmlNode): void {
    let first = true;
    for (const row of partsOf(table, "tr")) {
      const cells: Piece[][] = [];
      for (const cell of partsOf(row, "tc")) {
        const properties = at(cell, "tcPr");
        const merge = at(properties, "vMerge");
        const goesOn = merge !== undefined && merge.attributes.val !== "restart";
        cells.push(goesOn ? [] : this.#cell(cell));
        const columns = Math.min(Number(at(properties, "gridSpan")?.attributes.val ?? 1) || 1, 100);
        for (let i = 1; i < columns; i++) cells.push([]);
      }
      if (cells.every(isBlank)) continue;
      this.elements.push({ type: "row", first, cells });
      first = false;
    }
  }

  /** The text of a cell. A text box follows its paragraph, and a nested table is read cell by cell. */
  #cell(parent: XmlNode): Piece[] {
    const pieces: Piece[] = [];
    for (const node of nodes(parent)) {
      if (node.tag === "p") {
        const boxes: XmlNode[] = [];
        pieces.push(this.#text.take("\n"), ...this.#runs(node, boxes));
        for (const box of boxes) pieces.push(...this.#cell(box));
      } else if (node.tag !== "tcPr") pieces.push(...this.#cell(node));
    }
    return pieces;
  }
}

const skipped = new Set(
  "pPr rPr del moveFrom Fallback instrText delText delInstrText fldData footnoteRef rt".split(" "),
);

/** The rows of a table or the cells of a row. A content control (sdt) can enclose some of them. */
const partsOf = (parent: XmlNode | undefined, tag: "tr" | "tc"): XmlNode[] =>
  nodes(parent).flatMap((node) =>
    node.tag === tag ? [node] : node.tag === "sdt" ? partsOf(at(node, "sdtContent"), tag) : [],
  );
