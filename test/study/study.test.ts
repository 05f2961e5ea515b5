// A study from documents to rows, with models that are scripted: what each is asked, what is kept, and what the report says.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import type { StudyRow } from "../../src/study/row.ts";
import { study } from "../../src/study/study.ts";
import type { Target } from "../../src/study/targets.ts";
import type { Writer } from "../../src/study/writers/writer.ts";
import { documentOf, plainBase, studied } from "../helpers/study.ts";

const options = { phrasings: 4, stages: 2, seed: 7 };
const questionOf = ({ messages }: StudyRow): string => messages[0]!.content;

const visits = documentOf(
  [
    "# Orchard",
    "## Visits",
    "A guided walk for schools lasts 90 minutes and costs 4.20 euros.",
    "The gate is opened by Ada Lund, who also sells the honey of the valley.",
    "## Trees",
    "| Tree | Planted |\n|---|---|\n| Quince | 1931 |\n| Medlar | 1987 |",
    "- Ladder: from the barn",
    "",
  ].join("\n\n"),
  "text/markdown",
  "orchard.md",
);
const fuehrung = "Eine Führung durch den Garten dauert 90 Minuten und kostet für Schulen aus dem Tal 4,20 Euro.";
const besuche = documentOf(`# Garten\n\n## Besuche\n\n${fuehrung}\n`, "text/markdown", "garten.md");
const code = documentOf("# Script\n\n```\nrun()\n```\n", "text/markdown", "script.md");

const answersIn = (rows: readonly StudyRow[]): Set<string> => new Set(rows.map(({ messages }) => messages[1]!.content));

/** Writes what `questions` says of an answer, proposes what it knows, and reads by heart. */
function writerOf(questions: Record<string, string[]>): Writer & { asked: Target[][] } {
  const asked: Target[][] = [];
  return {
    name: "scripted",
    isTeacher: false,
    asked,
    propose: async (passages) =>
      passages.map(({ text }) => Object.keys(questions).filter((answer) => text.includes(answer))),
    write: async (targets) => {
      asked.push([...targets]);
      return targets.map(({ answer }) => questions[answer] ?? []);
    },
    answerTo: null,
    fluency: async (all) => all.map(() => 0),
    read: async (all) =>
      all.map(({ question }) => Object.keys(questions).find((answer) => questions[answer]!.includes(question)) ?? ""),
  };
}

const walk = "A guided walk for schools lasts 90 minutes and costs 4.20 euros.";
const gate = "The gate is opened by Ada Lund, who also sells the honey of the valley.";
const good = {
  [walk]: ["How long is a guided walk for schools?", "What time does a school need for the guided walk?"],
  [gate]: ["Who opens the gate and sells honey?", "What else does the person at the gate of the valley do?"],
};

test("without a writer every passage that states something has rows of its own words", async () => {
  const { rows, report } = await studied([visits, besuche, code], options);
  assert.equal(report.writer, null);
  assert.deepEqual([report.documents, report.search, report.rows], [3, "lexical", rows.length]);
  const { content, covered, written, documents } = report.coverage;
  assert.deepEqual([content, covered, written], [3, 3, 0]);
  assert.deepEqual(
    documents[2]!.passages.map(({ none }) => none),
    ["code"],
  );
  assert.deepEqual(report.languages.de, { passages: 1, interrogatives: true });
  assert.deepEqual(report.contradictions, { qualified: 0, dropped: 0 });
  const counts = Object.entries(report.by_kind).reduce((sum, [, count]) => sum + count, 0);
  assert.equal(counts, rows.length);
  for (const kind of ["keywords", "fragment", "in_place", "cell", "pair", "recall"])
    assert.ok(report.by_kind[kind]! > 0, kind);
  // An answer in every kind of text: a clause in English and in German, a cell, a value.
  const answers = new Set(rows.map(({ messages }) => messages[1]!.content));
  for (const answer of [walk, fuehrung, "1987", "from the barn"])
    assert.ok(answers.has(answer), [...answers].join("\n"));
});

test("code is not scored, because none of it is chosen by its surprise and a block of it may be too long", async () => {
  const scored: string[] = [];
  const base = {
    ...plainBase,
    score: (rows: { prompt: string; text: string }[]) => {
      scored.push(...rows.map(({ text }) => text));
      return plainBase.score(rows);
    },
  };
  const parts = { base, writer: async () => null, progress: async () => {} };
  const { rows } = await study({ documents: [code, visits], organisation: null }, parts, options);
  assert.ok(scored.length > 0 && scored.every((text) => !text.includes("run()")), scored.join("\n"));
  const alone = await studied([visits], options);
  const ofVisits = rows.filter(({ source }) => source!.document_id === visits.id);
  assert.deepEqual(new Set(ofVisits.map(({ messages }) => messages[1]!.content)), answersIn(alone.rows));
});

test("a writer's questions that pass the gates are trained, and the report counts them gate by gate", async () => {
  const writer = writerOf({ ...good, [walk]: [...good[walk]!, `Is it so? ${walk}`, "How much?"] });
  const { rows, report } = await studied([visits], options, writer);
  const written = new Set(rows.filter(({ kind }) => kind === "writer").map(questionOf));
  assert.deepEqual([...written].sort(), Object.values(good).flat().sort());
  assert.deepEqual(report.writer!.probe, { questions: 6, passed: 4 });
  assert.ok(report.writer!.used);
  assert.deepEqual(
    report.writer!.gates.map(({ gate, in: came, out }) => [gate, came, out]),
    [
      ["readable", 6, 5],
      ["hides_answer", 5, 4],
      ["stands_alone", 4, 4],
      ["unlike_siblings", 4, 4],
      ["fluent", 4, 4],
      ["knows_names", 4, 4],
      ["answered_in_view", 4, 4],
      ["needs_passage", 4, 4],
    ],
  );
  assert.equal(report.coverage.written, 1);
});

