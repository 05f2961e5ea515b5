// What is taken away while it answers: the answer goes on to its end, and the next request is refused.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { writeAdapter } from "../helpers/adapter.ts";
import { eventually } from "../helpers/house.ts";
import { deployed, type Served, servedHouse, withoutModel } from "../helpers/served.ts";

const words = 60;

const bodyOf = (model: string) => ({ model, prompt: "Once upon a time", max_tokens: words, ignore_eos: true });

/** Begins an answer; what it gives reads on to the end: why it ended, and how many tokens it had. */
async function begun(it: Served, model: string): Promise<() => Promise<unknown[]>> {
  const response = await it.get("/api/v3/inference/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...bodyOf(model), stream: true }),
  });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  return async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    const events = text.split("\n\n").filter((event) => event.startsWith("data: "));
    assert.equal(events.at(-1), "data: [DONE]");
    const last = JSON.parse(events.at(-2)!.slice("data: ".length));
    return [last.choices[0].finish_reason, last.usage.completion_tokens];
  };
}

const statusOfNext = async (it: Served, model: string): Promise<number> =>
  (await it.call("inference.completions", { body: { ...bodyOf(model), max_tokens: 1 } })).status;

async function house(context: TestContext): Promise<Served> {
  const it = await servedHouse();
  context.after(() => it.close());
  return it;
}

test("a model that is undeployed under a stream, and its file deleted", { skip: withoutModel }, async (context) => {
  const it = await house(context);
  const adapter = join(it.data, "short-lived.gguf");
  writeAdapter(adapter);
  const { modelId } = it.align(adapter);
  assert.equal(await deployed(it, modelId), "READY");
  const rest = await begun(it, modelId);
  rmSync(adapter);
  assert.equal((await it.call("models.undeploy", { params: { model_id: modelId } })).status, 200);
  assert.equal(await statusOfNext(it, modelId), 409);
  assert.deepEqual(await rest(), ["length", words]);
  const status = async () => (await it.call("models.get", { params: { model_id: modelId } })).body.deployment_status;
  await eventually(async () => (await status()) === "UNDEPLOYED", 10_000);
  assert.equal(await statusOfNext(it, modelId), 409);
  assert.equal(await deployed(it, modelId), "FAILED");
});

test("a base that is removed under a stream", { skip: withoutModel }, async (context) => {
  const it = await house(context);
  const rest = await begun(it, it.baseId);
  await it.house.admin("model.remove", { id: it.baseId });
  assert.equal(await statusOfNext(it, it.baseId), 404);
  assert.deepEqual(await rest(), ["length", words]);
  assert.equal(await statusOfNext(it, it.baseId), 404);
});
