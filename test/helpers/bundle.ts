// A bundle as a release of a newer version makes it, and a place to apply it in.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { installation, readConfig } from "../../src/base/config.ts";
import { sha256OfFile } from "../../src/base/files.ts";
import { type Finished, finish, startProcess } from "../../src/base/processes.ts";
import { launcher, plumbline, temporaryFolder } from "../cli/plumbline.ts";
import { makeVersion } from "./installed.ts";

export const starter = readConfig({}).starterModel;
export const encoder = join(installation, "test/fixtures/tiny-cross-encoder");
export const limits = { timeoutMs: 240_000, maxBytes: 1 << 20 };

/** A release of another version: a tree that takes an executable for its own, with the files that only a release has. */
export function makeReleaseTree(folder: string, version: string) {
  const program = makeVersion(folder, version);
  const executable = join(folder, `executable-${version}`);
  copyFileSync("/bin/true", executable);
  const bill = { bomFormat: "CycloneDX", specVersion: "1.5", components: [] };
  writeFileSync(join(folder, version, "sbom.cdx.json"), JSON.stringify(bill));
  for (const name of ["LICENSE", "third-party-licences.txt"]) writeFileSync(join(folder, version, name), `${name}\n`);
  return (...words: string[]): Promise<Finished> =>
    finish(startProcess(program, words, { env: { PLUMBLINE_EXECUTABLE: executable } }), limits);
}

export interface Applied {
  models: { model: string; outcome: string; model_id: string | null }[];
  program: { version: string; outcome: string; path: string | null };
  next: string[];
}

export const answerOf = <T>({ code, stdout, stderr }: Finished): T => {
  assert.equal(code, 0, stdout + stderr);
  return JSON.parse(stdout) as T;
};

export async function makeBundle(context: TestContext, models: string[] = [starter, encoder]) {
  const folder = temporaryFolder(context);
  const release = makeReleaseTree(folder, "9.9.9");
  const keyFile = join(folder, "key.pem");
  const { key } = answerOf<{ key: string }>(await plumbline(["bundle", "key", keyFile, "--json"]));
  const path = join(folder, "bundle.tar");
  const wanted = models.flatMap((model) => ["--model", model]);
  const made = answerOf<{ key: string; sha256: string }>(
    await release("bundle", "create", path, "--sign-with", keyFile, ...wanted, "--json"),
  );
  assert.deepEqual([made.key, made.sha256], [key, await sha256OfFile(path)]);
  const data = join(folder, "data");
  const settings = {
    ...{ PLUMBLINE_DATA: data, PLUMBLINE_BUNDLE_KEYS: key, PLUMBLINE_STARTER_MODEL: "none.gguf" },
    ...{ PLUMBLINE_FREE_DISK: "0", PLUMBLINE_LOG: "warn" },
  };
  const out = join(folder, "out");
  mkdirSync(out);
  const apply = (...words: string[]): string[] => ["bundle", "apply", path, ...words];
  /** Applies it in a working folder of its own. */
  const run = (words: string[], env: Record<string, string> = settings): Promise<Finished> =>
    finish(startProcess(launcher, apply("--prefix", join(folder, "none"), ...words), { env, cwd: out }), limits);
  return { folder, key, path, data, settings, out, apply, run };
}

/** Names of the models that an appliance with these settings has. */
export const modelsOf = async (settings: Record<string, string>): Promise<string[]> => {
  const listed = answerOf<{ base_models: { model_name: string }[] }>(
    await plumbline(["model", "ls", "--json"], settings),
  );
  return listed.base_models.map(({ model_name }) => model_name).sort();
};

/** What the starter model and the encoder call themselves. */
export const names = ["Smollm2 135M 8k Lc100K Mix1 Ep2", "tiny-cross-encoder"];
