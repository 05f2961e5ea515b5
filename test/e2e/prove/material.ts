// What is learned in the proofs: a fictional company, the demo's one, and acronyms of Debian's dict-vera (GFDL, fetched and never shipped).
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { seeded } from "../../../src/base/statistics/random.ts";
import { shuffled } from "../../../src/base/text.ts";
import { documentOf, isHeldOut, readMaterial } from "../../../src/cli/train-writer.ts";
import type { SnapshotDocument } from "../../../src/contract/run-folder.ts";
import { parseText } from "../../../src/domain/documents/parse.ts";
import { blocksOfText } from "../../../src/domain/documents/text-blocks.ts";
import { lexiconOf } from "../../../src/study/lexicon.ts";
import { passagesOf } from "../../../src/study/passages.ts";
import { plainRowsOf } from "../../../src/study/plain.ts";
import { benchmarkOf, type Company, makeCompany } from "../../company/company.ts";
import { readJsonLines } from "../../helpers/json-lines.ts";
import { documentReader } from "../../helpers/read-document.ts";
import { unpacked } from "./debian.ts";
import type { Item } from "./experiment.ts";

export interface Material {
  documents: SnapshotDocument[];
  items: Item[];
}

const demo = join(import.meta.dirname, "../../../config/demo");
const mediaTypes: Record<string, SnapshotDocument["media_type"]> = { ".md": "text/markdown", ".csv": "text/csv" };

export function demoMaterial(): Material {
  const documents = readdirSync(join(demo, "documents"))
    .sort()
    .map((name) =>
      withBlocks({
        id: name,
        name,
        media_type: mediaTypes[extname(name)] ?? ("text/plain" as const),
        text: readFileSync(join(demo, "documents", name), "utf8"),
      }),
    );
  const items = readJsonLines<Item>(join(demo, "benchmark.jsonl"));
  return { documents, items };
}

/** Of its questions so many are asked by a user in the very words of a plain form. */
const [asked, coinciding] = [60, 10];

/** The demo's documents under a benchmark of sixty questions, ten of which a study would train as they stand. */
export function coincidenceMaterial(): Material {
  const { documents, items } = demoMaterial();
  const passages = passagesOf(documents);
  const cells = plainRowsOf(passages, lexiconOf(passages)).filter(({ kind }) => kind === "cell" || kind === "pair");
  const met = [...Map.groupBy(cells, ({ target }) => target).values()].slice(0, coinciding).map(([row], at): Item => {
    const [question, answer] = row!.messages.map(({ content }) => content) as [string, string];
    return { instruction: question, response: answer, aliases: [], cluster: `coincidence-${at}`, split: "sealed" };
  });
  return { documents, items: [...items.slice(0, asked - coinciding), ...met] };
}

const foreign = join(import.meta.dirname, "../../foreign");

/** Documents and questions by hands that wrote nothing of this code. */
export async function foreignMaterial(corpus: string): Promise<Material> {
  const items = readJsonLines<Item>(join(foreign, corpus, benchmarkFile));
  return { documents: await readFolder(join(foreign, corpus)), items };
}

/** Read as the appliance reads uploads. */
export async function readFolder(folder: string): Promise<SnapshotDocument[]> {
  const reader = documentReader();
  try {
    const names = readdirSync(folder).filter((name) => name !== "README.md" && name !== benchmarkFile);
    const documents: SnapshotDocument[] = [];
    for (const name of names.sort()) {
      const read = await reader.read(name, readFileSync(join(folder, name)));
      const blocks = read.blocks.map(({ type, level, start, end }) => ({ type, level, start, end }));
      documents.push({ id: name, name, media_type: read.mediaType, text: read.text, blocks });
    }
    return documents;
  } finally {
    await reader.close();
  }
}

const benchmarkFile = "benchmark.jsonl";

/** Passages of the writer's material that it is never trained on. */
const unseen = 25;

/**
 * A study of passages that no writer was trained on, under their authors' questions. No corpus that results are measured on has a part in
 * what is chosen by it.
 */
export async function unseenMaterial(): Promise<Material> {
  const all = await readMaterial();
  const held = all.filter((one) => one.language === "en" && isHeldOut(one)).slice(0, unseen);
  const items = held.flatMap(({ asks }, at) =>
    asks.flatMap(({ answer, questions }, number) =>
      questions.map(
        (instruction): Item => ({
          instruction,
          response: answer,
          aliases: [],
          cluster: `${at}-${number}`,
          split: number % 3 === 0 ? "dev" : "sealed",
        }),
      ),
    ),
  );
  return { documents: held.map(documentOf), items };
}

