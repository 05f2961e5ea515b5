// Makes training rows from targets and their written questions, stage by stage. Written questions come first, and plain forms fill
// the rest. Plain forms are drawn anew for every stage. A stage repeats wordings of earlier stages only if a target has no others left,
// such as a cell of a table with two columns, and questions that the document itself asks.

import { seeded } from "../base/statistics/random.ts";
import { hashOf, normalised } from "../base/text.ts";
import { type Form, formOf, formsFor, recallOf } from "./forms.ts";
import { withoutContradictions } from "./gates.ts";
import { headingOf } from "./heading.ts";
import { languageOf } from "./languages.ts";
import type { Lexicon } from "./lexicon.ts";
import type { Passage } from "./passages.ts";
import type { StudyRow } from "./row.ts";
import type { Target } from "./targets.ts";

export interface RowOptions {
  /** Number of rows per target in each stage, if the target has enough questions. */
  phrasings: number;
  stages: number;
  seed: number;
}

/** A writer's question and the answer to it. */
export interface Phrased {
  question: string;
  answer: string;
}

export interface MadeRows {
  rows: StudyRow[];
  /** Number of rows whose question had two answers and was put under its headings, or was dropped. */
  contradictions: { qualified: number; dropped: number };
}

type Asked = { question: string; answer: string; kind: string; target: string; stage: number; passage: Passage };

/** Maximum words of a passage that is asked for as a whole. */
const longestRecall = 90;

export function rowsOf(
  passages: readonly Passage[],
  targets: readonly Target[],
  written: ReadonlyMap<string, readonly Phrased[]>,
  lexicon: Lexicon,
  options: RowOptions,
): MadeRows {
  const asked: (Asked & { source: StudyRow["source"] })[] = [];
  for (const target of targets) {
    const source = { document_id: target.passage.document, ...target.place };
    for (const one of questionsOf(target, written.get(target.id) ?? [], lexicon, options))
      asked.push({ ...one, target: target.id, passage: target.passage, source });
  }
  for (const passage of passages)
    for (const one of recalled(passage, lexicon, options)) asked.push({ ...one, passage });
  const { kept, ...contradictions } = withoutContradictions(asked, (row) => ({
    ...row,
    question: `${headingOf(row.passage)}: ${row.question}`,
  }));
  const rows = kept.map(
    ({ question, answer, source, kind, target, stage }): StudyRow => ({
      messages: [
        { role: "user", content: question },
        { role: "assistant", content: answer },
      ],
      source,
      kind,
      target,
      stage,
    }),
  );
  return { rows, contradictions };
}

function questionsOf(
  target: Target,
  written: readonly Phrased[],
  lexicon: Lexicon,
  { phrasings, stages, seed }: RowOptions,
): Pick<Asked, "question" | "answer" | "kind" | "stage">[] {
  const language = languageOf(target.passage.language);
  const random = seeded(seed ^ hashOf(target.id + target.answer));
  const forms = formsFor(target);
  const phrased = new Set(written.map(({ question }) => normalised(question)));
  /** Plain forms by their wording. The first was used the longest time ago. */
  const said = new Map<string, Pick<Asked, "question" | "answer" | "kind">>();
  const made: Pick<Asked, "question" | "answer" | "kind" | "stage">[] = [];
  /** Facts that the writer asks for. A clause may state several; the writer then gives each its own answer. */
  const facts = new Set(written.map(({ answer }) => answer)).size;
  /** A writer's questions that every stage needs: one for each part of a sentence, and several for each of several facts. */
  const needed = Math.max(target.parts?.length ?? 0, facts > 1 ? facts * Math.ceil((phrasings - 1) / 2) : 0);
  /** Rows per stage. */
  const wanted = Math.max(phrasings, Math.min(written.length, needed) + 1);
  /** Rows per stage with a writer's questions: all but one, if there are enough of these questions. */
  const ofWriter = Math.min(written.length, Math.max(1, wanted - 1));
  let next = 0;
  for (let stage = 0; stage < stages; stage++) {
    const before = said.size;
    const take = (form: Pick<Form, "question" | "answer">, kind: string): void => {
      made.push({ ...form, kind, stage });
    };
    let count = 0;
    for (let i = 0; i < ofWriter; i++, count++) take(written[next++ % written.length]!, "writer");
    for (let tries = 0; forms.length > 0 && count < wanted && tries < 2 * wanted + forms.length; tries++) {
      const form = formOf(target, forms[(stage + tries) % forms.length]!, language, lexicon, random);
      if (form === null) continue;
      const key = normalised(form.question);
      if (said.has(key) || phrased.has(key)) continue;
      said.set(key, form);
      take(form, form.kind);
      count++;
    }
    for (const [key, form] of [...said].slice(0, Math.min(before, wanted - count))) {
      said.delete(key);
      said.set(key, form);
      take(form, form.kind);
    }
  }
  return made;
}

/**
 * Returns a row that asks for a short passage as a whole; empty for a longer passage. The row is made for the first stage alone,
 * because such rows are long and the training time is better spent on questions.
 */
function recalled(
  passage: Passage,
  lexicon: Lexicon,
  { seed }: RowOptions,
): (Omit<Asked, "passage"> & { source: StudyRow["source"] })[] {
  if (passage.text.split(/\s+/).length > longestRecall) return [];
  const random = seeded(seed ^ hashOf(passage.id + passage.text));
  const form = recallOf(passage, languageOf(passage.language), lexicon, random);
  const source = { document_id: passage.document, start: passage.start, end: passage.end };
  return [{ ...form, kind: "recall", target: passage.id, stage: 0, source }];
}
