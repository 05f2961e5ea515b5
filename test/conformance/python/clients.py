"""The Python clients, pointed at a running appliance: BASE, KEY, MODEL (a base), ALIGNED and RANKER say where and what."""

import json
import os
import unittest

import anthropic
import cohere
import litellm
import openai

BASE, KEY, MODEL, ALIGNED, RANKER = (os.environ[name] for name in ("BASE", "KEY", "MODEL", "ALIGNED", "RANKER"))
HELLO = [{"role": "user", "content": "Say hello."}]
COLOURS = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
PAINT = {"type": "function", "function": {"name": "paint", "parameters": COLOURS}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "paint", "strict": True, "schema": COLOURS}}
# Room and a temperature for a grammar: a sample may spend all of its tokens on the spaces that JSON allows.
FORMED = {"max_tokens": 60, "temperature": 0}
QUERY, DOCUMENTS = "the cat", ["the dog", "the cat sat", "a bird"]


def colour_of(text):
    return json.loads(text)["colour"]


class OpenAI(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)

    def tearDown(self):
        self.client.close()

    def test_chat_and_confidence(self):
        asked = {"messages": HELLO, "max_tokens": 4}
        self.assertIsNone(self.client.chat.completions.create(model=MODEL, **asked).confidence_score)
        answer = self.client.chat.completions.create(model=ALIGNED, **asked)
        self.assertGreaterEqual(answer.confidence_score, 0)
        self.assertLessEqual(answer.usage.completion_tokens, 4)

    def test_chat_stream(self):
        asked = {"model": MODEL, "messages": HELLO, "max_tokens": 4, "temperature": 0}
        chunks = list(
            self.client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, self.client.chat.completions.create(**asked).choices[0].message.content)
        self.assertGreater(chunks[-1].usage.total_tokens, 0)

    def test_tool(self):
        with self.client.chat.completions.stream(
            model=MODEL, messages=HELLO, tools=[PAINT], tool_choice="required", parallel_tool_calls=False, **FORMED
        ) as stream:
            choice = stream.get_final_completion().choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertIn(colour_of(choice.message.tool_calls[0].function.arguments), ["red", "blue"])

    def test_structured_output(self):
        answer = self.client.chat.completions.create(
            model=MODEL, messages=HELLO, response_format=FORMAT, **FORMED
        )
        self.assertIn(colour_of(answer.choices[0].message.content), ["red", "blue"])

    def test_completion_with_echo(self):
        answer = self.client.completions.create(
            model=MODEL, prompt=["One two", "Red"], max_tokens=1, logprobs=1, echo=True
        )
        for choice, prompt in zip(answer.choices, ["One two", "Red"], strict=True):
            self.assertTrue(choice.text.startswith(prompt))
            self.assertIsNone(choice.logprobs.token_logprobs[0])
            self.assertLess(choice.logprobs.token_logprobs[-1], 0)

    def test_embeddings(self):
        data = self.client.embeddings.create(model=MODEL, input=["One", "Two"]).data
        self.assertEqual([one.index for one in data], [0, 1])
        self.assertAlmostEqual(sum(value * value for value in data[1].embedding), 1, places=5)

    def test_responses(self):
        asked = {"model": ALIGNED, "input": "Say hello.", "max_output_tokens": 3, "temperature": 0}
        with self.client.responses.stream(**asked) as stream:
            kinds = [event.type for event in stream]
            # The helper gives a final response only for one that was completed, which three tokens need not be.
            self.assertIn(kinds[-1], ["response.completed", "response.incomplete"])
        whole = self.client.responses.create(**asked)
        self.assertEqual(self.client.responses.retrieve(whole.id).output_text, whole.output_text)
        self.client.responses.delete(whole.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(whole.id)

    def test_models(self):
        self.assertEqual({model.id for model in self.client.models.list()}, {MODEL, ALIGNED, RANKER})

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            self.client.chat.completions.create(model="model_nobody", messages=HELLO)
        self.assertIn("Model not found", raised.exception.message)
        self.assertEqual(raised.exception.code, "not_found")
        with self.assertRaises(openai.UnprocessableEntityError):
            self.client.chat.completions.create(model=MODEL, messages=[])
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="pl_wrong").models.list()


