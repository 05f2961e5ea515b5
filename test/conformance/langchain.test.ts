// LangChain's OpenAI classes, pointed at the appliance.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type BaseMessage, HumanMessage, ToolMessage, type UsageMetadata } from "@langchain/core/messages";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { type Served, servedHouse, withoutModel } from "../helpers/served.ts";

describe("LangChain", { skip: withoutModel }, () => {
  let it: Served;
  before(async () => {
    it = await servedHouse({ PLUMBLINE_SLOT_CONTEXT: "512" });
  });
  after(() => it.close());
  const own = () => ({ apiKey: it.key, configuration: { baseURL: `${it.url}/api/v3/inference` }, maxRetries: 0 });
  const chat = (maxTokens: number, more: object = {}) =>
    new ChatOpenAI({ ...own(), model: it.baseId, maxTokens, temperature: 0, ...more });
  const usageOf = (message: BaseMessage) => (message as { usage_metadata?: UsageMetadata }).usage_metadata;
  const colours = {
    type: "object",
    properties: { colour: { type: "string", enum: ["red", "blue"] } },
    required: ["colour"],
    additionalProperties: false,
  };

  for (const useResponsesApi of [false, true])
    test(`chats and streams by ${useResponsesApi ? "responses" : "chat completions"}`, async () => {
      const model = chat(4, { useResponsesApi });
      const whole = await model.invoke("Say hello.");
      assert(whole.text.length > 0);
      assert(usageOf(whole)!.output_tokens <= 4);
      let text = "";
      let tokens = 0;
      for await (const chunk of await model.stream("Say hello.")) {
        text += chunk.text;
        tokens += usageOf(chunk)?.output_tokens ?? 0;
      }
      assert.equal(text, whole.text);
      assert.equal(tokens, usageOf(whole)!.output_tokens);
    });

  test("has a tool called, and goes on with its result", async () => {
    const tool = { type: "function" as const, function: { name: "paint", parameters: colours } };
    const model = chat(60).bindTools([tool], { tool_choice: "required", parallel_tool_calls: false });
    const asked = new HumanMessage("Paint the door.");
    const answer = await model.invoke([asked]);
    const [call] = answer.tool_calls!;
    assert.equal(call!.name, "paint");
    assert(["red", "blue"].includes((call!.args as { colour: string }).colour));
    const result = new ToolMessage({ content: "Done.", tool_call_id: call!.id! });
    const next = await chat(2).invoke([asked, answer, result]);
    assert(usageOf(next)!.input_tokens > 0);
  });

  test("gives structured output by a schema and by a function", async () => {
    for (const method of ["jsonSchema", "functionCalling"] as const) {
      const model = chat(60).withStructuredOutput(colours, { name: "paint", method, strict: true });
      const { colour } = (await model.invoke("Which colour?")) as { colour: string };
      assert(["red", "blue"].includes(colour));
    }
  });

  test("embeds documents and queries", async () => {
    const embeddings = new OpenAIEmbeddings({ ...own(), model: it.baseId });
    const [first, second] = await embeddings.embedDocuments(["One", "Two"]);
    assert.equal(first!.length, 576);
    const again = await embeddings.embedQuery("Two");
    assert(second!.reduce((sum, value, index) => sum + value * again[index]!, 0) > 0.9999);
  });

  test("passes errors on with status and words", async () => {
    const model = new ChatOpenAI({ ...own(), model: "model_nobody" });
    await assert.rejects(model.invoke("Hello"), (error: unknown) => {
      assert.equal((error as { status: number }).status, 404);
      assert.match((error as Error).message, /Model not found/);
      return true;
    });
  });
});
