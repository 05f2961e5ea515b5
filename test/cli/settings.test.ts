// What an administrator finds in config/ is what the program reads.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation, renderEnvironmentFile, settings } from "../../src/base/config.ts";

test("config/plumbline.env lists every setting with its default (npm run settings writes it)", () => {
  assert.equal(readFileSync(join(installation, "config/plumbline.env"), "utf8"), renderEnvironmentFile());
});

test("the systemd unit sets only what is a setting", () => {
  const unit = readFileSync(join(installation, "config/plumbline.service"), "utf8");
  const known = new Set<string>(Object.values(settings).map((setting) => setting.name));
  const named = [...unit.matchAll(/^Environment=(\w+)=/gm)].map((match) => match[1]!);
  assert.deepEqual(
    named.filter((name) => !known.has(name)),
    [],
  );
});
