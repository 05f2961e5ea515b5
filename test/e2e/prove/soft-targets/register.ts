// node --import: whoever imports the trainer's process gets the one beside this file.
import { replaceModule } from "../replaced-module.ts";

replaceModule(
  new URL("../../../../src/engine/train/trainer-process.ts", import.meta.url),
  new URL("./trainer.ts", import.meta.url),
);
