// The making of a benchmark: documents → candidates → gates → a model's checks, a group at a time → items.
//
//   queued ──► reading ──► phrasing ──► checking ──► done
//                  └──(no model phrases)──► ▲
//
// Invariants:
//   1. Candidates are written in one transaction with the counts of their gates: a restart reads the documents again or not at all.
//   2. No candidate is phrased or checked twice: what a group came to is written in one transaction under the claim.
//   3. The benchmark appears whole, in the transaction that ends the job, and goes through the checks of an upload.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../../base/errors.ts";
import { sha256 } from "../../../base/files.ts";
import { normalised } from "../../../base/text.ts";
import type { Clock } from "../../../base/time.ts";
import type { UploadedFile } from "../../../contract/endpoint.ts";
import { formatChat } from "../../../engine/chat-format.ts";
import type { Generator, ModelRef } from "../../../engine/generator.ts";
import type { Claim, Queue } from "../../../jobs/queue.ts";
import type { Worker } from "../../../jobs/runner.ts";
import type { Store } from "../../../store/open.ts";
import type { BenchmarkRows, DraftRow } from "../store.ts";
import { candidatesOf, type FoundFact, type SourceDocument } from "./candidates.ts";
import { type Checked, checkDrafts, choose, type Grade, type Scored, type Verdict } from "./checks.ts";
import { type Draft, type GateCount, passGates, withoutParaphrases } from "./gates.ts";
import { phrased, phrasingOf } from "./phrasing.ts";

export interface DraftSettings {
  model_id: string;
  wanted: number;
  seed: number;
  /** The model that phrases the questions, and by whose key; null where the rules' own wordings are asked. */
  generator: { model: string; provider: string | null; key_id: string } | null;
}

/** Of a draft: how many came to each gate and how many passed, and how many items there are of each category. */
export interface Gates {
  gates: GateCount[];
  categories: Record<string, number>;
}

export const checker =
  "The model sees the passage alone: the likelihood of the right answer, per token, must exceed that of every wrong one";

/** What reading documents takes, in a thread; another room knows how. */
export interface Reading {
  facts(documents: readonly SourceDocument[]): Promise<FoundFact[]>;
  /** For each question, whether a row that an alignment would train on gives it away. */
  leaks(documents: readonly SourceDocument[], questions: readonly string[]): Promise<boolean[]>;
}

export interface MakeParts {
  store: Store;
  rows: BenchmarkRows;
  queue: Queue;
  clock: Clock;
  generator: Generator;
  reading: Reading;
  /** Where the benchmark's file lies until it is kept. */
  folder: string;
  documentsOf: (ownerId: string, ids: readonly string[]) => Promise<SourceDocument[]>;
  findModel: (ownerId: string, modelId: string) => { ref: ModelRef };
  lease: (ref: ModelRef) => Promise<{ release(): Promise<void> }>;
  grade: Grade;
  /** The sentence encoder that is installed; null where none is. */
  encoder: () => ModelRef | null;
  /** A chat model's answer to one message, at temperature 0. */
  say: (
    ownerId: string,
    by: NonNullable<DraftSettings["generator"]>,
    content: string,
    signal: AbortSignal,
  ) => Promise<string>;
  /** Keeps the items as an upload would be kept; `also` runs in its transaction. */
  keep: (draft: DraftRow, file: UploadedFile, signal: AbortSignal, also: () => void) => Promise<void>;
}

const noGates = JSON.stringify({ gates: [], categories: {} } satisfies Gates);

/** Drafts that are checked between two writes. */
const groupSize = 8;
/** Tokens of a closed-book answer. */
const answerTokens = 16;

