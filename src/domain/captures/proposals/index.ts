// Proposals to run an auto-align. The appliance makes a proposal when enough captured answers of a project's models were rated
// low, needed a person, or were unsure. Only the owner can accept it.
//
//   captured answer, feedback ──► enough of them since the last model or decision ──► PROPOSED ──accept──► ACCEPTED, with its auto-align
//                                                                                        └──dismiss──► DISMISSED
//
// Invariants:
//   1. At most one proposal of a project waits at a time, and it is decided once. Captures that were decided on are not proposed
//      again.
//   2. Only captures are evidence, masked as they were written, and only those of subjects that still have captures enabled.
//   3. A capture that asks a benchmark's question, or nearly so, is in no proposal, and in no training data that comes from one.
//   4. A model's own poor answer is never trained on. Its question is trained on only if a person sends the right answer.
import { Failure, invalid } from "../../../base/errors.ts";
import { newId } from "../../../base/ids.ts";
import type { Log } from "../../../base/log.ts";
import type { Clock } from "../../../base/time.ts";
import type { alignments } from "../../../contract/alignments.ts";
import type { Caller, Handlers, Input, Reply } from "../../../contract/endpoint.ts";
import type { proposals as promises } from "../../../contract/proposals.ts";
import type { SnapshotDocument } from "../../../contract/run-folder.ts";
import type { Store } from "../../../store/open.ts";
import { asMarkdown } from "../markdown.ts";
import {
  becauseOf,
  countsOf,
  type Evidence,
  evidenceOf,
  leaking,
  leastEvidence,
  poor,
  suggestedFor,
} from "./evidence.ts";
import { type EvidenceRow, type Project, type ProposalRow, prepareProposals } from "./store.ts";

type AutoAlign = (typeof alignments)["alignments.auto_align"];
type Accept = (typeof promises)["proposals.accept"];
type Row = Reply<(typeof promises)["proposals.dismiss"]>;
type Record = Reply<(typeof promises)["proposals.get"]>;

export interface Proposed {
  ownerId: string;
  proposalId: string;
  alignmentId: string;
  because: string;
  captures: number;
}

/** The webhook event of a proposal. It does not include the questions and answers. */
export const webhookOf = ({ ownerId, proposalId, alignmentId, because, captures }: Proposed) => ({
  ownerId,
  kind: "auto_align.proposed",
  subjectId: proposalId,
  body: { proposal_id: proposalId, alignment_id: alignmentId, because, captures },
});

export interface ProposalsParts {
  store: Store;
  clock: Clock;
  log: Log;
  /** Whether auto-aligns can be carried out; if not, nothing is proposed. */
  proposes: boolean;
  /** Queues an auto-align. Throws what the auto-align's endpoint throws. `also` is called in the same transaction. */
  beginAutoAlign: (
    asked: Pick<Input<AutoAlign>, "body" | "raw" | "keepReply">,
    caller: Caller,
    alignmentId: string,
    extra: { documents: readonly SnapshotDocument[]; also: (autoAlignId: string) => void },
  ) => Promise<Reply<AutoAlign>>;
  /** Called inside the transaction of every new proposal. */
  onProposed: (proposed: Proposed) => void;
  audit: (act: string, subject: string, detail: Readonly<{ [name: string]: unknown }>, by: Caller) => void;
}

export interface Proposals {
  handlers: Handlers<typeof promises>;
  /**
   * Makes a proposal if there is now enough evidence. Called after an answer, and after feedback on an answer. Errors are logged,
   * not thrown.
   */
  consider(ownerId: string, requestId: string): void;
}