class Anthropic(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0)

    def tearDown(self):
        self.client.close()

    def test_message_and_stream(self):
        # This client has no parameter for the temperature any more.
        asked = {"model": MODEL, "messages": HELLO, "max_tokens": 4, "extra_body": {"temperature": 0}}
        whole = self.client.messages.create(**asked)
        with self.client.messages.stream(**asked) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_tool(self):
        answer = self.client.messages.create(
            model=MODEL,
            messages=HELLO,
            max_tokens=60,
            extra_body={"temperature": 0},
            tools=[{"name": "paint", "input_schema": COLOURS}],
            tool_choice={"type": "tool", "name": "paint", "disable_parallel_tool_use": True},
        )
        self.assertEqual(answer.stop_reason, "tool_use")
        self.assertIn(answer.content[-1].input["colour"], ["red", "blue"])

    def test_count_tokens(self):
        self.assertGreater(self.client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens, 3)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError) as raised:
            self.client.messages.create(model="model_nobody", messages=HELLO, max_tokens=1)
        self.assertIn("Model not found", str(raised.exception))


class LiteLLM(unittest.TestCase):
    OWN = {"api_base": BASE, "api_key": KEY, "max_retries": 0}

    def test_chat_and_stream(self):
        for provider in ("openai", "hosted_vllm", "anthropic"):
            with self.subTest(provider):
                asked = {"model": f"{provider}/{MODEL}", "messages": HELLO, "max_tokens": 4, "temperature": 0}
                whole = litellm.completion(**asked, **self.OWN)
                chunks = litellm.completion(**asked, **self.OWN, stream=True)
                text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
                self.assertEqual(text, whole.choices[0].message.content)

    def test_tool(self):
        answer = litellm.completion(
            model=f"openai/{MODEL}",
            messages=HELLO,
            tools=[PAINT],
            tool_choice="required",
            parallel_tool_calls=False,
            **FORMED,
            **self.OWN,
        )
        self.assertIn(colour_of(answer.choices[0].message.tool_calls[0].function.arguments), ["red", "blue"])

    def test_structured_output(self):
        answer = litellm.completion(
            model=f"openai/{MODEL}", messages=HELLO, response_format=FORMAT, **FORMED, **self.OWN
        )
        self.assertIn(colour_of(answer.choices[0].message.content), ["red", "blue"])

    def test_embedding(self):
        data = litellm.embedding(model=f"openai/{MODEL}", input=["One", "Two"], **self.OWN).data
        self.assertAlmostEqual(sum(value * value for value in data[1]["embedding"]), 1, places=5)

    def test_responses(self):
        answer = litellm.responses(model=f"openai/{MODEL}", input="Say hello.", max_output_tokens=3, **self.OWN)
        self.assertEqual(answer.object, "response")
        self.assertGreater(answer.usage.output_tokens, 0)

    def test_rerank(self):
        for provider in ("cohere", "hosted_vllm"):
            with self.subTest(provider):
                answer = litellm.rerank(
                    model=f"{provider}/{RANKER}",
                    query=QUERY,
                    documents=DOCUMENTS,
                    top_n=2,
                    api_base=BASE,
                    api_key=KEY,
                )
                self.assertEqual(len(answer.results), 2)

    def test_errors(self):
        with self.assertRaises(litellm.NotFoundError):
            litellm.completion(model="openai/model_nobody", messages=HELLO, **self.OWN)


class Cohere(unittest.TestCase):
    def test_rerank(self):
        for client in (cohere.ClientV2(api_key=KEY, base_url=BASE), cohere.Client(api_key=KEY, base_url=BASE)):
            with self.subTest(type(client).__name__):
                results = client.rerank(model=RANKER, query=QUERY, documents=DOCUMENTS, top_n=2).results
                self.assertEqual(len(results), 2)
                self.assertGreaterEqual(results[0].relevance_score, results[1].relevance_score)

    def test_errors(self):
        client = cohere.ClientV2(api_key=KEY, base_url=BASE)
        with self.assertRaises(cohere.NotFoundError) as raised:
            client.rerank(model="model_nobody", query=QUERY, documents=DOCUMENTS)
        self.assertIn("Model not found", str(raised.exception.body))


if __name__ == "__main__":
    unittest.main(verbosity=2)
