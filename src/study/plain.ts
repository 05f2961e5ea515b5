// Makes the rows that a study makes without any model. Every alignment to the same documents can train these rows, whatever its
// base and writer. A benchmark question that occurs in them would only measure whether the question was memorised.
import { type Lexicon, lexiconOf } from "./lexicon.ts";
import type { Passage } from "./passages.ts";
import type { StudyRow } from "./row.ts";
import { type RowOptions, rowsOf } from "./rows.ts";
import { spansOf, worthAsking } from "./spans.ts";
import { studyTargets, type Target } from "./targets.ts";

/**
 * Number of rows per target, enough for each of its plain forms several times. A run draws other wordings, and drops the rows that
 * overlap a question.
 */
const phrasings = 12;
/** The presets train with other seeds. */
const seed = 0;

/** Returns the plain rows of all spans, because without a model it is unknown which spans are surprising. */
export const plainRowsOf = (passages: readonly Passage[], lexicon: Lexicon): StudyRow[] =>
  rowsOf(passages, plainTargets(passages, lexicon), new Map(), lexicon, { phrasings, stages: 1, seed }).rows;

const plainTargets = (passages: readonly Passage[], lexicon: Lexicon): Target[] =>
  passages.flatMap((passage) =>
    studyTargets(
      passage,
      passage.units.flatMap((unit) => spansOf(unit, lexicon.tells).map((span) => ({ unit, span }))),
    ),
  );

/** An estimate, made without a model, of what a study would make from documents. */
export interface Planned {
  passages: number;
  targets: number;
  rows: number;
  /** Characters of all questions and answers. */
  characters: number;
}

export function planned(passages: readonly Passage[], options: RowOptions): Planned {
  const lexicon = lexiconOf(passages);
  const targets = passages.flatMap((passage) =>
    studyTargets(
      passage,
      worthAsking(passage, [], () => Number.POSITIVE_INFINITY, lexicon.tells),
    ),
  );
  const { rows } = rowsOf(passages, targets, new Map(), lexicon, options);
  const characters = rows.reduce(
    (sum, { messages }) => sum + messages.reduce((length, { content }) => length + content.length, 0),
    0,
  );
  return { passages: passages.length, targets: targets.length, rows: rows.length, characters };
}