export function createProposals(parts: ProposalsParts): Proposals {
  const { store, clock, log } = parts;
  const sql = prepareProposals(store);

  const sought = (ownerId: string, { id: projectId, since }: Project) => ({ ownerId, projectId, since, poor });
  const questionsOf = (ownerId: string): string[] =>
    sql.benchmarkQuestions.all(ownerId).map(({ instruction }) => instruction);
  const evidenceFor = (ownerId: string, project: Project): Evidence =>
    evidenceOf(sql.evidence.all(sought(ownerId, project)), questionsOf(ownerId));

  function propose(ownerId: string, project: Project): void {
    const { id: projectId, since } = project;
    if (sql.isBusy.get({ projectId, since }) || sql.count.get(sought(ownerId, project))!.n < leastEvidence) return;
    const counts = countsOf(evidenceFor(ownerId, project).taken);
    if (counts.captures < leastEvidence) return;
    const id = newId("proposal");
    store.transaction(() => {
      const at = clock.now();
      // A proposal that still waits is about an older model's answers.
      sql.withdraw.run({ projectId, at });
      sql.insert.run({ id, ownerId, projectId, seq: store.nextSeq(), at });
      const { captures } = counts;
      parts.onProposed({ ownerId, proposalId: id, alignmentId: projectId, because: becauseOf(counts), captures });
    });
  }

  const projectOf = ({ userId: ownerId }: Caller, projectId: string): Project => {
    const project = sql.ownedProject.get({ ownerId, projectId });
    if (project === undefined) throw new Failure("not_found", "Alignment project not found");
    return project;
  };

  interface Params {
    alignment_id: string;
    proposal_id: string;
  }

  function ownedOne(caller: Caller, { alignment_id, proposal_id }: Params): { project: Project; row: ProposalRow } {
    const project = projectOf(caller, alignment_id);
    const row = sql.owned.get({ ownerId: caller.userId, projectId: project.id, id: proposal_id });
    if (row === undefined) throw new Failure("not_found", "Proposal not found");
    return { project, row };
  }

  function openOne(caller: Caller, params: Params): { project: Project; row: ProposalRow } {
    const found = ownedOne(caller, params);
    if (found.row.status !== "PROPOSED")
      throw new Failure("conflict", `The proposal has already been decided: it is ${found.row.status}`);
    return found;
  }

  /** The evidence for a proposal. For a decided proposal, those of the captures it was decided on that still exist. */
  function evidenceOfRow(ownerId: string, project: Project, { captures_json: ids }: ProposalRow): Evidence {
    if (ids === null) return evidenceFor(ownerId, project);
    return { taken: sql.decidedOn.all({ ownerId, ids }), left: { short: 0, duplicate: 0, in_benchmark: 0 } };
  }

  /**
   * Records the decision within the caller's transaction. `upTo` is the sequence number at which `taken` was read: captures made since
   * stay undecided. Throws conflict if the proposal has been decided in the meantime.
   */
  function decide(
    row: ProposalRow,
    status: "ACCEPTED" | "DISMISSED",
    { taken, upTo, autoAlignId }: { taken: readonly EvidenceRow[]; upTo: number; autoAlignId: string | null },
  ): void {
    const captures = JSON.stringify(taken.map(({ id }) => id));
    const decided = { id: row.id, status, autoAlignId, captures, seq: upTo, at: clock.now() };
    if (sql.decide.run(decided).changes !== 1)
      throw new Failure("conflict", "The proposal was decided in the meantime");
  }

  async function accept({ params, body, keepReply }: Input<Accept>, caller: Caller): Promise<Reply<Accept>> {
    const { project, row } = openOne(caller, params);
    const upTo = store.nextSeq();
    const { taken } = evidenceFor(caller.userId, project);
    if (taken.length === 0) throw new Failure("conflict", "No captured answer supports it any more: dismiss it");
    const pairs = answered(taken, body.responses ?? [], questionsOf(caller.userId));
    const suggested = suggestedFor(project);
    const { target_score = suggested.target_score, max_compute_hours = suggested.max_compute_hours } = body;
    const asked = { ...asUsual, target_score, max_compute_hours };
    return parts.beginAutoAlign({ body: asked, raw: {}, keepReply }, caller, project.id, {
      documents: pairs.length === 0 ? [] : [documentOf(row, project, pairs)],
      also(autoAlignId) {
        decide(row, "ACCEPTED", { taken, upTo, autoAlignId });
        const used = sql.use.run({ ids: JSON.stringify(pairs.map(({ id }) => id)), usedIn: autoAlignId });
        if (used.changes !== pairs.length)
          throw new Failure("conflict", "Some of these captures were used or deleted in the meantime");
        const detail = { auto_align_id: autoAlignId, captures: taken.length, responses: pairs.length };
        parts.audit("proposal.accept", row.id, detail, caller);
      },
    });
  }

  return {
    consider(ownerId, requestId) {
      if (!parts.proposes) return;
      try {
        const project = sql.projectOfRequest.get({ ownerId, requestId });
        if (project !== undefined) propose(ownerId, project);
      } catch (error) {
        log("error", "proposal.failed", { error });
      }
    },
    handlers: {
      "proposals.list": async ({ params, query }, caller) => {
        const project = projectOf(caller, params.alignment_id);
        const rows = sql.page.all({ ownerId: caller.userId, projectId: project.id, ...query });
        return {
          proposals: rows.map((row) => toRow(row, project, evidenceOfRow(caller.userId, project, row).taken)),
        };
      },
      "proposals.get": async ({ params }, caller) => {
        const { project, row } = ownedOne(caller, params);
        return toRecord(row, project, evidenceOfRow(caller.userId, project, row));
      },
      "proposals.accept": accept,
      "proposals.dismiss": async ({ params }, caller) => {
        const { project, row } = openOne(caller, params);
        const { taken } = evidenceFor(caller.userId, project);
        store.transaction(() => {
          decide(row, "DISMISSED", { taken, upTo: store.nextSeq(), autoAlignId: null });
          parts.audit("proposal.dismiss", row.id, { captures: taken.length }, caller);
        });
        return toRow(ownedOne(caller, params).row, project, taken);
      },
    },
  };
}

