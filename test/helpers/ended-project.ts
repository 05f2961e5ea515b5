// A project of a user whose own run is over: what an auto-align needs of it is its snapshot.
import type { Recipe } from "../../src/contract/recipe.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { makeRunFolder } from "../../src/domain/alignments/snapshot.ts";
import type { Store } from "../../src/store/open.ts";
import { insertAlignment } from "./rows.ts";

interface Base {
  model_id: string;
  sha256: string;
  architecture: string;
}

/** `runs`: the folder of the appliance's run folders. The project's id. */
export async function insertEndedProject(
  store: Store,
  runs: string,
  { user, base, document, recipe }: { user: string; base: Base; document: SnapshotDocument; recipe: Recipe },
): Promise<string> {
  const alignmentId = insertAlignment(store, user, base.model_id);
  store
    .prepare<string[]>("UPDATE alignment SET workflow_id = 'tiny', document_ids_json = ? WHERE id = ?")
    .run(JSON.stringify([document.id]), alignmentId);
  await makeRunFolder(runs, {
    alignmentId,
    recipeName: "tiny",
    recipe,
    base: { id: base.model_id, sha256: base.sha256, architecture: base.architecture },
    documents: [document],
    dev: null,
    organisation: null,
    teacher: null,
  });
  return alignmentId;
}
