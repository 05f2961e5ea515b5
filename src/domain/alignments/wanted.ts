// Looks up what a request for an alignment names: base, recipe, benchmark and teacher. Each is looked up before anything is made, and
// the failure says which one is wrong.
import { Failure, invalid } from "../../base/errors.ts";
import type { Item } from "../../catalog/benchmarks.ts";
import type { alignments } from "../../contract/alignments.ts";
import type { Caller, Input } from "../../contract/endpoint.ts";
import type { Recipe } from "../../contract/recipe.ts";
import type { Teacher } from "../../run/folder/teacher.ts";
import type { AlignmentRow } from "./store.ts";

type CreateBody = Input<(typeof alignments)["alignments.create"]>["body"];

export interface AlignableBase {
  id: string;
  sha256: string;
  architecture: string;
  can_be_aligned: 0 | 1;
  reason: string | null;
}

/** The fields of a benchmark's item that alignments use. */
export type BenchmarkItem = Pick<Item, "sample_num" | "instruction" | "response" | "aliases" | "cluster" | "split">;

export interface Lookups {
  recipes: ReadonlyMap<string, Recipe>;
  /** Finds a base by id or name; null if there is none. */
  findBase: (name: string) => AlignableBase | null;
  /**
   * Finds a base by its name on a hub, and imports it if it is not installed. Throws hub_unavailable, and what an import
   * throws.
   */
  hubBase: (name: string, caller: Caller, field?: readonly string[]) => Promise<AlignableBase>;
  /** The owner's benchmark; null if there is none. */
  findBenchmark: (ownerId: string, benchmarkId: string) => { id: string; sha256: string } | null;
  itemsOf: (benchmarkId: string) => BenchmarkItem[];
  /** The id of a model that answers chats. Throws not_found. */
  findModel: (ownerId: string, model: string) => string;
  hasUpstream: (name: string) => boolean;
  /** Returns, for each item, the expected answers of other items that an answer to it must not name. */
  competitorsOf: (items: readonly BenchmarkItem[]) => string[][];
}

export function recipeOf({ recipes }: Lookups, name: string): Recipe {
  const recipe = recipes.get(name);
  if (recipe !== undefined) return recipe;
  throw invalid(["body", "workflow_id"], `must be one of ${[...recipes.keys()].join(", ")}`, "enum_error");
}

/** Finds a base by its id, name or hf:// name, which the body's `field` gives. */
export async function alignableBase(
  parts: Lookups,
  name: string,
  caller: Caller,
  field: readonly string[] = ["base_model_id"],
): Promise<AlignableBase> {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(name)?.[1];
  if (scheme !== undefined && scheme !== "hf")
    throw new Failure(
      "base_model_unsupported",
      `A base model must be an id, a name or an hf:// name; ${scheme}:// is not supported`,
    );
  const base = scheme === "hf" ? await parts.hubBase(name, caller, field) : parts.findBase(name);
  if (base === null) throw new Failure("not_found", "Base model not found");
  if (base.can_be_aligned === 0)
    throw new Failure("base_model_unsupported", `The base model does not support alignment: ${base.reason}`);
  return base;
}

/**
 * Whether the row's documents are these, in any order. Ids are compared and not the files' hashes, because the same file
 * uploaded with masking has another text.
 */
export function sameDocuments(row: AlignmentRow, ids: readonly string[]): boolean {
  const theirs = JSON.parse(row.document_ids_json) as string[];
  return JSON.stringify(theirs.toSorted()) === JSON.stringify(ids.toSorted());
}

/** Returns the request's benchmark, or null if the request names none. Throws not_found unless it is the caller's. */
export function benchmarkOf(
  { findBenchmark }: Lookups,
  { userId }: Caller,
  body: CreateBody,
): { id: string; sha256: string } | null {
  if (body.benchmark_id === undefined) return null;
  const found = findBenchmark(userId, body.benchmark_id);
  if (found === null) throw new Failure("not_found", "Benchmark not found");
  return found;
}

/**
 * Returns the teacher that the request names, with the id of the caller's key, or null if it names none. Throws
 * not_found or a validation failure.
 */
export function teacherOf(parts: Lookups, caller: Caller, body: CreateBody): Teacher | null {
  const { teacher_model: model, teacher_provider: provider = null } = body;
  if (model === undefined) return null;
  const key_id = caller.keyId;
  if (provider === null) return { model: parts.findModel(caller.userId, model), provider, key_id };
  if (!parts.hasUpstream(provider))
    throw invalid(["body", "teacher_provider"], "no upstream of this name is configured");
  return { model, provider, key_id };
}

export function sameTeacher(kept: string | null, wanted: Teacher | null): boolean {
  const known = kept === null ? null : (JSON.parse(kept) as Teacher);
  return known?.model === wanted?.model && known?.provider === wanted?.provider;
}

/**
 * Returns the dev split for the run folder, and the questions of all splits, of which the folder gets only marks.
 * Otherwise nothing of the sealed split may get into the folder, not even as a competing answer.
 */
export function devOf(parts: Lookups, { id: benchmarkId, sha256 }: { id: string; sha256: string }) {
  const all = parts.itemsOf(benchmarkId);
  const dev = all.filter((item) => item.split === "dev");
  const competitors = parts.competitorsOf(dev);
  const items = dev.map(({ sample_num, instruction, response, aliases, cluster }, index) => ({
    sample_num,
    instruction,
    response,
    aliases,
    cluster,
    competitors: competitors[index]!,
  }));
  return { benchmarkId, sha256, items, questions: all.map(({ instruction }) => instruction) };
}