test("a question is answered by the words that its writer knows for it, and by the whole sentence where it knows none", async () => {
  const [long, time] = good[walk] as [string, string];
  const writer: Writer = { ...writerOf(good), answerTo: (_, question) => (question === long ? "90 minutes" : null) };
  const { rows } = await studied([visits], options, writer);
  const answers = (asked: string): Set<string> =>
    new Set(rows.filter((row) => questionOf(row) === asked).map(({ messages }) => messages[1]!.content));
  assert.deepEqual([answers(long), answers(time)], [new Set(["90 minutes"]), new Set([walk])]);
});

/** Enough passages for the probe of a writer, and one more call. */
const many = documentOf(
  Array.from({ length: 100 }, (_, at) => `# Boat ${at}\n\nBoat b${at} has ${at + 100} planks of oak${at}.\n`).join(
    "\n",
  ),
);

test("a writer whose questions do not pass is left alone after the probe, and none of them is trained", async () => {
  const writer = writerOf({});
  const bad: Writer = {
    ...writer,
    write: async (targets) => {
      await writer.write(targets);
      return targets.map(() => ["What is it?"]);
    },
  };
  const { rows, report } = await studied([many], { ...options, stages: 1 }, bad);
  assert.equal(report.writer!.used, false);
  assert.deepEqual(report.by_kind.writer ?? 0, 0);
  const passages = new Set(writer.asked.flat().map(({ passage }) => passage.id)).size;
  assert.ok(passages >= 64 && passages < 100, `${passages}`);
  assert.ok(rows.length > 100, "plain forms are made all the same");
});

test("of few passages too, no question is trained if nearly all questions of the writer fail", async () => {
  const asked = (number: number): Writer => ({
    ...writerOf(good),
    write: async (targets) =>
      targets.map(({ answer }) =>
        answer === gate ? [...good[gate]!, ...Array<string>(number).fill("What is it?")] : [],
      ),
  });
  for (const [failing, used] of [
    [2, true],
    [40, false],
  ] as const) {
    const { report } = await studied([visits], options, asked(failing));
    assert.deepEqual(report.writer!.probe, { questions: failing + 2, passed: 2 });
    assert.deepEqual([report.writer!.used, (report.by_kind.writer ?? 0) > 0], [used, used], `${failing}`);
  }
});

test("a study says how far it is, and leaves when it is told to", async () => {
  const subject = { documents: [many], organisation: null };
  const said: [number, number, string][] = [];
  const parts = {
    base: plainBase,
    writer: async () => null,
    progress: async (...at: [number, number, string]) => void said.push(at),
  };
  await study(subject, parts, { ...options, stages: 1 });
  assert.deepEqual(said.at(-1), [100, 100, "passages"]);
  const leaving = study(subject, { ...parts, progress: () => Promise.reject(new Error("left")) }, options);
  await assert.rejects(leaving, /left/);
});

test("questions name the organisation where it is known, and never one that is not", async () => {
  const parts = { base: plainBase, writer: async () => null, progress: async () => {} };
  const titles = async (organisation: string | null) => {
    const { rows } = await study({ documents: [visits], organisation }, parts, options);
    return rows.filter(({ kind }) => kind === "recall").map(questionOf);
  };
  for (const question of await titles("Moe & Sons")) assert.ok(question.includes("Moe & Sons, Orchard >"), question);
  for (const question of await titles(null)) assert.ok(question.includes("under Orchard >"), question);
});

test("the same documents, models and seed make the same rows; another seed other ones", async () => {
  const made = async (seed: number) => (await studied([visits, besuche], { ...options, seed }, writerOf(good))).rows;
  assert.deepEqual(await made(7), await made(7));
  assert.notDeepEqual(await made(8), await made(7));
});

test("no document breaks a study: rows lie in their documents, and no question is empty", async () => {
  const piece = fc.constantFrom(
    "The mill opened in 1911.",
    "# Heading\n\n",
    "| a | b |\n|---|---|\n| x | x |\n",
    "| a |\n|---|\n",
    "Key: value\n",
    "- item?\n",
    "\n\n",
    "It costs 5 euros, (and it) was built by Ada Lund",
    "{row}",
    "____",
    "\u0000",
    "水は三時に出る。",
    "?",
    "1.",
    "“”",
  );
  const types = fc.constantFrom<SnapshotDocument["media_type"]>("text/plain", "text/markdown", "text/csv");
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(piece, fc.string()), { maxLength: 10 }), types, async (parts, type) => {
      let document: SnapshotDocument;
      try {
        document = documentOf(parts.join(" "), type);
      } catch {
        return; // Not CSV: it never becomes a snapshot.
      }
      const { rows } = await studied([document], { phrasings: 4, stages: 2, seed: 1 });
      for (const { messages, source } of rows) {
        assert.ok(messages.every(({ content }) => content.trim() !== ""));
        assert.ok(source!.start >= 0 && source!.start <= source!.end && source!.end <= document.text.length);
      }
    }),
    { numRuns: 120 },
  );
});
