// The whole API against its own description, by a fuzzer: no server error, no answer outside its schema, no undocumented status,
// no invalid request taken, and no valid one refused but where schemathesis.toml says why. Models answer by a script here: what
// is tried is all around the tokens.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../../src/base/config.ts";
import { scriptedHouse } from "../../helpers/scripted.ts";
import { outputFolder, program, run, withoutPython } from "./environment.ts";

const { FUZZ_SECONDS: seconds = "600", FUZZ_TAG: tag } = process.env;

test(`schemathesis finds nothing in ${seconds} seconds${tag === undefined ? "" : ` of ${tag}`}`, {
  skip: await withoutPython(),
}, async () => {
  const it = await scriptedHouse();
  try {
    const keyOf = async (user: string, ...scopes: string[]) =>
      ((await it.house.admin("key.create", { user, scopes })) as { key: string }).key;
    const key = await keyOf("ada", "inference", "documents", "alignments", "models", "agents");
    const environment = {
      PYTHONDONTWRITEBYTECODE: "1",
      KEYS_KEY: await keyOf("eve", "keys"),
      ADMIN_KEY: await keyOf("root", "admin"),
    };
    const { modelId, alignmentId } = await it.align();
    const upload = async (name: "documents.upload" | "benchmarks.upload", file: string, content: string) =>
      (await it.call(name, { files: [{ name: file, content }] })).body;
    const { documents } = await upload("documents.upload", "pump.md", "The pump is serviced twice a year.");
    const row = { instruction: "How often is the pump serviced?", response: "Twice a year" };
    const benchmark = await upload("benchmarks.upload", "pump.jsonl", JSON.stringify(row));
    const agent = await it.call("agents.create", { body: { name: "Ann", base_model: it.baseId } });
    const ids = [
      it.baseId,
      modelId,
      alignmentId,
      documents[0].document_id,
      benchmark.benchmark_id,
      agent.body.data.id,
    ] as string[];
    mkdirSync(outputFolder, { recursive: true });
    writeFileSync(join(outputFolder, "ids.txt"), ids.map((id) => `"${id}"\n`).join(""));
    const { code, output } = await run(
      program("schemathesis"),
      [
        ...["--config-file", join(installation, "test/conformance/python/schemathesis.toml"), "run"],
        `${it.url}/openapi.json`,
        ...["--header", `Authorization: Bearer ${key}`],
        // The first two say 401 where the contract says 422; test/contract and test/api/access try both.
        ...["--exclude-checks", "ignored_auth,missing_required_header"],
        ...(tag === undefined ? [] : ["--include-tag", tag]),
        ...[
          "--max-time",
          seconds,
          "--seed",
          "1",
          "--continue-on-failure",
          "--no-color",
          "--generation-database",
          "none",
        ],
      ],
      environment,
    );
    const report = join(outputFolder, "schemathesis.txt");
    writeFileSync(report, output);
    assert.equal(code, 0, `${output.slice(-2000)}\nAll of it is in ${report}`);
    assert.match(output, /[1-9]\d* generated/);
  } finally {
    await it.close();
  }
});
