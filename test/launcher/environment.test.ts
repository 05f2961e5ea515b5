import assert from "node:assert/strict";
import { test } from "node:test";
import { environmentBeside } from "../../src/base/config.ts";

test("relative paths of a release's settings are relative to the executable's folder", () => {
  assert.deepEqual(environmentBeside("/opt/plumbline", {}), { PLUMBLINE_DATA: "/opt/plumbline/data" });
  const settings = {
    PLUMBLINE_DATA: "../kept",
    PLUMBLINE_STARTER_MODEL: "models/a.gguf",
    HOME: "/root",
    GONE: undefined,
  };
  assert.deepEqual(environmentBeside("/opt/plumbline", settings), {
    PLUMBLINE_DATA: "/opt/kept",
    PLUMBLINE_STARTER_MODEL: "/opt/plumbline/models/a.gguf",
    HOME: "/root",
  });
  assert.equal(environmentBeside("/opt", { PLUMBLINE_DATA: "/var/lib/p" }).PLUMBLINE_DATA, "/var/lib/p");
});
