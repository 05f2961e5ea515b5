// node --import: whoever imports the study's gates gets the open ones beside this file. For an ablation: the product has no such switch.
import { registerHooks } from "node:module";

const gates = new URL("../../../../src/study/gates.ts", import.meta.url).href;
const open = new URL("./gates.ts", import.meta.url).href;

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    return resolved.url === gates && context.parentURL !== open ? { ...resolved, url: open } : resolved;
  },
});
