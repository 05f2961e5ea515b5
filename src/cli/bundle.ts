// plumbline bundle: takes a release and models to machines without a network, in one signed file.
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { installation, ownExecutable } from "../base/config.ts";
import { Failure } from "../base/errors.ts";
import { versionsInstalled } from "../base/versions.ts";
import { defaults, layout } from "./installation/layout.ts";
import { timeOf } from "./options.ts";
import { answers, bytesText } from "./output.ts";
import { showBytes, startProgress } from "./progress.ts";

interface CreateOptions {
  signWith: string;
  model: string[];
  notAfter: string;
}

interface ApplyOptions {
  trust?: string;
  program?: string;
  prefix: string;
  dryRun?: boolean;
}

export function register(program: Command): void {
  const bundle = program.command("bundle").description("one signed file for machines without a network: make, apply");

  const key = bundle
    .command("key")
    .description("make a key that bundles are signed with; its public part is printed")
    .argument("<file>", "a new file for the private part, which only its owner may read")
    .addHelpText(
      "after",
      `
Keep the file where bundles are made, and away from the machines that they are applied on. Whoever applies them needs the public part,
by another way than the bundles come: it goes into their PLUMBLINE_BUNDLE_KEYS. A signature proves who holds that key, nothing more.`,
    );
  answers(key, async (_, path = "") => {
    const { makeKey } = await import("../domain/bundles/index.ts");
    const file = resolve(path);
    const made = await makeKey(file);
    return { json: { file, key: made }, text: made };
  });

  const create = bundle
    .command("create")
    .description("put this release, its licences and bill of materials, and models into one signed file")
    .argument("<file>", "the file to make; nothing is ever overwritten")
    .requiredOption("--sign-with <file>", "the private key, from bundle key")
    .option(
      "--model <path>",
      "a GGUF file, or a sentence-transformers folder such as that of a sentence encoder; can be given again",
      (path: string, before: string[]) => [...before, path],
      [],
    )
    .option("--not-after <when>", "until when it may be applied: a time such as 2027-01-31T00:00:00Z, or 90d", "90d")
    .addHelpText(
      "after",
      `
Only a release's executable can do this: it puts itself in. The file is a tar archive: \`tar -tvf FILE\` lists it, and sbom.cdx.json
is its bill of materials (CycloneDX). It is written as it is read, so that its size does not matter to the memory.`,
    );
  answers<CreateOptions>(create, ({ signWith, model, notAfter }, path = "") =>
    makeOne(resolve(path), resolve(signWith), model, notAfter),
  );

  const apply = bundle
    .command("apply")
    .description("check a bundle to the last byte, then import its models and hand out a newer program")
    .argument("<file>", "the bundle")
    .option("--trust <key>", "the public key that must have signed it; otherwise those of PLUMBLINE_BUNDLE_KEYS")
    .option("--program <file>", "where a newer program is written; otherwise into this folder, by its name")
    .option("--prefix <folder>", "where plumbline is installed", defaults.prefix)
    .option("--dry-run", "check the bundle, say what is in it, and change nothing")
    .addHelpText(
      "after",
      `
Nothing is changed before all of it is checked: the signature, the date, what machine it is for, and every byte. Each model and the
program appear whole or not at all. Killed on the way, the same command goes on, and passes over what is done.

Run by root where plumbline is installed, it takes the settings of the service, and models are imported as the service's user.
Otherwise it works on PLUMBLINE_DATA. A newer program is not started: the answer says what to do for that.`,
    );
  answers<ApplyOptions>(apply, async ({ trust, program, prefix, dryRun = false }, path = "") => {
    const { applyBundle } = await import("./bundle/apply.ts");
    const { findSite } = await import("./bundle/site.ts");
    const site = await findSite(layout(prefix));
    const pinned = trust === undefined ? site.pinned : [trust];
    const target = program === undefined ? null : resolve(program);
    return await applyBundle(resolve(path), site, { pinned, program: target, dryRun });
  });
}

async function makeOne(target: string, keyFile: string, models: string[], notAfter: string) {
  const program = ownExecutable();
  if (program === null) throw new Failure("not_a_release");
  const { createBundle, readSigner, readSoftwareBill } = await import("../domain/bundles/index.ts");
  const until = new Date(timeOf(notAfter));
  if (!/^\d{1,5}d$|^\d{4}-\d{2}-\d{2}T/.test(notAfter) || Number.isNaN(until.getTime()))
    throw new Failure("usage", "--not-after takes a time such as 2027-01-31T00:00:00Z, or days such as 90d");
  const signer = await readSigner(keyFile);
  const { version } = await versionsInstalled();
  const progress = startProgress();
  try {
    const made = await createBundle(
      target,
      {
        ...{ program, version, created: new Date(), notAfter: until },
        models: models.map((path) => resolve(path)),
        licences: ["LICENSE", "third-party-licences.txt"].map((name) => join(installation, name)),
        softwareBill: await readSoftwareBill(join(installation, "sbom.cdx.json")),
      },
      signer,
      showBytes(progress),
    );
    const { not_after, files } = made.manifest;
    return {
      json: { path: target, key: signer.key, bytes: made.bytes, sha256: made.sha256, manifest: made.manifest },
      text: [
        `${target}: version ${version} and ${models.length} models in ${files.length} files, ${bytesText(made.bytes)}`,
        `valid until ${not_after}, signed with ${signer.key}`,
        `SHA-256 ${made.sha256}`,
      ].join("\n"),
    };
  } finally {
    progress.end();
  }
}
