// npm run prove:readers -- sample --run FOLDER [--rows 60 --seed 1] --out FILE: rows that a run trained, for readers who judge each by its
// passage alone; beside them some others are planted with an answer of another question. FILE.key says which, and is not for readers. Of
// 120 rows at most 108 are drawn, and the rest is planted.
// npm run prove:readers -- rows --documents FOLDER [--rows 60 --seed 1 --threads 2] --out FILE: the same of rows that `standard` makes of
// documents with the shipped writer, without a run.
// npm run prove:readers -- questions --writer FOLDER [--passages 25 --rows 60 --seed 1] --out FILE: the same of questions that a writer asks of
// passages that it never saw; FILE.key has the fluency of each.
// npm run prove:readers -- items --items FILE --documents FOLDER [--rows 60 --seed 1] --out FILE: the same of a benchmark's items
// (`prove:items -- make`).
// npm run prove:readers -- score --key FILE.key VERDICTS VERDICTS: what two readers said, how far they agree (Cohen's κ) and how many of the
// planted rows they caught. A verdict is a line {"number": N, "verdict": "correct" | "awkward" | "wrong"}.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { seeded } from "../../src/base/statistics/random.ts";
import { normalised, shuffled } from "../../src/base/text.ts";
import type { Item } from "../../src/catalog/benchmarks.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { headingOf } from "../../src/study/heading.ts";
import { lexiconOf } from "../../src/study/lexicon.ts";
import { type Passage, passagesOf } from "../../src/study/passages.ts";
import type { StudyRow } from "../../src/study/row.ts";
import { readJsonLines } from "../helpers/json-lines.ts";
import { readFolder } from "./prove/material.ts";
import { agreement, type Judged, type Verdict } from "./readers/agreement.ts";
import { askedByWriter } from "./readers/questions.ts";
import { studiedRows } from "./readers/rows.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    run: { type: "string" },
    documents: { type: "string" },
    items: { type: "string" },
    threads: { type: "string", default: "2" },
    writer: { type: "string", default: "config/writer" },
    passages: { type: "string", default: "25" },
    rows: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    out: { type: "string" },
    key: { type: "string" },
  },
});

interface Row {
  kind: string;
  question: string;
  answer: string;
}

interface Key {
  kinds: Record<number, string>;
  fluency?: Record<number, number>;
  planted: number[];
}

/** Passages that a reader sees beside a question that the documents are said not to answer. */
const looked = 3;
/** One in so many of what readers see is planted. */
const plantedEvery = 10;

const [task, ...files] = positionals;
if (task === "sample") sample();
else if (task === "rows") await rows();
else if (task === "questions") await questions();
else if (task === "items") await items();
else if (task === "score") score();
else throw new Error("sample, rows, questions, items or score");

function sample(): void {
  const { run, out } = values;
  if (run === undefined || out === undefined) throw new Error("sample needs --run and --out");
  const passageOf = passagesFor(documentsOf(run));
  show(
    trainedRows(run).map((row) => ({ ...row, passages: () => [passageOf(row)] })),
    out,
  );
}

async function rows(): Promise<void> {
  const { documents: folder, out } = values;
  if (folder === undefined || out === undefined) throw new Error("rows needs --documents and --out");
  const documents = await readFolder(folder);
  const { rows: made, report } = await studiedRows(documents, Number(values.threads));
  const { coverage, ...told } = report;
  process.stdout.write(`${JSON.stringify({ ...told, covered: coverage.covered })}\n`);
  const passages = Map.groupBy(passagesOf(documents), ({ document }) => document);
  const passageAt = ({ document_id, start, end }: NonNullable<StudyRow["source"]>): Passage =>
    passages.get(document_id)!.find((passage) => passage.start < end && passage.end > start)!;
  show(
    made.flatMap((row) => judged([row]).map((shown) => ({ ...shown, passages: () => [passageAt(row.source!)] }))),
    out,
  );
}

async function questions(): Promise<void> {
  if (values.out === undefined) throw new Error("questions needs --out");
  const asked = await askedByWriter(values.writer, Number(values.passages));
  const kinds = Map.groupBy(asked, ({ kind }) => kind);
  for (const [kind, of] of kinds) process.stdout.write(`${kind}: ${of.length}\n`);
  show(
    asked.map(({ passage, ...row }) => ({ ...row, passages: () => [passage] })),
    values.out,
  );
}

async function items(): Promise<void> {
  if (values.items === undefined || values.documents === undefined || values.out === undefined)
    throw new Error("items needs --items, --documents and --out");
  const passages = passagesOf(await readFolder(values.documents));
  const lexicon = lexiconOf(passages);
  const shown = readJsonLines<Item>(values.items).map(
    ({ instruction: question, response: answer, type: kind, citations }) => ({
      kind,
      question,
      answer,
      passages: () =>
        citations.length > 0
          ? passages.filter(({ document, start, end }) =>
              citations.some((one) => one.document === document && one.start! < end && one.end! > start),
            )
          : passages
              .map((passage) => ({ passage, rank: lexicon.rankOf(question, passage) }))
              .sort((a, b) => a.rank - b.rank)
              .slice(0, looked)
              .map(({ passage }) => passage),
    }),
  );
  show(shown, values.out);
}

