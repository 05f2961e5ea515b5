// What an administrator finds in config/ is what the program reads.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation, renderEnvironmentFile } from "../../src/base/config.ts";

test("config/plumbline.env lists every setting with its default (npm run settings writes it)", () => {
  assert.equal(readFileSync(join(installation, "config/plumbline.env"), "utf8"), renderEnvironmentFile());
});
