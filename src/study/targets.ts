// Makes targets, which are the facts to be learned. Each has an answer and everything that a question for it can be made of.
import { countWords, isQuestion } from "../base/text.ts";
import { cellsJoin, type Passage, type Place, type Unit } from "./passages.ts";
import { clausesOf, type Span, type SpanKind } from "./spans.ts";

export interface Target {
  /** The passage's id and the answer's offset in it; for kind `asked`, `?` and the offset of the unit. */
  id: string;
  passage: Passage;
  unit: Unit;
  kind: SpanKind | "key" | "asked";
  answer: string;
  /** Place in the document of the unit that states the answer. */
  place: Place;
  /** Span of the answer in the passage's text; null if it is not a single span. */
  span: Span | null;
  /** Text around the answer. For a cell, `before` holds what identifies it; for kind `asked`, the question. */
  before: string;
  after: string;
  /** Text of the unit before this one in the paragraph, or the question that this one answers; empty at the paragraph's start. */
  earlier: string;
  /** For a clause: the spans within it that are worth asking about, as offsets in the passage's text. */
  parts?: readonly Span[];
}

/**
 * Returns the targets of a passage for a study. In prose, each target is a clause. The whole clause is the answer, because the words of
 * a question for one part of a sentence seldom distinguish this part from the next one. The part that a question asks for is drawn for
 * each question (forms.ts). Values, cells and questions that the document answers are targets of their own.
 */
export function studyTargets(passage: Passage, spans: readonly { unit: Unit; span: Span }[]): Target[] {
  const clauses = passage.units.flatMap((unit) =>
    isQuestion(unit.text)
      ? []
      : clausesOf(unit)
          .filter(
            (clause) =>
              isTold(passage.text.slice(clause.start, clause.end), unit) ||
              // A clause states something, however short it is, if a writer asks for a part of it.
              partsOf({ unit, span: clause }, spans).some(({ kind }) => kind === "proposed"),
          )
          .map((span) => ({ unit, span })),
  );
  const others = spans.filter(({ unit }) => unit.type !== "sentence" && unit.type !== "item");
  return targetsOf(passage, [...clauses, ...others]).map((target) =>
    isClause(target) ? { ...target, parts: partsOf(target, spans) } : target,
  );
}

/**
 * Minimum words of a clause without a figure. A shorter clause such as "Your first day." introduces what follows and states nothing.
 * A clause that ends with a colon is dropped too, and so is a sentence without a figure that ends with a comma, such as a salutation.
 */
const fewest = 4;

function isTold(clause: string, { type }: Unit): boolean {
  if (/[:：]$/.test(clause)) return false;
  if (/\p{N}/u.test(clause)) return true;
  return countWords(clause) >= fewest && !(type === "sentence" && /[,，、]$/.test(clause));
}

const partsOf = ({ unit, span }: Pick<Target, "unit" | "span">, spans: readonly { unit: Unit; span: Span }[]): Span[] =>
  spans
    .filter((one) => one.unit === unit && one.span.start >= span!.start && one.span.end <= span!.end)
    .map((one) => one.span);

export function targetsOf(passage: Passage, spans: readonly { unit: Unit; span: Span }[]): Target[] {
  const earlier = earlierOf(passage);
  const ofSpans = spans.map(({ unit, span }): Target => {
    const [from, to] = [span.start - unit.at, span.end - unit.at];
    return {
      id: `${passage.id}:${span.start}`,
      passage,
      unit,
      kind: span.kind,
      answer: unit.text.slice(from, to),
      place: { start: unit.start, end: unit.end },
      span,
      before: unit.text.slice(0, from),
      after: unit.text.slice(to),
      earlier: earlier.get(unit) ?? "",
    };
  });
  return [...ofSpans, ...passage.units.flatMap((unit) => cellTargets(passage, unit)), ...askedTargets(passage)];
}

/** For each unit, the text of the unit before it in its paragraph. Once the paragraph asks a question, the question instead. */
function earlierOf({ units, text }: Passage): ReadonlyMap<Unit, string> {
  const earlier = new Map<Unit, string>();
  let last: Unit | null = null;
  let question = "";
  for (const unit of units) {
    const goesOn = last !== null && text.slice(last.at + last.text.length, unit.at) === " ";
    if (!goesOn) question = "";
    if (goesOn) earlier.set(unit, question || last!.text);
    if (isQuestion(unit.text)) question = unit.text;
    last = unit;
  }
  return earlier;
}

