// Bases whose load ended the appliance. The library aborts the process at some files that passed every check, and want of memory
// has it killed; the next request would load the same base again. So each native load is counted before it begins, and the count
// goes to 0 when it ends, however it ends: two that never did are enough. Importing the file again, which tries it in a process of
// its own, is a person's word that the cause is mended.
import { Failure } from "../../base/errors.ts";
import type { BaseRow, ModelsSql } from "./store.ts";

/** Loads that never ended; after so many no further is begun by itself. Of deployments as well. */
export const mostLoadsBegun = 2;

/** Why a base is not loaded any more; null where it is. */
export const loadErrorOf = ({ loads_begun: begun }: Pick<BaseRow, "loads_begun">): string | null => {
  if (begun < mostLoadsBegun) return null;
  const failure = new Failure("load_ended_appliance", `Loading it ended the appliance ${begun} times`);
  return `${failure.message}. ${failure.hint}`;
};

/** Called before a native load; what it gives is called at the load's end. Throws load_ended_appliance. */
export type LoadWatch = (baseId: string) => () => void;

export function createLoadWatch({ baseById, setBaseLoads }: Pick<ModelsSql, "baseById" | "setBaseLoads">): LoadWatch {
  return (baseId) => {
    const begun = baseById.get(baseId)?.loads_begun ?? 0;
    if (begun >= mostLoadsBegun)
      throw new Failure("load_ended_appliance", `Loading ${baseId} ended the appliance ${begun} times`);
    setBaseLoads.run(begun + 1, baseId);
    return () => void setBaseLoads.run(0, baseId);
  };
}
