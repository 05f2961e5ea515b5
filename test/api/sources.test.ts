// Sources from outside: every way to ask names the passage that an answer stands in, and says when its document was deleted.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Contract } from "../../src/contract/index.ts";
import { contract } from "../../src/contract/index.ts";
import { references } from "../../src/study/study.worker.ts";
import { type Scripted, scriptedAnswer, scriptedHouse } from "../helpers/scripted.ts";
import { documentOf } from "../helpers/study.ts";

const question = "Which code opens the shed?";
/** What the scripted model says to a chat of that question, and to the bare prompt. */
const facts = [scriptedAnswer(`<user>${question}<assistant>`), scriptedAnswer(question)].map(
  (answer) => `The code that opens the shed is ${answer}.`,
) as [string, string];
const text = `# Sheds\n\n## At night\n\nThey are closed.\n\n## In chats\n\n${facts[0]}\n\n## Elsewhere\n\n${facts[1]}\n`;

let it: Scripted;
let documentId = "";
let modelId = "";
before(async () => {
  it = await scriptedHouse();
  const { body } = await it.call("documents.upload", { files: [{ name: "sheds.md", content: text }] });
  documentId = body.documents[0].document_id;
  modelId = await aligned();
});
after(() => it.close());

/** A model as a run over the document leaves it. */
async function aligned(): Promise<string> {
  const { modelId } = await it.align();
  const document = { ...documentOf(text, "text/markdown", "sheds.md"), id: documentId };
  const path = join(it.data, "sources.json");
  writeFileSync(path, JSON.stringify(references({ documents: [document], organisation: null }).sources));
  it.store.prepare<[string, string]>("UPDATE aligned_model SET sources_path = ? WHERE id = ?").run(path, modelId);
  return modelId;
}

const messages = [{ role: "user", content: question }];
const ways: [name: keyof Contract, body: object, fact: string][] = [
  ["inference.chat", { messages }, facts[0]],
  ["inference.messages", { messages, max_tokens: 64 }, facts[0]],
  ["inference.responses", { input: question }, facts[0]],
  ["inference.completions", { prompt: question }, facts[1]],
];

const placeOf = (fact: string, deleted = false) => {
  const start = text.indexOf(fact);
  return { document_id: documentId, start, end: start + fact.length, grounding: 1, deleted };
};

/** The confidence of the last event that has one. */
async function streamed(name: keyof Contract, body: object): Promise<{ sources: object[] | null }> {
  const response = await it.get(contract[name].path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const events = (await response.text())
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice("data: ".length)));
  return events.map((event) => (event.response ?? event).confidence).findLast((confidence) => confidence != null);
}

const sourcesOf = async (name: keyof Contract, body: object): Promise<object[] | null> =>
  (await it.call(name, { body })).body.confidence.sources;

for (const [name, body, fact] of ways)
  test(`${name} names the passage that the answer stands in, whole and streamed`, async () => {
    const asked = { model: modelId, ...body };
    assert.deepEqual(await sourcesOf(name, asked), [placeOf(fact)]);
    assert.deepEqual((await streamed(name, asked)).sources, [placeOf(fact)]);
  });

test("an answer that stands nowhere names none; a model made before there were sources does not know", async () => {
  const elsewhere = [{ role: "user", content: "Who opens the shed?" }];
  assert.deepEqual(await sourcesOf("inference.chat", { model: modelId, messages: elsewhere }), []);
  const older = (await it.align()).modelId;
  assert.equal(await sourcesOf("inference.chat", { model: older, messages }), null);
  assert.equal((await it.call("inference.chat", { body: { model: it.baseId, messages } })).body.confidence, null);
});

test("a document that was deleted stays named, and every answer says that it is gone, kept ones too", async () => {
  const { id } = (await it.call("inference.responses", { body: { model: modelId, input: question } })).body;
  const kept = async () => (await it.call("inference.response", { params: { response_id: id } })).body;
  const before = await kept();
  assert.deepEqual(before.confidence.sources, [placeOf(facts[0])]);
  assert.equal((await it.call("documents.delete", { params: { document_id: documentId } })).status, 200);
  for (const [name, body, fact] of ways)
    assert.deepEqual(await sourcesOf(name, { model: modelId, ...body }), [placeOf(fact, true)], name);
  const sources = [placeOf(facts[0], true)];
  assert.deepEqual(await kept(), { ...before, confidence: { ...before.confidence, sources } });
  // As older versions kept it: with another name for the grounding of a source, and before there were sources.
  it.store
    .prepare<[string]>(
      `UPDATE response SET response_json = replace(response_json, '"grounding":', '"support":') WHERE id = ?`,
    )
    .run(id);
  assert.deepEqual(await kept(), { ...before, confidence: { ...before.confidence, sources } });
  it.store
    .prepare<[string]>(
      "UPDATE response SET response_json = json_remove(response_json, '$.confidence.sources') WHERE id = ?",
    )
    .run(id);
  assert.equal((await kept()).confidence.sources, null);
});