/**
 * Maximum words of a list's introduction for it to come first in an answer. After a longer introduction, the answer would come too
 * late.
 */
const mostAhead = 12;

/** The answer as it is trained. An item of a list comes with the words that introduce the list. */
export function saidOf({ unit, answer, kind }: Target): string {
  if (kind !== "clause" || unit.type !== "item" || unit.lead === "" || !unit.text.startsWith(answer)) return answer;
  if (unit.lead.split(/\s+/).length <= mostAhead) return `${unit.lead} ${answer}`;
  return `${answer.replace(/[.,;]+$/, "")} (${unit.lead.replace(/\s*[:：]$/, "")})`;
}

/** Whether the answer is a whole clause; a question then asks for some words of it. */
export const isClause = ({ kind }: Target): boolean => kind === "clause";

/**
 * Returns the targets of a table row. Each cell after the first is asked for by its row and column, and the first cell by at least
 * two of the others.
 */
function cellTargets(passage: Passage, unit: Unit): Target[] {
  if (unit.type !== "row") return [];
  const { cells, header } = unit;
  const place = { start: unit.start, end: unit.end };
  const common = { passage, unit, place, after: "", earlier: "" };
  let at = unit.at;
  const starts = cells.map((cell) => {
    const here = at;
    at += cell.length + cellsJoin.length;
    return here;
  });
  const others = cells.flatMap((cell, column): Target[] => {
    if (column === 0 || !/[\p{L}\p{N}]/u.test(cell)) return [];
    const span: Span = { start: starts[column]!, end: starts[column]! + cell.length, kind: "cell" };
    const before = [...namesOf(cells, column), header[column] ?? ""].filter((part) => part !== "").join(", ");
    return [{ ...common, id: `${passage.id}:${span.start}`, kind: "cell", answer: cell, span, before }];
  });
  const told = others.map(({ answer }) => answer).filter((answer) => answer.length > 1);
  if (told.length < 2 || !/\p{L}/u.test(cells[0]!)) return others;
  const span: Span = { start: starts[0]!, end: starts[0]! + cells[0]!.length, kind: "cell" };
  const before = told.slice(0, 3).join(", ");
  return [...others, { ...common, id: `${passage.id}:${span.start}`, kind: "key", answer: cells[0]!, span, before }];
}

/** Maximum words of a cell that names its row. A longer cell is a remark. */
const longestName = 6;

/** The cells that identify a row, without the cell asked for: the first cell, and short cells with words. */
export const namesOf = (cells: readonly string[], asked: number): string[] =>
  cells.filter(
    (cell, column) =>
      cell !== "" &&
      column !== asked &&
      (column === 0 || (/\p{L}{2}/u.test(cell) && cell.split(/\s+/).length <= longestName)),
  );

/** Maximum words of an answer that the document itself gives to a question. */
const longestAnswer = 45;

/**
 * Returns the targets for questions that the document itself asks. A question in the text is answered by the text up to the next
 * question or table row, and a question in the nearest heading by the first passage below the heading.
 */
function askedTargets(passage: Passage): Target[] {
  const { units } = passage;
  const targets = units.flatMap((unit, at): Target[] => {
    if (!isQuestion(unit.text) || unit.type === "row") return [];
    const rest = units.slice(at + 1);
    const end = rest.findIndex((next) => isQuestion(next.text) || next.type === "row");
    return answered(passage, unit, unit.text, end < 0 ? rest : rest.slice(0, end));
  });
  const heading = passage.path.at(-1) ?? passage.title;
  if (!isQuestion(heading) || passage.goesOn || units[0] === undefined) return targets;
  return [...targets, ...answered(passage, units[0], heading, units)];
}

function answered(passage: Passage, unit: Unit, question: string, said: readonly Unit[]): Target[] {
  const kept: string[] = [];
  for (const { text } of said) {
    if ([...kept, text].join(" ").split(/\s+/).length > longestAnswer) break;
    kept.push(text);
  }
  if (kept.length === 0) return [];
  const place = { start: unit.start, end: said[kept.length - 1]!.end };
  const id = `${passage.id}:?${unit.at}`;
  const target = { id, passage, unit, kind: "asked" as const, answer: kept.join(" "), place, span: null };
  return [{ ...target, before: question, after: "", earlier: "" }];
}
