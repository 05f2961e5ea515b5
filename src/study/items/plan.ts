// Plans which passages a benchmark asks about, for which spans, and in which order.
import { seeded } from "../../base/statistics/random.ts";
import { hashOf, normalised, wordsOf } from "../../base/text.ts";
import type { SnapshotDocument } from "../../contract/run-folder.ts";
import { headingOf } from "../heading.ts";
import { type Lexicon, lexiconOf } from "../lexicon.ts";
import { mostFrequent, type Passage, passagesOf, type Unit } from "../passages.ts";
import { type Span, worthAsking } from "../spans.ts";
import { targetsOf } from "../targets.ts";
import { type ItemKind, kindOf, takeByShare } from "./kinds.ts";

export interface PlannedSpan extends Span {
  /** Index in the passage of the unit that the span is in. */
  unit: number;
  text: string;
  asks: ItemKind;
}

/** One request to a writer. */
export interface ItemPlan {
  passage: Passage;
  /** The most closely related passage, which a question could be confused or combined with; null if there is none. */
  near: Passage | null;
  spans: PlannedSpan[];
}

/**
 * Maximum number of passages that a writer is asked about for each question wanted. It is more than one, because not every passage
 * gets a question that passes the gates.
 */
const spare = 4;
/** Minimum and maximum number of questions planned for a passage that has enough spans. */
const fewest = 2;
const most = 8;

export function planOf(
  documents: readonly SnapshotDocument[],
  { seed, wanted }: { seed: number; wanted: number },
): ItemPlan[] {
  const passages = inUsualLanguage(passagesOf(documents));
  const lexicon = lexiconOf(passages);
  const nearestTo = nearest(passages, lexicon);
  const texts = new Map(documents.map(({ id, text }) => [id, text]));
  const asked = spreadOrder(passages, seed)
    .map((passage) => ({ passage, spans: spansWorth(passage, lexicon, texts.get(passage.document)!) }))
    .filter(({ spans }) => spans.length > 0)
    .slice(0, Math.ceil(spare * wanted));
  const each = Math.min(most, Math.max(fewest, Math.ceil((spare * wanted) / Math.max(1, asked.length))));
  const taken = new Map<ItemKind, number>();
  return asked.map(({ passage, spans }) => {
    const chosen: PlannedSpan[] = [];
    while (chosen.length < each && spans.length > 0) chosen.push(takeByShare(spans, ({ asks }) => asks, taken));
    return { passage, near: nearestTo(passage), spans: chosen.sort((a, b) => a.start - b.start) };
  });
}

/** Gives passages whose language is unknown, such as many tables, the language of most other passages. */
export function inUsualLanguage(passages: readonly Passage[]): Passage[] {
  const usual = mostFrequent(passages.flatMap(({ language }) => language ?? []));
  return passages.map((passage) => ({ ...passage, language: passage.language ?? usual }));
}

/**
 * Orders passages so that the first ones, however many are taken, are spread evenly over the documents. The order depends on the
 * seed and on the text and headings of the passages, so the same documents have the same order whenever they are uploaded.
 */
export function spreadOrder(passages: readonly Passage[], seed: number): Passage[] {
  const drawn = (passage: Passage): number => seeded(seed ^ hashOf(`${headingOf(passage)}\n${passage.text}`))();
  return [...Map.groupBy(passages, ({ document }) => document).values()]
    .flatMap((own) =>
      own
        .map((passage) => ({ passage, key: drawn(passage) }))
        .sort((a, b) => a.key - b.key)
        .map(({ passage, key }, rank) => ({ passage, place: (rank + key) / own.length })),
    )
    .sort((a, b) => a.place - b.place)
    .map(({ passage }) => passage);
}

/**
 * Values in place of a model's surprise, in nats. Any span gets enough to be asked for, and a figure gets more, because it cannot be
 * guessed.
 */
const surprising = 4;
const figure = 20;

/** Returns the spans worth asking about, chosen by how rare their words are, and the cells that a row or column name identifies. */
function spansWorth(passage: Passage, { tells, weightOf }: Lexicon, text: string): PlannedSpan[] {
  const rarity = ({ start, end }: Span): number => {
    const said = passage.text.slice(start, end);
    if (/\p{N}/u.test(said)) return figure;
    return surprising + Math.max(0, ...wordsOf(said).map(weightOf));
  };
  const ofProse = worthAsking(passage, [], rarity, tells);
  const ofCells = targetsOf(passage, []).flatMap(({ unit, span, kind, before }) =>
    kind === "cell" && span !== null && before !== "" ? [{ unit, span }] : [],
  );
  return [...ofProse, ...ofCells].map(({ unit, span }): PlannedSpan => {
    const said = passage.text.slice(span.start, span.end);
    const asks = kindOf(unit, span, said, isNumbered(unit, text));
    return { ...span, unit: passage.units.indexOf(unit), text: said, asks };
  });
}

/** Whether a number stands before the item in its list. */
const isNumbered = ({ type, start }: Unit, text: string): boolean =>
  type === "item" && /^\s*\p{N}+[.)]\s+$/u.test(text.slice(text.lastIndexOf("\n", start - 1) + 1, start));

/** A word in this many passages or more says nothing about any of them. */
const widespread = 12;

/** Returns a function that finds the passage that shares the most rare words with a given one; null if none shares any. */
function nearest(passages: readonly Passage[], lexicon: Lexicon): (passage: Passage) => Passage | null {
  const tellingOf = (passage: Passage): Set<string> =>
    new Set(
      wordsOf(`${passage.path.join(" ")} ${passage.text}`).filter((word) => word.length > 2 && lexicon.tells(word)),
    );
  const holders = new Map<string, Passage[]>();
  for (const passage of passages)
    for (const word of tellingOf(passage))
      holders.set(word, [...(holders.get(word) ?? []), passage].slice(0, widespread));
  return (passage) => {
    const shared = new Map<Passage, number>();
    for (const word of tellingOf(passage)) {
      const holding = holders.get(word)!;
      if (holding.length === widespread) continue;
      for (const other of holding)
        if (other !== passage && normalised(other.text) !== normalised(passage.text))
          shared.set(other, (shared.get(other) ?? 0) + lexicon.weightOf(word));
    }
    return [...shared].reduce<[Passage | null, number]>((best, one) => (one[1] > best[1] ? one : best), [null, 0])[0];
  };
}
