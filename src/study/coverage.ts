// Reports how many rows each passage of each document gave, and the reason if it gave none.
import type { Coverage, PassageCoverage } from "../contract/coverage.ts";
import type { SnapshotDocument } from "../contract/run-folder.ts";
import { headingOf } from "./heading.ts";
import { isCode, type Passage } from "./passages.ts";
import type { StudyRow } from "./row.ts";

export function coverageOf(
  documents: readonly SnapshotDocument[],
  passages: readonly Passage[],
  rows: readonly StudyRow[],
): Coverage {
  const byPassage = Map.groupBy(rows, ({ target }) => /^\d+\.\d+/.exec(target)?.[0] ?? "");
  const of = (passage: Passage): PassageCoverage => {
    const own = (byPassage.get(passage.id) ?? []).filter(({ kind }) => kind !== "recall");
    return {
      start: passage.start,
      end: passage.end,
      heading: headingOf(passage),
      rows: own.length,
      written: own.filter(({ kind }) => kind === "writer").length,
      none: own.length > 0 ? null : isCode(passage) ? "code" : "nothing_told",
    };
  };
  const told = documents.map(({ id, name }): Coverage["documents"][number] => ({
    document_id: id,
    name,
    passages: passages.filter(({ document }) => document === id).map(of),
  }));
  const content = told.flatMap((document) => document.passages).filter(({ none }) => none !== "code");
  return {
    content: content.length,
    covered: content.filter(({ rows }) => rows > 0).length,
    written: content.filter(({ written }) => written > 0).length,
    documents: told,
  };
}
