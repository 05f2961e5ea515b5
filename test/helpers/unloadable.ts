// Models in the database of a house, with files that are none: for tests of everything but serving them.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { places } from "../../src/base/config.ts";
import { sha256 } from "../../src/base/files.ts";
import { openStore } from "../../src/store/open.ts";
import { calibrationWith } from "./calibration.ts";
import { insertAligned } from "./served.ts";

/** A base model whose file lies outside the data folder, and an aligned one of ada's; neither can be loaded. */
export function insertModels(
  data: string,
  outside: string,
): { base: string; adapter: string; modelId: string; alignmentId: string } {
  const store = openStore(places(data).database);
  const base = join(outside, "base.gguf");
  const adapter = join(outside, "adapter.gguf");
  const sources = join(outside, `${sha256("sources")}.json`);
  for (const [path, content] of [
    [base, "base"],
    [adapter, "adapter"],
    [sources, "sources"],
  ] as const)
    writeFileSync(path, content);
  store
    .prepare<unknown[]>(
      `INSERT INTO base_model(id, name, architecture, context_length, parameters, file_type, bytes, memory_bytes, can_be_aligned,
       sha256, path, created_seq, created_at) VALUES('model_base', 'base', 'llama', 1, 1, 'F32', 4, 4, 1, ?, ?, ?, '')`,
    )
    .run(sha256("base"), base, store.nextSeq());
  const made = insertAligned(store, "model_base", adapter, calibrationWith({}));
  store
    .prepare<unknown[]>("UPDATE aligned_model SET adapter_sha256 = ?, sources_path = ? WHERE id = ?")
    .run(sha256("adapter"), sources, made.modelId);
  // Without one the house takes the alignment's run for nobody's.
  store
    .prepare<unknown[]>(
      `INSERT INTO job(id, owner_id, kind, subject_id, state, created_seq, created_at, finished_at)
       SELECT 'job_x', owner_id, 'align', id, 'succeeded', ?, '', '' FROM alignment WHERE id = ?`,
    )
    .run(store.nextSeq(), made.alignmentId);
  store.close();
  return { base, adapter, ...made };
}
