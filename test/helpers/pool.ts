// The pool of models over bases that have no weights.
import { createLog } from "../../src/base/log.ts";
import type { LoadedInfo, ModelPool, ModelRef } from "../../src/engine/generator.ts";
import { createModelPool, type PooledBase, type PoolParts } from "../../src/engine/serve/model-pool.ts";

const nameOf = (model: ModelRef): string => model.adapter?.id ?? model.baseId;

/** `onLoad` may fail or wait; `onClose` likewise. `loaded`: names of the models that are loaded. */
export function emptyPool(
  onLoad: (model: ModelRef) => Promise<void> = async () => {},
  {
    onClose = async () => {},
    info = { architecture: "llama", context: 64, parameters: 1, bytes: 1, slots: 1 },
    ...parts
  }: Partial<Omit<PoolParts<never>, "openBase">> & {
    onClose?: (model: ModelRef) => Promise<void>;
    info?: LoadedInfo;
  } = {},
): { pool: ModelPool; loaded: string[] } {
  const loaded: string[] = [];
  const base: PooledBase<string> = {
    info,
    async openAdapter(model) {
      await onLoad(model);
      loaded.push(nameOf(model));
      return null;
    },
    async closeAdapter(model) {
      await onClose(model);
      loaded.splice(loaded.indexOf(nameOf(model)), 1);
    },
    close: async () => {},
  };
  const pool = createModelPool({ log: createLog("error", () => {}), ...parts, openBase: async () => base });
  return { pool, loaded };
}
