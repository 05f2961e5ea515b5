// The installed sentence encoder, and the file that a folder of sentence-transformers becomes.
import { existsSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { installation } from "../../src/base/config.ts";
import { convertSentenceTransformer } from "../../src/engine/gguf/sentence-transformers/convert.ts";

export const encoderFolder = join(installation, ".cache/all-minilm-l6-v2");
/** Why the tests of the encoder cannot run; false when they can. */
export const withoutEncoder: string | false = existsSync(encoderFolder) ? false : `no encoder at ${encoderFolder}`;

/** Writes it to a new file at `path`. */
export async function writeEncoder(path: string, source = encoderFolder): Promise<void> {
  const file = await open(path, "wx");
  await convertSentenceTransformer(source, file).finally(() => file.close());
}