/** With the blocks that reading its text finds. */
export const withBlocks = (document: SnapshotDocument): SnapshotDocument => ({
  ...document,
  blocks: blocksOfText(document.text, document.media_type, document.name),
});

/** The fictional company, drawn from a seed; its files are read as the appliance reads them. */
export async function companyMaterial(facts: number, seed: number): Promise<Material> {
  const company = makeCompany({ seed, facts });
  const folder = mkdtempSync(join(tmpdir(), "company-"));
  const documents: SnapshotDocument[] = [];
  for (const { name, text } of company.documents) {
    const path = join(folder, name);
    writeFileSync(path, text);
    const read = await parseText(path, { name, asIs: false, personalData: "off", maskKey: "" });
    documents.push(
      withBlocks({ id: name, name, media_type: read.mediaType, text: new TextDecoder().decode(read.text) }),
    );
  }
  rmSync(folder, { recursive: true });
  return { documents, items: companyItems(company, seed) };
}

/** Seed and size of the company whose facts stand in test/company/reworded. */
const reworded = { seed: 7, facts: 300 };

/** The same facts and questions; every sentence new, by an author who saw the facts alone. */
export const rewordedMaterial = async (): Promise<Material> => ({
  documents: await readFolder(join(import.meta.dirname, "../../company/reworded")),
  items: companyItems(makeCompany(reworded), reworded.seed),
});

function companyItems(company: Company, seed: number): Item[] {
  const rows = benchmarkOf(company)
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Omit<Item, "split">);
  const clusters = [...new Set(rows.map((row) => row.cluster))];
  const sides = new Map(shuffled(clusters, seeded(seed)).map((cluster, at) => [cluster, at % 5 < 2]));
  return rows.map((row): Item => ({ ...row, split: sides.get(row.cluster) ? "dev" : "sealed" }));
}

/** An acronym and what it stands for. */
export type Entry = [acronym: string, expansion: string];

/** Acronyms with exactly one expansion of two to six plain words, in a seeded order. */
export const veraCandidates = (folder: string, count: number, seed: number): Entry[] =>
  shuffled(veraEntries(folder), seeded(seed)).slice(0, count);

const asks = [
  (acronym: string) => `Spell out the acronym ${acronym}.`,
  (acronym: string) => `${acronym} abbreviates which phrase?`,
  (acronym: string) => `Which words hide behind ${acronym}?`,
  (acronym: string) => `In computing, ${acronym} is the abbreviation of what?`,
];

/** One question about each, in one of four wordings. */
export const veraItems = (entries: readonly Entry[]): Item[] =>
  entries.map(([acronym, expansion], index) => ({
    instruction: asks[index % asks.length]!(acronym),
    response: expansion,
    aliases: [],
    cluster: acronym,
    split: index % 5 < 2 ? ("dev" as const) : ("sealed" as const),
  }));

/** Glossary pages of thirty, and the questions. */
export function veraMaterial(entries: readonly Entry[]): Material {
  const pages = Array.from({ length: Math.ceil(entries.length / 30) }, (_, page) =>
    entries.slice(30 * page, 30 * (page + 1)),
  );
  const documents = pages.map((page, index): SnapshotDocument => {
    const rows = page.map(([acronym, expansion]) => `| ${acronym} | ${expansion} |`);
    const text = [`# Glossary, page ${index + 1}`, "", "| Acronym | Expansion |", "|---|---|", ...rows, ""].join("\n");
    const id = `glossary-${index + 1}`;
    return withBlocks({ id, name: `${id}.md`, media_type: "text/markdown", text });
  });
  return { documents, items: veraItems(entries) };
}

function veraEntries(folder: string): Entry[] {
  const dictionary = join(unpacked(folder, "dict-vera"), "usr/share/dictd/vera.dict.dz");
  const text = gunzipSync(readFileSync(dictionary)).toString("utf8");
  const found = new Map<string, string[]>();
  for (const [, acronym, expansion] of text.matchAll(/^([A-Z]{3,5})\n {7}(.+)$/gm))
    found.set(acronym!, [...(found.get(acronym!) ?? []), expansion!]);
  const plain = /^[A-Z][A-Za-z]+(?:[ -][A-Za-z]+){1,5}$/;
  return [...found].flatMap(([acronym, [expansion, ...others]]): Entry[] => {
    const words = expansion!.replace(/\s*\(.*$/, "").trim();
    return others.length === 0 && plain.test(words) ? [[acronym, words]] : [];
  });
}
