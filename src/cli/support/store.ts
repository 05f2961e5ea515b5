// What a support file contains from the database: numbers, states, ids and times.
import type { Store } from "../../store/open.ts";

/** Maximum jobs in the file, the newest. */
const mostJobs = 200;

/** Counts the rows of each table. */
export function rowsOf(store: Store): Record<string, number> {
  const tables = store
    .prepare<[], { name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all();
  return Object.fromEntries(
    tables.map(({ name }) => [
      name,
      store.prepare<[], { count: number }>(`SELECT count(*) AS count FROM "${name}"`).get()!.count,
    ]),
  );
}

/** Requests and tokens by day and outcome, newest day first; at most 60 rows. */
export const requestsOf = (store: Store): unknown[] =>
  store
    .prepare<[], object>(
      `SELECT substr(created_at, 1, 10) AS day, outcome, count(*) AS requests, sum(prompt_tokens) AS prompt_tokens,
       sum(completion_tokens) AS completion_tokens FROM usage GROUP BY day, outcome ORDER BY day DESC LIMIT 60`,
    )
    .all();

interface JobTold {
  id: string;
  kind: string;
  subject_id: string;
  state: string;
  attempt: number;
  max_attempts: number;
  error_code: string | null;
  created_at: string;
  finished_at: string | null;
}

/** The newest jobs, newest first. A failure is given only by its code, because its message may quote names. */
export const jobsOf = (store: Store): JobTold[] =>
  store
    .prepare<[number], JobTold>(
      `SELECT id, kind, subject_id, state, attempt, max_attempts, error_code, created_at, finished_at FROM job
       ORDER BY created_seq DESC LIMIT ?`,
    )
    .all(mostJobs);
