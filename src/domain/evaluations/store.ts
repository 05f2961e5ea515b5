// All SQL of evaluations. An evaluation has one job for its whole life; its public status is read from that job.
import type { ItemType, Split } from "../../catalog/store.ts";
import type { JobState } from "../../jobs/states.ts";
import type { Store } from "../../store/open.ts";

/** Why a sealed split was used. */
export type Purpose = "evaluation" | "comparison" | "promotion" | "look";

export interface EvaluationRow {
  id: string;
  owner_id: string;
  name: string;
  model_id: string;
  base_model_id: string;
  benchmark_id: string;
  alignment_id: string | null;
  n_samples: number;
  /** JSON list of splits. */
  splits_json: string;
  settings_json: string;
  result_json: string | null;
  /** Seconds spent answering, by the monotonic clock. */
  seconds: number;
  created_at: string;
  updated_at: string;
  state: JobState;
  error_text: string | null;
  /** When the job ended, in whatever state. */
  finished_at: string | null;
  answered: number;
}

export interface AnswerRow {
  sample_num: number;
  split: Split;
  type: ItemType;
  answer: string;
  /** 1 if the answer is wholly right. */
  correct: 0 | 1;
  /** In [0, 1]. */
  score: number;
  /** How the item was answered and graded (JSON of a Method). */
  method_json: string;
  confidence: number | null;
  prompt_sha256: string;
}

/** An answer with the fields of its benchmark item. */
export interface ItemRow extends AnswerRow {
  instruction: string;
  response: string;
  cluster: string;
  choices_json: string;
  citations_json: string;
}

export interface TouchRow {
  evaluation_id: string;
  model_id: string;
  purpose: Purpose;
  at: string;
}

export interface GuardRow {
  model_id: string;
  name: string;
  n: number;
  base: number;
  aligned: number;
  most: number | null;
  items_json: string;
}

interface NewEvaluation {
  id: string;
  ownerId: string;
  name: string;
  modelId: string;
  baseModelId: string;
  benchmarkId: string;
  alignmentId: string | null;
  nSamples: number;
  splits: string;
  settings: string;
  seq: number;
  at: string;
}

interface NewAnswer extends AnswerRow {
  evaluationId: string;
  features: string;
  jobId: string;
  fence: number;
}

interface EvaluationFilter {
  ownerId: string;
  /** JSON list of states. */
  states: string;
  modelId: string | null;
  benchmarkId: string | null;
}

const isFiltered = `e.owner_id = :ownerId AND j.state IN(SELECT value FROM json_each(:states))
  AND (:modelId IS NULL OR e.model_id = :modelId) AND (:benchmarkId IS NULL OR e.benchmark_id = :benchmarkId)`;

const evaluation = `SELECT e.*, j.state, j.error_text, j.finished_at,
  (SELECT count(*) FROM evaluation_answer AS a WHERE a.evaluation_id = e.id) AS answered
  FROM evaluation AS e JOIN job AS j ON j.subject_id = e.id AND j.kind = 'evaluate'`;

/** Whether the worker still has its claim to the job. A worker that has lost its claim writes nothing more. */
const isClaimed = "EXISTS(SELECT 1 FROM job WHERE id = :jobId AND fence = :fence AND state = 'running')";

