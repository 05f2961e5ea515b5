// The Python clients against a live server: clients.py has the tests, this serves them.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation } from "../../../src/base/config.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../../helpers/served.ts";
import { program, run, withoutPython } from "./environment.ts";

describe("Python clients", { skip: withoutModel || (await withoutPython()) }, () => {
  let it: Served;
  let env: Record<string, string>;
  before(async () => {
    it = await servedHouse({ PLUMBLINE_SLOT_CONTEXT: "512" });
    const aligned = it.align().modelId;
    assert.equal(await deployed(it, aligned), "READY");
    const path = join(installation, "test/fixtures/tiny-cross-encoder");
    const { model_id } = (await it.house.admin("model.import", { path })) as { model_id: string };
    env = {
      BASE: `${it.url}/api/v3/inference`,
      KEY: it.key,
      MODEL: it.baseId,
      ALIGNED: aligned,
      RANKER: model_id,
      // It would fetch its list of prices.
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
    };
  });
  after(() => it.close());

  test("openai, anthropic, litellm and cohere", async () => {
    const { code, output } = await run(
      program("python"),
      [join(installation, "test/conformance/python/clients.py")],
      env,
    );
    assert.equal(code, 0, output);
    assert.match(output, /Ran 2\d tests/);
    assert.doesNotMatch(output, /skipped/);
  });
});