/** Some of the rows, and among them planted ones, each as a reader gets it; what they are goes into the key. */
function show(all: readonly (Row & { passages: () => Passage[]; fluency?: number })[], out: string): void {
  const random = seeded(Number(values.seed));
  const rows = shuffled(all, random);
  // Planted rows are others than the drawn ones, so some must be left for them.
  const most = Math.floor((rows.length * (plantedEvery - 1)) / plantedEvery);
  const drawn = rows.slice(0, Math.min(most, Number(values.rows))).map((row) => ({ row, isPlanted: false }));
  const wanted = Math.max(1, Math.round(drawn.length / (plantedEvery - 1)));
  const planted = rows.slice(drawn.length, drawn.length + wanted).map((row) => ({
    row: { ...row, answer: otherAnswer(row, rows, random) },
    isPlanted: true,
  }));
  const shown = shuffled([...drawn, ...planted], random);
  const lines = shown.map(({ row: { question, answer, passages } }, number) => {
    const [first, ...others] = passages() as [Passage, ...Passage[]];
    const beside = others.map((passage) => `${headingOf(passage)}\n---\n${passage.text}`);
    const passage = [first.text, ...beside].join("\n\n");
    return JSON.stringify({ number, headings: headingOf(first), passage, question, answer });
  });
  writeFileSync(out, `${lines.join("\n")}\n`);
  const key: Key = {
    kinds: Object.fromEntries(shown.map(({ row }, number) => [number, row.kind])),
    fluency: Object.fromEntries(
      shown.flatMap(({ row }, number) => (row.fluency === undefined ? [] : [[number, row.fluency]])),
    ),
    planted: shown.flatMap(({ isPlanted }, number) => (isPlanted ? [number] : [])),
  };
  writeFileSync(`${out}.key`, JSON.stringify(key));
}

function documentsOf(run: string): SnapshotDocument[] {
  const folder = join(run, "snapshot/documents");
  return readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as SnapshotDocument);
}

/** What was trained of the documents: neither replay nor whole passages, which are no answers. */
function trainedRows(run: string): Row[] {
  return judged(readJsonLines(join(run, "prepared/rows.jsonl")));
}

function judged(rows: readonly { kind: string; messages: readonly { role: string; content: string }[] }[]): Row[] {
  return rows
    .filter(({ kind }) => kind !== "replay" && kind !== "prose" && kind !== "recall")
    .map(({ kind, messages }) => ({
      kind,
      question: messages.find(({ role }) => role === "user")!.content,
      answer: messages.at(-1)!.content,
    }));
}

/** Of the passages that have the answer the one that a search by the question finds first. */
function passagesFor(documents: readonly SnapshotDocument[]): (row: Row) => Passage {
  const passages = passagesOf(documents);
  const lexicon = lexiconOf(passages);
  return ({ question, answer }) => {
    // An item of a list is said after the words that introduce the list, which may stand in the passage before.
    const item = answer.split(/(?<=:) /).at(-1)!;
    const having = passages.filter(
      ({ text, units }) =>
        units.some((unit) => unit.text.includes(answer) || (unit.type === "row" && unit.cells.includes(answer))) ||
        text.includes(item),
    );
    const ranked = having
      .map((passage) => ({ passage, rank: lexicon.rankOf(question, passage) }))
      .sort((a, b) => a.rank - b.rank);
    if (ranked.length === 0) throw new Error(`no passage has ${answer}`);
    return ranked[0]!.passage;
  };
}

function otherAnswer({ answer, kind }: Row, rows: readonly Row[], random: () => number): string {
  const unlike = rows.filter((one) => normalised(one.answer) !== normalised(answer));
  const alike = unlike.filter((one) => one.kind === kind);
  const others = alike.length > 0 ? alike : unlike;
  return others[Math.floor(random() * others.length)]!.answer;
}

function score(): void {
  if (values.key === undefined || files.length !== 2) throw new Error("score needs --key and two files of verdicts");
  const key = JSON.parse(readFileSync(values.key, "utf8")) as Key;
  const [first, second] = files.map(
    (file) => new Map(readJsonLines<Verdict>(file).map((one) => [one.number, one.verdict])),
  );
  const judged = Object.keys(key.kinds).map((text): Judged => {
    const number = Number(text);
    const said = [first!.get(number), second!.get(number)];
    if (said.some((one) => one === undefined)) throw new Error(`row ${number} was not judged`);
    return { kind: key.kinds[number]!, isPlanted: key.planted.includes(number), said: said as Judged["said"] };
  });
  process.stdout.write(`${JSON.stringify(agreement(judged), null, 1)}\n`);
}