export function createMaker(parts: MakeParts): Worker {
  const { queue, rows } = parts;
  return {
    concurrency: 1,
    async run(claim, signal) {
      const draft = rows.draft.get(claim.subjectId)!;
      if (draft.phase === "queued" || draft.phase === "reading") await read(parts, claim, draft, signal);
      const { model_id, generator } = JSON.parse(draft.settings_json) as DraftSettings;
      if (generator !== null && rows.draft.get(draft.id)!.phase === "phrasing")
        await phrase(parts, claim, generator, signal);
      const { ref } = parts.findModel(draft.owner_id, model_id);
      const lease = await parts.lease(ref);
      try {
        await check(parts, claim, ref, signal);
      } finally {
        await lease.release();
      }
      if (isStopping(parts, claim)) queue.move(claim, "stopped", {}, () => rows.dropCandidates.run(draft.id));
      else await finish(parts, claim, signal);
    },
  };
}

const isStopping = ({ queue }: Pick<MakeParts, "queue">, claim: Claim): boolean =>
  queue.of(claim.subjectId, "generate")?.state === "stopping";

async function read(parts: MakeParts, claim: Claim, draft: DraftRow, signal: AbortSignal): Promise<void> {
  const { rows, store, clock, reading } = parts;
  const { seed, generator } = JSON.parse(draft.settings_json) as DraftSettings;
  const mark = { id: draft.id, jobId: claim.jobId, fence: claim.fence };
  rows.setDraft.run({ ...mark, phase: "reading", gates_json: noGates, seconds: 0, at: clock.now() });
  const documents = await parts.documentsOf(draft.owner_id, JSON.parse(draft.document_ids_json) as string[]);
  const candidates = candidatesOf(documents, await reading.facts(documents), seed);
  const questions = [...new Set(candidates.flatMap(({ wordings }) => wordings))];
  const leaks = await reading.leaks(documents, questions);
  const { drafts, gates } = passGates(candidates, documents, new Set(questions.filter((_, at) => leaks[at])));
  const { left, count } = await paraphraseGate(parts, drafts, signal);
  store.transaction(() => {
    left.forEach((one, position) => {
      const { changes } = rows.addCandidate.run({ ...mark, position, draft: JSON.stringify(one) });
      if (changes !== 1) throw takenOver();
    });
    const gates_json = JSON.stringify({ gates: [...gates, count], categories: {} } satisfies Gates);
    const phase = generator === null ? "checking" : "phrasing";
    rows.setDraft.run({ ...mark, phase, gates_json, seconds: 0, at: clock.now() });
  });
}

/** Open where no encoder can be had, which its count says. */
async function paraphraseGate(
  { encoder, lease, generator }: MakeParts,
  drafts: Draft[],
  signal: AbortSignal,
): Promise<{ left: Draft[]; count: GateCount }> {
  const open = (skipped: string) => ({
    left: drafts,
    count: { gate: "paraphrase", in: drafts.length, out: drafts.length, skipped },
  });
  const ref = encoder();
  if (ref === null) return open("No sentence encoder is installed");
  try {
    const left = await withoutParaphrases(drafts, async (texts) => {
      const held = await lease(ref);
      try {
        return (await generator.embed(ref, texts, { truncate: true, signal })).map(({ vector }) => vector);
      } finally {
        await held.release();
      }
    });
    return { left, count: { gate: "paraphrase", in: drafts.length, out: left.length } };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof Failure)) throw error;
    return open(`The sentence encoder could not be asked: ${error.message}`);
  }
}

const takenOver = (): Failure => new Failure("conflict", "The benchmark was taken over");

/** Of each question wanted, as many are phrased; should more than a third fail, the rest is asked as rules phrase it. */
const spare = 1.5;

