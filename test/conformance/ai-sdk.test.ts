// The AI SDK with its OpenAI-compatible, OpenAI and Anthropic providers, pointed at the appliance.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  APICallError,
  dynamicTool,
  embedMany,
  generateText,
  jsonSchema,
  type LanguageModel,
  Output,
  streamText,
} from "ai";
import { type Served, servedHouse, withoutModel } from "../helpers/served.ts";

describe("the AI SDK", { skip: withoutModel }, () => {
  let it: Served;
  before(async () => {
    it = await servedHouse({ PLUMBLINE_SLOT_CONTEXT: "512" });
  });
  after(() => it.close());
  const own = (path = "") => ({ baseURL: `${it.url}/api/v3/inference${path}`, apiKey: it.key });
  const compatible = () =>
    createOpenAICompatible({ ...own(), name: "plumbline", includeUsage: true, supportsStructuredOutputs: true });
  const colours = jsonSchema<{ colour: string }>({
    type: "object",
    properties: { colour: { type: "string", enum: ["red", "blue"] } },
    required: ["colour"],
    additionalProperties: false,
  });

  const providers: { name: string; model: (id: string) => LanguageModel }[] = [
    { name: "OpenAI-compatible", model: (id) => compatible()(id) },
    { name: "OpenAI by responses", model: (id) => createOpenAI(own())(id) },
    { name: "OpenAI by chat completions, under v1", model: (id) => createOpenAI(own("/v1")).chat(id) },
    { name: "Anthropic", model: (id) => createAnthropic(own())(id) },
    { name: "Anthropic, under v1", model: (id) => createAnthropic(own("/v1"))(id) },
  ];
  for (const { name, model } of providers)
    describe(name, () => {
      const asked = (maxOutputTokens: number, id = it.baseId) => ({
        model: model(id),
        prompt: "Say hello.",
        maxOutputTokens,
        temperature: 0,
        maxRetries: 0,
      });

      test("generates and streams the same, and counts it the same", async () => {
        const whole = await generateText(asked(4));
        const streamed = streamText(asked(4));
        let text = "";
        for await (const part of streamed.textStream) text += part;
        assert(text.length > 0);
        assert.equal(text, whole.text);
        const usage = await streamed.usage;
        assert.equal(usage.outputTokens, whole.usage.outputTokens);
        assert.equal(usage.inputTokens, whole.usage.inputTokens);
      });

      test("has a tool called", async () => {
        const tools = { paint: dynamicTool({ inputSchema: colours, execute: async () => "Done." }) };
        // A small model calls again and again where it may.
        const providerOptions = {
          plumbline: { parallel_tool_calls: false },
          openai: { parallelToolCalls: false },
          anthropic: { disableParallelToolUse: true },
        };
        const { toolCalls, finishReason } = await generateText({
          ...asked(60),
          tools,
          toolChoice: "required",
          providerOptions,
        });
        assert.equal(toolCalls.length, 1);
        assert.equal(finishReason, "tool-calls");
        assert.equal(toolCalls[0]!.toolName, "paint");
        assert(["red", "blue"].includes((toolCalls[0]!.input as { colour: string }).colour));
      });

      test("gives structured output", async () => {
        const { output } = await generateText({ ...asked(100), output: Output.object({ schema: colours }) });
        assert(["red", "blue"].includes(output.colour));
      });

      test("passes errors on with status and words", async () => {
        await assert.rejects(generateText(asked(4, "model_nobody")), (error: unknown) => {
          assert(APICallError.isInstance(error));
          assert.equal(error.statusCode, 404);
          assert.match(error.message, /Model not found/);
          return true;
        });
      });
    });

  test("embeds by the OpenAI-compatible and the OpenAI provider", async () => {
    for (const model of [compatible().embeddingModel(it.baseId), createOpenAI(own()).embeddingModel(it.baseId)]) {
      const { embeddings, usage } = await embedMany({ model, values: ["One", "Two"], maxRetries: 0 });
      assert.equal(embeddings.length, 2);
      assert(Math.abs(Math.hypot(...embeddings[0]!) - 1) < 1e-5);
      assert(usage.tokens > 0);
    }
  });
});