export const prepareEvaluations = (store: Store) => ({
  /** Name of a base or aligned model. */
  modelName: store.prepare<{ id: string }, { name: string }>(
    "SELECT name FROM aligned_model WHERE id = :id UNION ALL SELECT name FROM base_model WHERE id = :id",
  ),
  insert: store.prepare<NewEvaluation>(
    `INSERT INTO evaluation(id, owner_id, name, model_id, base_model_id, benchmark_id, alignment_id, n_samples,
     splits_json, settings_json, created_seq, created_at, updated_at)
     VALUES(:id, :ownerId, :name, :modelId, :baseModelId, :benchmarkId, :alignmentId, :nSamples, :splits, :settings, :seq, :at, :at)`,
  ),
  owned: store.prepare<[string, string], EvaluationRow>(`${evaluation} WHERE e.id = ? AND e.owner_id = ?`),
  byId: store.prepare<[string], EvaluationRow>(`${evaluation} WHERE e.id = ?`),
  ofModel: store.prepare<[string], EvaluationRow>(
    `${evaluation} WHERE e.model_id = ? ORDER BY e.created_seq DESC LIMIT 100`,
  ),
  page: store.prepare<EvaluationFilter & { limit: number; offset: number }, EvaluationRow>(
    `${evaluation} WHERE ${isFiltered} ORDER BY e.created_seq DESC LIMIT :limit OFFSET :offset`,
  ),
  count: store.prepare<EvaluationFilter, { n: number }>(
    `SELECT count(*) AS n FROM evaluation AS e JOIN job AS j ON j.subject_id = e.id AND j.kind = 'evaluate' WHERE ${isFiltered}`,
  ),
  removeAnswers: store.prepare<[string]>("DELETE FROM evaluation_answer WHERE evaluation_id = ?"),
  remove: store.prepare<[string]>("DELETE FROM evaluation WHERE id = ?"),
  removeGuards: store.prepare<[string]>("DELETE FROM guard_result WHERE model_id = ?"),
  /** The owner's latest finished evaluation of a model on a benchmark, among those that covered the sealed split. */
  latestReady: store.prepare<{ ownerId: string; modelId: string; benchmarkId: string }, EvaluationRow>(
    `${evaluation} WHERE e.owner_id = :ownerId AND e.model_id = :modelId AND e.benchmark_id = :benchmarkId
     AND j.state = 'succeeded' AND EXISTS(SELECT 1 FROM json_each(e.splits_json) WHERE value = 'sealed')
     ORDER BY e.created_seq DESC LIMIT 1`,
  ),
  /** Benchmarks on whose sealed items the owner's model was evaluated, latest first. */
  benchmarksOf: store.prepare<{ ownerId: string; modelId: string }, { benchmark_id: string }>(
    `SELECT e.benchmark_id FROM evaluation AS e JOIN job AS j ON j.subject_id = e.id AND j.kind = 'evaluate'
     WHERE e.owner_id = :ownerId AND e.model_id = :modelId AND j.state = 'succeeded'
     AND EXISTS(SELECT 1 FROM evaluation_answer WHERE evaluation_id = e.id AND split = 'sealed')
     GROUP BY e.benchmark_id ORDER BY max(e.created_seq) DESC`,
  ),
  saveSettings: store.prepare<{ id: string; settings: string; at: string; jobId: string; fence: number }>(
    `UPDATE evaluation SET settings_json = :settings, updated_at = :at WHERE id = :id AND ${isClaimed}`,
  ),
  insertAnswer: store.prepare<NewAnswer>(
    `INSERT INTO evaluation_answer(evaluation_id, sample_num, split, type, answer, correct, score, method_json, confidence,
     features_json, prompt_sha256)
     SELECT :evaluationId, :sample_num, :split, :type, :answer, :correct, :score, :method_json, :confidence,
     :features, :prompt_sha256 WHERE ${isClaimed}`,
  ),
  answered: store.prepare<[string], { sample_num: number }>(
    "SELECT sample_num FROM evaluation_answer WHERE evaluation_id = ?",
  ),
  addSeconds: store.prepare<{ id: string; seconds: number; at: string }>(
    "UPDATE evaluation SET seconds = seconds + :seconds, updated_at = :at WHERE id = :id",
  ),
  items: store.prepare<[string], ItemRow>(
    `SELECT a.sample_num, a.split, a.type, a.answer, a.correct, a.score, a.method_json, a.confidence, a.prompt_sha256,
     i.instruction, i.response, i.cluster, i.choices_json, i.citations_json
     FROM evaluation_answer AS a JOIN evaluation AS e ON e.id = a.evaluation_id
     JOIN benchmark_item AS i ON i.benchmark_id = e.benchmark_id AND i.sample_num = a.sample_num
     WHERE a.evaluation_id = ? ORDER BY a.sample_num`,
  ),
  finish: store.prepare<{ id: string; result: string; at: string }>(
    "UPDATE evaluation SET result_json = :result, completed_at = :at, updated_at = :at WHERE id = :id",
  ),
  touch: store.prepare<TouchRow & { benchmarkId: string }>(
    `INSERT INTO sealed_touch(benchmark_id, evaluation_id, model_id, purpose, at)
     VALUES(:benchmarkId, :evaluation_id, :model_id, :purpose, :at) ON CONFLICT DO NOTHING`,
  ),
  touches: store.prepare<[string], TouchRow>(
    "SELECT evaluation_id, model_id, purpose, at FROM sealed_touch WHERE benchmark_id = ? ORDER BY seq",
  ),
  saveGuard: store.prepare<GuardRow>(
    `INSERT INTO guard_result(model_id, name, n, base, aligned, most, items_json)
     VALUES(:model_id, :name, :n, :base, :aligned, :most, :items_json) ON CONFLICT DO NOTHING`,
  ),
  guards: store.prepare<[string], GuardRow>("SELECT * FROM guard_result WHERE model_id = ? ORDER BY name"),
});

export type EvaluationsSql = ReturnType<typeof prepareEvaluations>;
