// Turns documents into drafts, which are checked later: plans which passages to ask about, has the questions written and verified, and
// applies the gates.
import { Failure } from "../../../base/errors.ts";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import type { Claim } from "../../../jobs/queue.ts";
import type { WrittenOf } from "../../../study/items/candidates.ts";
import type { ItemPlan } from "../../../study/items/plan.ts";
import type { Verified } from "../../../study/items/written.ts";
import { openStudyThread, type StudyThread } from "../../../study/thread.ts";
import type { DraftRow } from "../store.ts";
import { type Draft, type GateCount, passGates, withoutParaphrases } from "./gates.ts";
import { type Gates, isStopping, type MakeParts, markOf, settingsOf, takenOver } from "./parts.ts";
import { chatWriter, type ItemWriter, isToSearch } from "./writing.ts";

const noGates = JSON.stringify({ gates: [], categories: {} } satisfies Gates);

const unwritten =
  "No model wrote questions. Questions about tables and key-value lines are made from fixed templates; questions about other text need a generator_model";

/** Plans the questions for the generator model to write. If there is no generator or no plan, makes the drafts at once. */
export async function read(parts: MakeParts, claim: Claim, draft: DraftRow, signal: AbortSignal): Promise<void> {
  const { rows, store, clock } = parts;
  const { seed, wanted, generator } = settingsOf(draft);
  const mark = markOf(draft, claim);
  rows.setDraft.run({ ...mark, phase: "reading", gates_json: noGates, seconds: 0, at: clock.now() });
  await withDocuments(parts, draft, signal, async (documents, thread) => {
    const plans = generator !== null ? await thread.plan({ documents, seed, wanted }) : [];
    if (plans.length === 0) return settle(parts, claim, draft, { documents, written: null, thread }, signal);
    store.transaction(() => {
      plans.forEach((plan, position) => {
        const { changes } = rows.addCandidate.run({ ...mark, position, draft: JSON.stringify(plan) });
        if (changes !== 1) throw takenOver();
      });
      rows.setDraft.run({ ...mark, phase: "phrasing", gates_json: noGates, seconds: 0, at: clock.now() });
    });
  });
}

async function withDocuments(
  parts: MakeParts,
  draft: DraftRow,
  signal: AbortSignal,
  work: (documents: SnapshotDocument[], thread: StudyThread) => Promise<void>,
): Promise<void> {
  const found = await parts.documentsOf(draft.owner_id, JSON.parse(draft.document_ids_json) as string[]);
  const documents = found.map(({ id, name, media_type, text, pages, blocks }): SnapshotDocument => {
    const plain = blocks.map(({ type, level, start, end }) => ({ type, level, start, end }));
    return { id, name, media_type, text, ...(pages && { pages }), blocks: plain };
  });
  const thread = openStudyThread(signal);
  try {
    await work(documents, thread);
  } finally {
    await thread.close();
  }
}

/**
 * Number of verified passages for each item wanted; more than one, because the checks drop some. A passage is verified
 * if the model, asked again, gives the same answer to at least one of the questions that it wrote.
 */
const enough = 1.5;

/**
 * Writes questions until there are enough verified passages or no plan is left. After each group, searches other
 * passages for answers to its unanswerable questions. At the end, applies the gates.
 */
