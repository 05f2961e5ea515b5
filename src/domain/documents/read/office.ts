// Reads what Office files have in common: parts that refer to each other by relations.
import { Failure } from "../../../base/errors.ts";
import type { Archive } from "./archive.ts";
import { nodes, parseXml, type XmlNode } from "./xml.ts";

export type OfficeFormat = "docx" | "pptx" | "xlsx";

const kinds: [RegExp, OfficeFormat][] = [
  [/wordprocessingml\.(document|template)\.main\+xml|ms-word\.(document|template)\.macroEnabled\.main\+xml/i, "docx"],
  [
    /presentationml\.(presentation|slideshow|template)\.main\+xml|ms-powerpoint\.[a-z]+\.macroEnabled\.main\+xml/i,
    "pptx",
  ],
  [/spreadsheetml\.(sheet|template)\.main\+xml|ms-excel\.(sheet|template)\.macroEnabled\.main\+xml/i, "xlsx"],
];

export interface OfficeFile {
  format: OfficeFormat;
  /** Name of the main part. */
  main: string;
}

/** Finds the format and the main part in the list of content types. Null if the archive is not a supported Office file. */
export async function officeFile(archive: Archive, name: string): Promise<OfficeFile | null> {
  const types = await partOf(archive, "[Content_Types].xml", name);
  for (const { tag, attributes } of nodes(types ?? undefined)) {
    const found = kinds.find(([pattern]) => pattern.test(attributes.ContentType ?? ""));
    if (tag === "Override" && found && attributes.PartName)
      return { format: found[1], main: attributes.PartName.slice(1) };
  }
  return null;
}

export async function partOf(archive: Archive, part: string, name: string): Promise<XmlNode | null> {
  const bytes = await archive.read(part);
  return bytes === null ? null : parseXml(bytes, `${name}: ${part}`);
}

export async function neededPart(archive: Archive, part: string, name: string): Promise<XmlNode> {
  const root = await partOf(archive, part, name);
  if (root === null) throw new Failure("document_invalid", `${name} lacks its part ${part}`);
  return root;
}

export interface Relation {
  id: string;
  /** The last segment of the relation's type, such as "slide" or "notesSlide". */
  type: string;
  /** Name of a part of the archive. */
  target: string;
}

/** The relations of a part, without those that lead out of the archive. */
export async function relationsOf(archive: Archive, part: string, name: string): Promise<Relation[]> {
  const slash = part.lastIndexOf("/");
  const folder = part.slice(0, slash + 1);
  const root = await partOf(archive, `${folder}_rels/${part.slice(slash + 1)}.rels`, name);
  return nodes(root ?? undefined)
    .filter(({ attributes }) => attributes.TargetMode !== "External" && attributes.Target !== undefined)
    .map(({ attributes: { Id = "", Type = "", Target = "" } }) => ({
      id: Id,
      type: Type.slice(Type.lastIndexOf("/") + 1),
      target: resolvePart(folder, Target),
    }));
}

/** Resolves a target to a path in the archive, relative to the folder of the part that names it. */
export function resolvePart(folder: string, target: string): string {
  const path: string[] = [];
  for (const step of (target.startsWith("/") ? target : folder + target).split("/")) {
    if (step === "..") path.pop();
    else if (step !== "" && step !== ".") path.push(step);
  }
  return path.join("/");
}

/** Whether a property is on. `<w:b/>` and `<w:b w:val="1"/>` are on; `<w:b w:val="0"/>` and a missing node are off. */
export const isOn = (node: XmlNode | undefined): boolean =>
  node !== undefined && !/^(0|false|off|none)$/.test(node.attributes.val ?? "1");