async function phrase(
  parts: MakeParts,
  claim: Claim,
  by: NonNullable<DraftSettings["generator"]>,
  signal: AbortSignal,
): Promise<void> {
  const { rows, store, clock } = parts;
  const draft = rows.draft.get(claim.subjectId)!;
  const { wanted } = JSON.parse(draft.settings_json) as DraftSettings;
  const mark = { id: draft.id, jobId: claim.jobId, fence: claim.fence };
  const wording = () => rows.candidates.all(draft.id).slice(0, Math.ceil(spare * wanted));
  let { seconds } = draft;
  for (const { position, draft_json, phrased_json } of wording()) {
    if (phrased_json !== null) continue;
    signal.throwIfAborted();
    if (isStopping(parts, claim)) return;
    const since = clock.monotonicMs();
    const one = JSON.parse(draft_json) as Draft;
    const question = phrased(await parts.say(draft.owner_id, by, phrasingOf(one), signal), one);
    seconds += (clock.monotonicMs() - since) / 1000;
    const { gates_json } = draft;
    store.transaction(() => {
      const { changes } = rows.setPhrased.run({ ...mark, position, phrased: JSON.stringify(question) });
      if (changes !== 1) throw takenOver();
      rows.setDraft.run({ ...mark, phase: "phrasing", gates_json, seconds, at: clock.now() });
    });
  }
  const done = wording().map(({ position, draft_json, phrased_json }) => ({
    position,
    one: JSON.parse(draft_json) as Draft,
    question: JSON.parse(phrased_json!) as string | null,
  }));
  const documents = await parts.documentsOf(draft.owner_id, JSON.parse(draft.document_ids_json) as string[]);
  const leaks = await parts.reading.leaks(
    documents,
    done.map(({ question }) => question ?? ""),
  );
  // Two facts in the same words would be one question.
  const asked = new Set(
    rows.candidates.all(draft.id).map((row) => normalised((JSON.parse(row.draft_json) as Draft).question)),
  );
  const taken = done.filter(({ question }, at) => {
    if (question === null || leaks[at] || asked.has(normalised(question))) return false;
    asked.add(normalised(question));
    return true;
  });
  const { gates, categories } = JSON.parse(draft.gates_json) as Gates;
  const counted: Gates = { gates: [...gates, { gate: "phrased", in: done.length, out: taken.length }], categories };
  store.transaction(() => {
    for (const { position, one, question } of taken)
      rows.setDraftOf.run({ ...mark, position, draft: JSON.stringify({ ...one, question }) });
    rows.setDraft.run({ ...mark, phase: "checking", gates_json: JSON.stringify(counted), seconds: 0, at: clock.now() });
  });
}

const checkedOf = (rows: BenchmarkRows, id: string): Checked[] =>
  rows.candidates
    .all(id)
    .filter(({ verdict_json }) => verdict_json !== null)
    .map(({ draft_json, verdict_json }) => ({
      draft: JSON.parse(draft_json) as Draft,
      verdict: JSON.parse(verdict_json!) as Verdict,
    }));

/** Until there are as many items as are wanted, or no draft is left. */
async function check(parts: MakeParts, claim: Claim, ref: ModelRef, signal: AbortSignal): Promise<void> {
  const { rows, store, clock, grade } = parts;
  const id = claim.subjectId;
  const { wanted } = JSON.parse(rows.draft.get(id)!.settings_json) as DraftSettings;
  const checked = checkedOf(rows, id);
  const left = rows.candidates.all(id).filter(({ verdict_json }) => verdict_json === null);
  const model = asking(parts.generator, ref, signal);
  while (left.length > 0 && choose(checked, wanted).chosen.length < wanted) {
    signal.throwIfAborted();
    if (isStopping(parts, claim)) return;
    const group = left.splice(0, groupSize);
    const drafts = group.map(({ draft_json }) => JSON.parse(draft_json) as Draft);
    const since = clock.monotonicMs();
    const verdicts = await checkDrafts(drafts, { ...model, grade });
    const seconds = (clock.monotonicMs() - since) / 1000;
    store.transaction(() => {
      const mark = { id, jobId: claim.jobId, fence: claim.fence };
      const { gates_json, seconds: before } = rows.draft.get(id)!;
      for (const [at, { position }] of group.entries()) {
        const { changes } = rows.setVerdict.run({ ...mark, position, verdict: JSON.stringify(verdicts[at]) });
        if (changes !== 1) throw takenOver();
      }
      rows.setDraft.run({ ...mark, phase: "checking", gates_json, seconds: before + seconds, at: clock.now() });
    });
    drafts.forEach((draft, at) => {
      checked.push({ draft, verdict: verdicts[at]! });
    });
  }
}

