// node --import: whoever imports the trainer's process gets the one beside this file. For an ablation: the product has no such switch.
import { registerHooks } from "node:module";

const trainer = new URL("../../../../src/engine/train/trainer-process.ts", import.meta.url).href;
const soft = new URL("./trainer.ts", import.meta.url).href;

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    return resolved.url === trainer && context.parentURL !== soft ? { ...resolved, url: soft } : resolved;
  },
});
