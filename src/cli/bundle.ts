// plumbline bundle: packs a release and models into one signed file for machines without a network, and applies such files.
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
  const bundle = program
    .command("bundle")
    .description("a single signed file for machines without a network: create, apply");

  const key = bundle
    .command("key")
    .description("create a key to sign bundles with, and print its public part")
    .argument("<file>", "a new file for the private part, which only its owner may read")
    .addHelpText(
      "after",
      `
Keep the file where you create bundles, and never on the machines where you apply them. Those machines need the public part in their
PLUMBLINE_BUNDLE_KEYS. Send it to them separately from the bundles. A signature proves only who holds the key.`,
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
    .argument("<file>", "the file to create; nothing is ever overwritten")
    .requiredOption("--sign-with <file>", "the private key, made by bundle key")
    .option(
      "--model <path>",
      "a GGUF file, or a sentence-transformers folder such as a sentence encoder; repeat the option for several models",
      (path: string, before: string[]) => [...before, path],
      [],
    )
    .option(
      "--not-after <when>",
      "until when the bundle may be applied: a time such as 2027-01-31T00:00:00Z, or a number of days such as 90d",
      "90d",
    )
    .addHelpText(
      "after",
      `
Only a release's executable can do this, because it puts itself into the bundle. The file is a tar archive: \`tar -tvf FILE\` lists it.
It contains its bill of materials, sbom.cdx.json (CycloneDX). Files are streamed into it, so a large bundle needs little memory.`,
    );
  answers<CreateOptions>(create, ({ signWith, model, notAfter }, path = "") =>
    makeOne(resolve(path), resolve(signWith), model, notAfter),
  );

  const apply = bundle
    .command("apply")
    .description("check every byte of a bundle, then import its models and write out its program if it is newer")
    .argument("<file>", "the bundle")
    .option("--trust <key>", "the public key that must have signed it (default: those in PLUMBLINE_BUNDLE_KEYS)")
    .option("--program <file>", "where to write a newer program (default: this folder, under the program's name)")
    .option("--prefix <folder>", "where plumbline is installed", defaults.prefix)
    .option("--dry-run", "check the bundle and list its content, but change nothing")
    .addHelpText(
      "after",
      `
Everything is checked before anything is changed: the signature, the date, the machine that the bundle is for, and every byte. Each
model and the program appear either completely or not at all. If the command is interrupted, run it again: it skips what is done.

As root on a machine where plumbline is installed, it uses the service's settings, and imports models as the service's user.
Otherwise it works on PLUMBLINE_DATA. It does not start a newer program; its output says how to do that.`,
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
    throw new Failure(
      "usage",
      "--not-after needs a time such as 2027-01-31T00:00:00Z, or a number of days such as 90d",
    );
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
