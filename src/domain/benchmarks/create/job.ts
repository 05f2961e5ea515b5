// Makes a benchmark: documents → plans → written questions → gates → a model's checks, a group at a time → items.
//
//   queued ──► reading ──► phrasing ──► checking ──► done
//                  └──(no model writes)──► ▲
//
// Invariants:
//   1. Plans are stored in one transaction. So are the drafts that replace them, with the counts of the gates. So a restart finds
//      all plans or drafts, or none.
//   2. Once the questions about a passage, or the verdict on a draft, are stored, that work is not repeated. A group's results are stored
//      in one transaction under the claim.
//   3. The benchmark appears as a whole, in the transaction that ends the job, and passes the same checks as an upload.
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../../base/errors.ts";
import { sha256 } from "../../../base/files.ts";
import type { UploadedFile } from "../../../contract/endpoint.ts";
import type { Claim } from "../../../jobs/queue.ts";
import type { Worker } from "../../../jobs/runner.ts";
import { check, checkedOf } from "./checking.ts";
import { type Checked, choose } from "./checks.ts";
import { phrase, read } from "./drafting.ts";
import type { GateCount } from "./gates.ts";
import { type Gates, isStopping, type MakeParts, markOf, settingsOf, takenOver } from "./parts.ts";

export const checker =
  "The model sees only the passage: the likelihood of the right answer, per token, must exceed that of every wrong answer";

export interface Maker extends Worker {
  /**
   * Number of drafts checked so far, if this benchmark is being made; otherwise 0. Includes drafts whose verdicts are
   * not stored yet, because a group takes half a minute.
   */
  checked(benchmarkId: string): number;
}

export function createMaker(parts: MakeParts): Maker {
  const { queue, rows } = parts;
  let current = { id: "", checked: 0 };
  return {
    concurrency: 1,
    checked: (benchmarkId) => (current.id === benchmarkId ? current.checked : 0),
    async run(claim, signal) {
      const draftNow = () => rows.draft.get(claim.subjectId)!;
      const { id, owner_id, phase } = draftNow();
      if (phase === "queued" || phase === "reading") await read(parts, claim, draftNow(), signal);
      if (draftNow().phase === "phrasing") await phrase(parts, claim, draftNow(), signal);
      if (draftNow().phase === "checking") {
        const { ref } = parts.findModel(owner_id, settingsOf(draftNow()).model_id);
        const lease = await parts.lease(ref);
        const progress = { id, checked: draftNow().checked };
        current = progress;
        try {
          await check(parts, claim, ref, () => void progress.checked++, signal);
        } finally {
          await lease.release();
        }
      }
      if (isStopping(parts, claim)) queue.move(claim, "stopped", {}, () => rows.dropCandidates.run(id));
      else await finish(parts, claim, signal);
    },
  };
}

async function finish(parts: MakeParts, claim: Claim, signal: AbortSignal): Promise<void> {
  const { rows, queue, clock } = parts;
  const draft = rows.draft.get(claim.subjectId)!;
  const { wanted } = settingsOf(draft);
  const checked = checkedOf(rows, draft.id);
  const { chosen, read, answerable, needed, fair, shared } = choose(checked, wanted);
  const gates: GateCount[] = [
    ...(JSON.parse(draft.gates_json) as Gates).gates,
    { gate: "readable", in: checked.length, out: read },
    { gate: "answerable", in: read, out: answerable },
    { gate: "needs_document", in: answerable, out: needed },
    { gate: "options_only", in: needed, out: fair },
    { gate: "few_declined", in: fair, out: shared },
    { gate: "wanted", in: shared, out: chosen.length },
  ];
  const mark = markOf(draft, claim);
  const at = clock.now();
  const categories: Record<string, number> = {};
  for (const { draft: one } of chosen) categories[one.category] = (categories[one.category] ?? 0) + 1;
  const gates_json = JSON.stringify({ gates, categories } satisfies Gates);
  if (chosen.length === 0) throw noItem(gates);
  const text = rowsOf(chosen);
  const file: UploadedFile = {
    name: `${draft.name}.jsonl`,
    declaredType: "application/jsonl",
    path: join(parts.folder, `${draft.id}.jsonl`),
    bytes: Buffer.byteLength(text),
    sha256: sha256(text),
  };
  // The file holds the sealed answers, so only the server's system user can read it, and it is removed in the end.
  await writeFile(file.path, text, { mode: 0o600 });
  try {
    await parts.keep(draft, file, signal, () => {
      const done = { ...mark, phase: "done", gates_json, seconds: draft.seconds, at } as const;
      if (rows.setDraft.run(done).changes !== 1) throw takenOver();
      rows.dropCandidates.run(draft.id);
      if (!queue.move(claim, "succeeded")) throw takenOver();
    });
  } finally {
    await rm(file.path, { force: true });
  }
}

function noItem(gates: readonly GateCount[]): Failure {
  const counts = gates.map((gate) => `${gate.gate} ${gate.out} of ${gate.in}`).join(", ");
  const advice = "Name a generator_model that writes better questions, here or with a generator_provider";
  return new Failure("benchmark_invalid", `No item passed all gates: ${counts}. ${advice}`);
}

/**
 * Formats the items as an upload in JSONL. Clusters with an item that the model already knows go to the retention split,
 * because an alignment must not lose that knowledge.
 */
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