/** The defaults that the endpoint fills in for a request that gives only a target. */
const asUsual = {
  benchmark_id: null,
  method: "auto",
  representations: "auto",
  sequencing: null,
  notify_on_phase_transition: true,
  config: null,
} as const;

interface AnsweredCapture {
  id: string;
  instruction: string;
  response: string;
}

/** Pairs captured questions with the right answers that a person sent. Throws validation failures that name the entry. */
function answered(
  taken: readonly EvidenceRow[],
  responses: readonly { capture: string; response: string }[],
  benchmarkQuestions: readonly string[],
): AnsweredCapture[] {
  const rows = new Map(taken.map((row) => [row.id, row]));
  const pairs = responses.map(({ capture, response }, at) => {
    const row = rows.get(capture);
    if (row === undefined)
      throw invalid(["body", "responses", at, "capture"], "is not one of the proposal's captured answers");
    if (responses.findIndex((one) => one.capture === capture) !== at)
      throw invalid(["body", "responses", at, "capture"], "is answered twice");
    return { id: capture, instruction: row.question, response };
  });
  const met = leaking(
    pairs.map(({ instruction, response }) => ({ question: instruction, answer: response })),
    benchmarkQuestions,
  );
  for (const at of met)
    throw invalid(["body", "responses", at, "response"], "contains a question of one of your benchmarks");
  return pairs;
}

const documentOf = ({ id }: ProposalRow, { name }: Project, pairs: readonly AnsweredCapture[]): SnapshotDocument => ({
  id,
  name: `${name}, captured questions.md`,
  media_type: "text/markdown",
  text: asMarkdown(`${name}: captured questions`, pairs),
});

function toRow(row: ProposalRow, project: Project, taken: readonly EvidenceRow[]): Row {
  const counts = countsOf(taken);
  return {
    proposal_id: row.id,
    alignment_id: row.alignment_id,
    status: row.status,
    because: becauseOf(counts),
    ...counts,
    suggested: suggestedFor(project),
    auto_align_id: row.auto_align_id,
    created_date: row.created_at,
    decided_date: row.decided_at,
  };
}

const toRecord = (row: ProposalRow, project: Project, { taken, left }: Evidence): Record => ({
  ...toRow(row, project, taken),
  trains_on: trainsOn(row, taken),
  evidence: taken.map((one) => ({
    capture_id: one.id,
    model_id: one.model_id,
    question: one.question,
    answer: one.answer,
    confidence_score: one.confidence,
    rating: one.rating,
    intervention: one.intervention === 1,
    created_at: one.created_at,
  })),
  left,
});

function trainsOn({ status, auto_align_id: autoAlignId }: ProposalRow, taken: readonly EvidenceRow[]): string {
  const documents = "The project's documents, as they were when it was created";
  if (status !== "ACCEPTED")
    return `${documents}, and each of these questions for which you send the correct answer when you accept the proposal.`;
  const used = taken.filter(({ used_in: usedIn }) => usedIn === autoAlignId).length;
  return `${documents}, and ${used} of these questions, with the correct answers that were sent.`;
}