export async function phrase(parts: MakeParts, claim: Claim, draft: DraftRow, signal: AbortSignal): Promise<void> {
  const { rows } = parts;
  const { wanted } = settingsOf(draft);
  const plans = rows.candidates.all(draft.id);
  const planOf = (at: number): ItemPlan => JSON.parse(plans[at]!.draft_json) as ItemPlan;
  const written = plans.flatMap(({ phrased_json }) =>
    phrased_json === null ? [] : [JSON.parse(phrased_json) as Verified[]],
  );
  const isEnough = (): boolean =>
    written.filter((items) => items.some(({ verified }) => verified)).length >= enough * wanted;
  const writer = writerOf(parts, draft, signal);
  let { seconds } = draft;
  const keep = (first: number, items: readonly Verified[][], since: number): void => {
    seconds += (parts.clock.monotonicMs() - since) / 1000;
    keepWritten(parts, claim, draft, first, items, seconds);
    for (const [at, some] of items.entries()) written[first + at] = some;
  };
  await withDocuments(parts, draft, signal, async (documents, thread) => {
    if (writer !== null) {
      await thread.index({ documents });
      const searchOpen = async (): Promise<void> => {
        const open = written.flatMap((items, at) => items.filter(isToSearch).map((item) => ({ at, item })));
        const found = await thread.search(open.map(({ item }) => item.question));
        for (const [index, { at, item }] of open.entries()) {
          signal.throwIfAborted();
          const since = parts.clock.monotonicMs();
          const searched = await writer.search(item, planOf(at), found[index]!);
          keep(at, [written[at]!.map((one) => (one === item ? searched : one))], since);
        }
      };
      // If an earlier process ended between writing and searching, passages that answer some questions still have to be searched for.
      await searchOpen();
      while (written.length < plans.length && !isEnough()) {
        signal.throwIfAborted();
        if (isStopping(parts, claim)) return;
        const first = written.length;
        const group = plans.slice(first, first + writer.together).map((_, at) => planOf(first + at));
        const since = parts.clock.monotonicMs();
        keep(first, await writer.write(group), since);
        await searchOpen();
      }
    }
    const said = written.map((items, at): WrittenOf => {
      const { passage, near } = planOf(at);
      return { passage: passage.id, near: near?.id ?? null, items };
    });
    await settle(parts, claim, draft, { documents, written: said, thread }, signal);
  });
}

function keepWritten(
  { rows, store, clock }: MakeParts,
  claim: Claim,
  draft: DraftRow,
  first: number,
  items: readonly Verified[][],
  seconds: number,
): void {
  const mark = markOf(draft, claim);
  store.transaction(() => {
    for (const [at, some] of items.entries()) {
      const phrased = JSON.stringify(some);
      if (rows.setPhrased.run({ ...mark, position: first + at, phrased }).changes !== 1) throw takenOver();
    }
    rows.setDraft.run({ ...mark, phase: "phrasing", gates_json: noGates, seconds, at: clock.now() });
  });
}

/** Maximum tokens of a reply. The questions about a passage, or their answers, take some 500. */
const longestReply = 2000;

/** Returns a writer that asks the model that the request names; null if it names none. */
function writerOf(parts: MakeParts, draft: DraftRow, signal: AbortSignal): ItemWriter | null {
  const { generator: by } = settingsOf(draft);
  const options = { maxTokens: longestReply, signal };
  return by && chatWriter(async (content) => (await parts.say(draft.owner_id, by, content, options)).text);
}

interface Material {
  documents: SnapshotDocument[];
  /** What the writer wrote; null if no writer was asked. */
  written: readonly WrittenOf[] | null;
  thread: StudyThread;
}

/** Replaces the plans with drafts, in one transaction with the counts of the gates. */
async function settle(
  parts: MakeParts,
  claim: Claim,
  draft: DraftRow,
  { documents, written, thread }: Material,
  signal: AbortSignal,
): Promise<void> {
  const { rows, store, clock } = parts;
  const { seed, wanted, generator } = settingsOf(draft);
  const candidates = await thread.candidates({ documents, seed, wanted, written: written ?? [] });
  if (candidates.length === 0) throw nothingToAsk(generator !== null, written !== null);
  const { drafts, gates } = passGates(candidates, documents, written === null ? unwritten : null);
  const { left, count } = await paraphraseGate(parts, drafts, signal);
  const gates_json = JSON.stringify({ gates: [...gates, count], categories: {} } satisfies Gates);
  const mark = markOf(draft, claim);
  store.transaction(() => {
    const at = clock.now();
    if (rows.setDraft.run({ ...mark, phase: "checking", gates_json, seconds: 0, at }).changes !== 1) throw takenOver();
    rows.dropCandidates.run(draft.id);
    for (const [position, one] of left.entries())
      rows.addCandidate.run({ ...mark, position, draft: JSON.stringify(one) });
  });
}

const nothingToAsk = (isNamed: boolean, wasAsked: boolean): Failure =>
  new Failure(
    "benchmark_invalid",
    isNamed && !wasAsked
      ? "The documents have no sentence, table row or key-value line that a question could be about"
      : isNamed
        ? "The model that writes questions wrote none that can be read, and the documents have no tables or key-value lines, for which no model is needed. Name another generator_model, here or with a generator_provider"
        : "No model writes questions here, and the documents have no tables or key-value lines, for which no model is needed. Name a generator_model, here or with a generator_provider",
  );

/** Drops paraphrases. Lets every draft pass if no encoder is available, and says so in its count. */
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
    return open(`The sentence encoder failed: ${error.message}`);
  }
}
