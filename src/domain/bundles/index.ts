// Bundles for machines without a network: one signed archive with a release and models. The appliance is not involved.
export { createBundle, type Ingredients, type Made } from "./create.ts";
export { extractFile, extractModel } from "./extract.ts";
export { isPublicKey, makeKey, readSigner } from "./key.ts";
export { filesOf, type Manifest } from "./manifest.ts";
export { type Bundle, openBundle } from "./open.ts";
export { readSoftwareBill } from "./software-bill.ts";
