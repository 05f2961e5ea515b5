// Cohere's own clients, pointed at the appliance: what we have of their API is rerank, in both versions.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { CohereClient, CohereClientV2, CohereError } from "cohere-ai";
import { installation } from "../../src/base/config.ts";
import { type Served, servedHouse, withoutModel } from "../helpers/served.ts";

const crossEncoder = join(installation, "test/fixtures/tiny-cross-encoder");
/** Logits as transformers computes them. */
const known = JSON.parse(readFileSync(join(installation, "test/fixtures/embeddings.json"), "utf8")).crossEncoder as {
  query: string;
  documents: string[];
  logits: number[];
};

describe("the Cohere clients", { skip: withoutModel }, () => {
  let it: Served;
  let model = "";
  before(async () => {
    it = await servedHouse();
    model = ((await it.house.admin("model.import", { path: crossEncoder })) as { model_id: string }).model_id;
  });
  after(() => it.close());
  const environment = () => `${it.url}/api/v3/inference`;
  const { query, documents, logits } = known;
  const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]!);

  test("rerank in version 2", async () => {
    const client = new CohereClientV2({ environment: environment(), token: it.key });
    const answer = await client.rerank({ model, query, documents, topN: 2 });
    assert.deepEqual(
      answer.results.map((one) => one.index),
      order.slice(0, 2),
    );
    assert(answer.results[0]!.relevanceScore >= answer.results[1]!.relevanceScore);
    assert.equal(answer.meta?.billedUnits?.searchUnits, 1);
  });

  test("rerank in version 1, with the documents given back", async () => {
    const client = new CohereClient({ environment: environment(), token: it.key });
    const answer = await client.rerank({ model, query, documents, returnDocuments: true });
    assert.deepEqual(
      answer.results.map((one) => [one.index, one.document?.text]),
      order.map((index) => [index, documents[index]]),
    );
  });

  test("get errors with status and words", async () => {
    const client = new CohereClientV2({ environment: environment(), token: it.key });
    const asked = client.rerank({ model: "model_nobody", query, documents }, { maxRetries: 0 });
    await assert.rejects(asked, (error: unknown) => {
      assert(error instanceof CohereError);
      assert.equal(error.statusCode, 404);
      assert.match(JSON.stringify(error.body), /Model not found/);
      return true;
    });
  });
});
