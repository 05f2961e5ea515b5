// What the thread of a study keeps of passages: their places lead to the text, and answers are found where the documents say them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { containsWords } from "../../src/base/text.ts";
import { sourceSpace } from "../../src/confidence/sources.ts";
import { references } from "../../src/study/study.worker.ts";
import { demoMaterial, foreignMaterial, type Material } from "../e2e/prove/material.ts";
import { documentOf } from "../helpers/study.ts";

test("places are those of the document's own text, whatever its marks and however long its letters are", () => {
  const text = [
    "# Bücher 📚 & Pläne",
    "",
    "Das **Archiv** 🗄️ öffnet um *neun* Uhr. Es schließt um [zwölf](https://example.org).",
    "",
    "## Lampen",
    "",
    "| Lampe | Gewicht |",
    "|---|---|",
    "| Ember | 7 kg |",
    "",
  ].join("\n");
  const document = documentOf(text, "text/markdown", "plan.md");
  const { sources } = references({ documents: [document], organisation: null });
  const space = sourceSpace(JSON.parse(JSON.stringify(sources)));
  const found = (question: string, answer: string) => {
    const [first, ...others] = space.of(question, answer);
    assert.deepEqual([first!.document, others], [document.id, []]);
    return text.slice(first!.start, first!.end);
  };
  const archive = "Das **Archiv** 🗄️ öffnet um *neun* Uhr. Es schließt um [zwölf](https://example.org).";
  assert.equal(found("Wann öffnet das Archiv?", "Um neun Uhr"), archive);
  assert.equal(found("Wann schließt es?", "zwölf"), archive);
  assert.equal(found("Welches Gewicht hat Ember?", "7 kg"), "| Ember | 7 kg |");
});

test("a passage is found by its headings, also if a question names the organisation", () => {
  const text = ["# Lamps", "", "## Ember", "", "It weighs 7 kg.", "", "## Orla", "", "It weighs 7 kg."].join("\n");
  const { sources } = references({ documents: [documentOf(text)], organisation: "Tidewell" });
  const space = sourceSpace(sources);
  const [ember, ...others] = space.of("How heavy is the Ember of Tidewell?", "7 kg");
  assert.deepEqual([text.slice(0, ember!.start).includes("Orla"), others.length], [false, 0]);
});

test("documents without text name no source", () => {
  const { sources } = references({ documents: [documentOf("")], organisation: null });
  assert.deepEqual(sources, { format: 1, documents: [], passages: [] });
});

/** Of right answers, and of answers to another question: the share that names a source; of the former, whether it has the words. */
function namedOf({ documents, items }: Material): { right: number; other: number; holding: number } {
  const space = sourceSpace(references({ documents, organisation: null }).sources);
  const textOf = new Map(documents.map(({ id, text }) => [id, text]));
  const right = items.map(({ instruction, response }) => ({ response, found: space.of(instruction, response) }));
  const other = items.flatMap(({ instruction, cluster }, at) => {
    const { cluster: theirs, response } = items[(at + 37) % items.length]!;
    return theirs === cluster ? [] : [space.of(instruction, response)];
  });
  const named = right.filter(({ found }) => found.length > 0);
  const holding = named.filter(({ response, found: [first] }) =>
    containsWords(textOf.get(first!.document)!.slice(first!.start, first!.end), response),
  );
  return {
    right: named.length / right.length,
    other: other.filter((found) => found.length > 0).length / other.length,
    holding: holding.length / named.length,
  };
}

for (const corpus of ["demo", "vets", "water"])
  test(`right answers to the questions of ${corpus} mostly name a source, those to another question seldom`, async () => {
    const material = corpus === "demo" ? demoMaterial() : await foreignMaterial(corpus);
    const { right, other, holding } = namedOf(material);
    assert.ok(right > 0.8 && other < 0.2 && holding > 0.75, JSON.stringify({ right, other, holding }));
  });
