// Bundles for machines without a network. A bundle is one signed archive with a release and models. This room needs no running appliance.
export { createBundle, type Ingredients, type Made } from "./create.ts";
export { extractFile, extractModel } from "./extract.ts";
export { isPublicKey, makeKey, readSigner } from "./key.ts";
export { filesOf, type Manifest } from "./manifest.ts";
export { type Bundle, openBundle } from "./open.ts";
export { readSoftwareBill } from "./software-bill.ts";
