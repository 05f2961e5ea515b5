// node --import: whoever imports the study's gates gets the open ones beside this file.
import { replaceModule } from "../replaced-module.ts";

replaceModule(new URL("../../../../src/study/gates.ts", import.meta.url), new URL("./gates.ts", import.meta.url));
