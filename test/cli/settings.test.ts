// What an administrator finds in config/ is what the program reads, and a setting that has another name now gives that name.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation, readConfig, renamedSettings, renderEnvironmentFile, settings } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";

test("config/plumbline.env lists every setting with its default (npm run settings writes it)", () => {
  assert.equal(readFileSync(join(installation, "config/plumbline.env"), "utf8"), renderEnvironmentFile());
});

test("a setting under its old name is refused with its new one, and an unknown one without", () => {
  const messageFor = (environment: Record<string, string>): string => {
    try {
      readConfig(environment);
    } catch (error) {
      assert.ok(error instanceof Failure && error.code === "config_invalid");
      return error.message;
    }
    return "";
  };
  assert.equal(
    messageFor({ PLUMBLINE_SEATS: "4", PLUMBLINE_SEAT_CONTEXT: "512", PLUMBLINE_CHAIRS: "4" }),
    "PLUMBLINE_SEATS: it is called PLUMBLINE_SLOTS now; PLUMBLINE_SEAT_CONTEXT: it is called PLUMBLINE_SLOT_CONTEXT now; " +
      "PLUMBLINE_CHAIRS: unknown setting",
  );
  assert.equal(readConfig({ PLUMBLINE_SLOTS: "4" }).slots, 4);
  const names = new Set<string>(Object.values(settings).map(({ name }) => name));
  for (const [old, successor] of Object.entries(renamedSettings)) {
    assert.ok(!names.has(old), old);
    assert.ok(names.has(successor), successor);
  }
});
