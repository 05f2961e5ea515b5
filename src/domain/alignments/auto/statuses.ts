// The statuses of an auto-align, and every legal move between them.
//
//   RECORDED ──claimed──► PLANNING ──first decision──► RUNNING ──► REACHED | BUDGET_SPENT | STOPPED | FAILED
//      │                     │  └──failure──► FAILED    │  ▲
//      └───────stop──────────┴──► STOPPED      planner's │  │ resume, or stop: the best so far is packaged
//                                                 pause ▼  │
//                                                      PAUSED
//
// Invariants, each a CHECK or trigger of the schema as well:
//   1. An auto-align starts as RECORDED and moves only along these edges. Once it has ended, it never moves again and has ended_at.
//   2. A FAILED auto-align has a reason. A phase is under way only while the status is RUNNING.
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

/** SQL condition that a row's status is not a final one. */
export const isUnended = `status IN(${(Object.keys(edges) as AutoAlignStatus[])
  .filter((status) => !hasEnded(status))
  .map((status) => `'${status}'`)
  .join(", ")})`;

/** Returns the statuses on the way from one status to another, `to` included. Throws if there is no way. */
export function wayTo(from: AutoAlignStatus, to: AutoAlignStatus): AutoAlignStatus[] {
  if (edges[from].includes(to)) return [to];
  // An auto-align that ends before it was planned, or before its first decision was reported, passes through these statuses.
  const next = ({ RECORDED: "PLANNING", PLANNING: "RUNNING" } as Partial<Record<AutoAlignStatus, AutoAlignStatus>>)[
    from
  ];
  if (next === undefined) throw new Error(`auto-align: the transition ${from} → ${to} is not allowed`);
  return [next, ...wayTo(next, to)];
}
