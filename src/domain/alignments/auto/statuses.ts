// The statuses of an auto-align, and every legal move.
//
//   RECORDED ──claimed──► PLANNING ──first decision──► RUNNING ──► REACHED | BUDGET_SPENT | STOPPED | FAILED
//      │                     │  └──failure──► FAILED    │  ▲
//      └───────stop──────────┴──► STOPPED      planner's │  │ resume, or stop: the best so far is packaged
//                                                 pause ▼  │
//                                                      PAUSED
//
// Invariants, each a CHECK or trigger of the schema as well:
//   1. It starts as RECORDED and moves only along these edges. One that has ended never moves again, and has ended_at.
//   2. A FAILED one has a reason. A phase is under way only while RUNNING.
import type { AutoAlignStatus } from "../../../contract/auto-align.ts";

export const edges: Record<AutoAlignStatus, readonly AutoAlignStatus[]> = {
  RECORDED: ["PLANNING", "STOPPED"],
  PLANNING: ["RUNNING", "STOPPED", "FAILED"],
  RUNNING: ["PAUSED", "REACHED", "BUDGET_SPENT", "STOPPED", "FAILED"],
  PAUSED: ["RUNNING"],
  REACHED: [],
  BUDGET_SPENT: [],
  STOPPED: [],
  FAILED: [],
};

export const hasEnded = (status: AutoAlignStatus): boolean => edges[status].length === 0;

/** SQL condition on a row's status: it has not ended. */
export const isUnended = `status IN(${(Object.keys(edges) as AutoAlignStatus[])
  .filter((status) => !hasEnded(status))
  .map((status) => `'${status}'`)
  .join(", ")})`;

/** The legal moves that lead from one status to another, the last one included. */
export function wayTo(from: AutoAlignStatus, to: AutoAlignStatus): AutoAlignStatus[] {
  if (edges[from].includes(to)) return [to];
  // An auto-align that ends before it was planned, or before its first decision was reported, passes through these.
  const next = ({ RECORDED: "PLANNING", PLANNING: "RUNNING" } as Partial<Record<AutoAlignStatus, AutoAlignStatus>>)[
    from
  ];
  if (next === undefined) throw new Error(`auto-align: the transition ${from} → ${to} is not allowed`);
  return [next, ...wayTo(next, to)];
}
