// Rows that tests put into a house's database themselves: what would take a training to come about.
import { sha256 } from "../../src/base/files.ts";
import { newId } from "../../src/base/ids.ts";
import type { Store } from "../../src/store/open.ts";

const userIdOf = (store: Store, name: string): string =>
  store.prepare<[string], { id: string }>("SELECT id FROM user WHERE name = ?").get(name)!.id;

/** A base model without a file; `source` is its name on a hub. */
export function insertBase(store: Store, name: string, source?: string): string {
  const id = newId("model");
  store.transaction(() => {
    store
      .prepare<unknown[]>(
        `INSERT INTO base_model(id, name, architecture, context_length, parameters, file_type, bytes, memory_bytes,
         can_be_aligned, sha256, path, created_seq, created_at)
         VALUES(?, ?, 'llama', 64, 1, 'Q4_1', 1, 1, 1, ?, '/none.gguf', ?, '2026-01-01T00:00:00.000Z')`,
      )
      .run(id, name, sha256(id), store.nextSeq());
    if (source !== undefined)
      store
        .prepare<unknown[]>("INSERT INTO base_model_source VALUES(?, ?, 'r', '2026-01-01T00:00:00.000Z')")
        .run(source, id);
  });
  return id;
}

export type JobEnd = "succeeded" | "failed" | "stopped";

/** An alignment of that user that has ended so. */
export function insertAlignment(store: Store, user: string, baseId: string, end: JobEnd = "succeeded"): string {
  const [id, at] = [newId("alignment"), new Date().toISOString()];
  const owner = userIdOf(store, user);
  store.transaction(() => {
    store
      .prepare<unknown[]>(
        `INSERT INTO alignment(id, owner_id, name, workflow_id, base_model_id, document_ids_json, document_names_json,
         document_sha256s_json, created_seq, created_at) VALUES(?, ?, 'it', 'quick', ?, '[]', '[]', '[]', ?, ?)`,
      )
      .run(id, owner, baseId, store.nextSeq(), at);
    insertAlignJob(store, id, owner, end);
  });
  return id;
}

/** The job of an alignment that has ended so, with its history. */
export function insertAlignJob(store: Store, alignmentId: string, ownerId: string, end: JobEnd): void {
  const [id, at] = [newId("job"), new Date().toISOString()];
  store
    .prepare<unknown[]>(
      `INSERT INTO job(id, owner_id, kind, subject_id, state, fence, created_seq, created_at, finished_at, error_code)
       VALUES(?, ?, 'align', ?, ?, 1, ?, ?, ?, ?)`,
    )
    .run(id, ownerId, alignmentId, end, store.nextSeq(), at, at, end === "failed" ? "run_failed" : null);
  const states = [null, "queued", "running", ...(end === "stopped" ? ["stopping"] : []), end];
  const event = store.prepare<unknown[]>(
    "INSERT INTO job_event(job_id, seq, fence, from_state, to_state, at) VALUES(?, ?, ?, ?, ?, ?)",
  );
  for (let seq = 1; seq < states.length; seq++) event.run(id, seq, seq === 1 ? 0 : 1, states[seq - 1], states[seq], at);
}