/** What the checks ask of a model, as chats are asked. */
function asking(generator: Generator, ref: ModelRef, signal: AbortSignal) {
  const tokenizer = generator.tokenizer(ref.baseId);
  const context = Math.min(generator.seatContext, tokenizer.trainContext || generator.seatContext);
  const promptOf = (content: string): number[] => formatChat(tokenizer, [{ role: "user", content }]);
  const tokensOf = ({ prompt, answer }: Scored) => {
    const before = promptOf(prompt);
    return { tokens: [...before, ...tokenizer.encode(answer, false)], promptLength: before.length };
  };
  return {
    fits: (row: Scored): boolean => tokensOf(row).tokens.length <= context,
    score: (rows: readonly Scored[]): Promise<Float64Array[]> => generator.score(ref, rows.map(tokensOf), signal),
    async answer(questions: readonly string[]): Promise<string[]> {
      const answers: string[] = [];
      await generator.evaluate({
        model: ref,
        prompts: questions.map(promptOf),
        maxTokens: answerTokens,
        signal,
        onItem: (index, { text }) => {
          answers[index] = text;
        },
        startAt: 0,
      });
      return answers;
    },
  };
}

async function finish(parts: MakeParts, claim: Claim, signal: AbortSignal): Promise<void> {
  const { rows, queue, clock } = parts;
  const draft = rows.draft.get(claim.subjectId)!;
  const { wanted } = JSON.parse(draft.settings_json) as DraftSettings;
  const checked = checkedOf(rows, draft.id);
  const { chosen, read, answerable, needed, fair } = choose(checked, wanted);
  const gates: GateCount[] = [
    ...(JSON.parse(draft.gates_json) as Gates).gates,
    { gate: "readable", in: checked.length, out: read },
    { gate: "answerable", in: read, out: answerable },
    { gate: "needs_document", in: answerable, out: needed },
    { gate: "options_only", in: needed, out: fair },
    { gate: "wanted", in: fair, out: chosen.length },
  ];
  const mark = { id: draft.id, jobId: claim.jobId, fence: claim.fence };
  const at = clock.now();
  const categories: Record<string, number> = {};
  for (const { draft: one } of chosen) categories[one.category] = (categories[one.category] ?? 0) + 1;
  const gates_json = JSON.stringify({ gates, categories } satisfies Gates);
  if (chosen.length === 0) {
    const counts = gates.map((gate) => `${gate.gate} ${gate.out} of ${gate.in}`).join(", ");
    throw new Failure("benchmark_invalid", `No item passed all gates: ${counts}`);
  }
  const text = rowsOf(chosen);
  const file: UploadedFile = {
    name: `${draft.name}.jsonl`,
    declaredType: "application/jsonl",
    path: join(parts.folder, `${draft.id}.jsonl`),
    bytes: Buffer.byteLength(text),
    sha256: sha256(text),
  };
  await writeFile(file.path, text);
  await parts.keep(draft, file, signal, () => {
    const done = { ...mark, phase: "done", gates_json, seconds: draft.seconds, at } as const;
    if (rows.setDraft.run(done).changes !== 1) throw takenOver();
    rows.dropCandidates.run(draft.id);
    if (!queue.move(claim, "succeeded")) throw takenOver();
  });
}

/** As an upload has them. What is known already is held apart: it is what an alignment must not lose. */
function rowsOf(chosen: readonly Checked[]): string {
  const knownClusters = new Set(chosen.filter(({ verdict }) => verdict.known).map(({ draft }) => draft.cluster));
  return chosen
    .map(({ draft: { question, response, aliases, type, choices, citations, cluster } }) => ({
      instruction: question,
      response,
      aliases,
      type,
      ...(type === "choice" ? { choices } : {}),
      citations,
      cluster,
      ...(knownClusters.has(cluster) ? { split: "retention" } : {}),
    }))
    .map((row) => `${JSON.stringify(row)}\n`)
    .join("");
}
