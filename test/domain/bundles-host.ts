// Makes a bundle with a model, opens it and writes the model out, and says how much memory that took.
import { machineHere } from "../../src/base/machine.ts";
import { createBundle, extractModel, openBundle, readSigner } from "../../src/domain/bundles/index.ts";

const [keyFile, model, target] = process.argv.slice(2) as [string, string, string];
const signer = await readSigner(keyFile);
const created = new Date();
const ingredients = {
  ...{ program: "/bin/true", version: "1.2.3", licences: [], models: [model] },
  ...{ created, notAfter: new Date(created.getTime() + 3_600_000) },
  softwareBill: { bomFormat: "CycloneDX" as const, specVersion: "1.5", components: [] },
};
const made = await createBundle(target, ingredients, signer, () => {});
const expected = { pinned: [signer.key], machine: machineHere(), now: created };
const bundle = await openBundle(target, expected, () => {});
await extractModel(bundle, bundle.manifest.models[0]!, `${target}.out`);
await bundle.close();
process.stdout.write(JSON.stringify({ made: made.bytes, most: process.resourceUsage().maxRSS * 1024 }));
