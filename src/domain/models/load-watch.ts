// Stops loading bases whose load crashed the appliance. The library aborts the process on some files that passed every
// check, or the kernel kills the process for lack of memory. The next request would then load the same base again. So each
// native load is counted before it begins, and the count is set to 0 when the load ends, whatever its outcome. After two
// loads that never ended, the base is not loaded any more. Importing the file again probes it in a separate process and
// resets the count.

import { Failure } from "../../base/errors.ts";
import type { BaseRow } from "../../catalog/store.ts";
import type { Store } from "../../store/open.ts";
import { prepareModels } from "./store.ts";

/** After this number of loads that never ended, no further load is started automatically. Also used for deployments. */
export const mostLoadsBegun = 2;

/** The reason why a base is no longer loaded; null if it may be loaded. */
export const loadErrorOf = ({ loads_begun: begun }: Pick<BaseRow, "loads_begun">): string | null => {
  if (begun < mostLoadsBegun) return null;
  const failure = new Failure("load_ended_appliance", `Loading it crashed the appliance ${begun} times`);
  return `${failure.message}. ${failure.hint}`;
};

/** Called before a native load; the returned function is called when the load ends. Throws load_ended_appliance. */
export type LoadWatch = (baseId: string) => () => void;

export function createLoadWatch(store: Store): LoadWatch {
  const { baseById, setBaseLoads } = prepareModels(store);
  return (baseId) => {
    const begun = baseById.get(baseId)?.loads_begun ?? 0;
    if (begun >= mostLoadsBegun)
      throw new Failure("load_ended_appliance", `Loading ${baseId} crashed the appliance ${begun} times`);
    setBaseLoads.run(begun + 1, baseId);
    return () => void setBaseLoads.run(0, baseId);
  };
}
