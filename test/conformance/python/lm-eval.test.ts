// lm-evaluation-harness against a live server: what it measures over HTTP is what our own scorer says of the same tokens.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { installation, readConfig } from "../../../src/base/config.ts";
import { createLog } from "../../../src/base/log.ts";
import type { Generator } from "../../../src/engine/generator.ts";
import { createGpu } from "../../../src/engine/gguf/gpu.ts";
import { createGenerator } from "../../../src/engine/serve/generator.ts";
import { type Served, servedHouse, withoutModel } from "../../helpers/served.ts";
import { outputFolder, program, run, withoutPython } from "./environment.ts";

const tasks = join(installation, "test/conformance/python/lm-eval");
const results = join(outputFolder, "lm-eval");
const tolerance = 2e-2;

interface Item {
  question: string;
  choices: string[];
  answer: number;
}
interface Sample {
  doc: Item;
  /** Of each choice: [[sum of its log-probs, whether it was the greedy answer]], as texts. */
  resps: [[string, string]][];
  acc: number;
}

describe("lm-evaluation-harness", { skip: withoutModel || (await withoutPython()) }, () => {
  let it: Served;
  let generator: Generator;
  before(async () => {
    const settings = { PLUMBLINE_THREADS: "1", PLUMBLINE_SLOTS: "2", PLUMBLINE_SLOT_CONTEXT: "256" };
    const config = readConfig(settings);
    const gpu = createGpu({ memoryBytes: 4e9, gpuBytes: 0, threads: 1 });
    generator = createGenerator({ config, log: createLog("error"), gpu });
    it = await servedHouse({}, { generator });
  });
  after(() => it.close());

  /** Our own scorer's log-probs of what `choice` adds to the question. */
  async function score({ question }: Item, choice: string): Promise<{ tokens: number[]; logprobs: number[] }> {
    const { encode } = generator.tokenizer(it.baseId);
    const tokens = encode(`${question} ${choice}`, false);
    const promptLength = encode(question, false).length;
    const model = { baseId: it.baseId, basePath: readConfig({}).starterModel };
    const [logprobs] = await generator.score(model, [{ tokens, promptLength }], new AbortController().signal);
    return { tokens, logprobs: [...logprobs!] };
  }

  test("local-completions: the same accuracy, and the same log-probs", async (t) => {
    rmSync(results, { recursive: true, force: true });
    const base = `${it.url}/api/v3/inference/v1/completions`;
    const { code, output } = await run(
      program("lm_eval"),
      [
        ...["--model", "local-completions", "--tasks", "two_choice", "--include_path", tasks, "--batch_size", "4"],
        ...["--model_args", `model=${it.baseId},base_url=${base},tokenizer_backend=remote,auth_token=${it.key}`],
        ...["--log_samples", "--output_path", results],
      ],
      { OPENAI_API_KEY: it.key, HF_HUB_OFFLINE: "1", HF_HOME: join(outputFolder, "hf") },
      // The task names its rows from here.
      installation,
    );
    assert.equal(code, 0, output);
    const [folder] = readdirSync(results);
    const file = readdirSync(join(results, folder!)).find((name) => name.startsWith("samples_two_choice_"))!;
    const samples = readFileSync(join(results, folder!, file), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Sample);
    assert.equal(samples.length, 20);
    let right = 0;
    let largest = 0;
    for (const { doc, resps, acc } of samples) {
      const ours = await Promise.all(doc.choices.map((choice) => score(doc, choice)));
      const sums = ours.map(({ logprobs }) => logprobs.reduce((sum, value) => sum + value, 0));
      for (const [at, [[theirs]]] of resps.entries()) {
        const difference = Math.abs(Number(theirs) - sums[at]!) / ours[at]!.logprobs.length;
        largest = Math.max(largest, difference);
        assert(difference <= tolerance, `${doc.question}: ${theirs}, ours ${sums[at]}`);
      }
      const correct = Number(sums[doc.answer]! >= Math.max(...sums));
      assert.equal(acc, correct, doc.question);
      right += correct;
    }
    t.diagnostic(`${right} of 20 right; log-probs differ by ${largest} a token at most`);
    assert(right > 10 && right <= 20, `${right} of 20`);
  });

  test("its remote tokenizer finds the model's own control tokens, and writes what it read", async () => {
    const script = [
      "import json, os",
      "from lm_eval.utils import RemoteTokenizer",
      "t = RemoteTokenizer(base_url=os.environ['BASE'], auth_token=os.environ['KEY'])",
      "text = t.apply_chat_template([{'role': 'user', 'content': 'René'}])",
      "print(json.dumps({'eos': t.eos_token_id, 'bos': t.bos_token_id, 'text': text, 'ids': t.encode(text), 'again': t.decode(t.encode(text))}))",
    ].join("\n");
    const { code, output } = await run(program("python"), ["-c", script], {
      BASE: `${it.url}/api/v3/inference/v1/completions`,
      KEY: it.key,
    });
    assert.equal(code, 0, output);
    const tokenizer = generator.tokenizer(it.baseId);
    const told = JSON.parse(output.trim().split("\n").at(-1)!) as Record<string, unknown>;
    assert.deepEqual([told.eos, told.bos], [tokenizer.eos, tokenizer.bos]);
    assert.equal(told.again, told.text);
    assert.deepEqual(told.ids, tokenizer.encode(String(told.text), true));
  });

  test("every token's log-prob over HTTP is our own scorer's", async (t) => {
    let largest = 0;
    const lines = readFileSync(join(tasks, "two-choice.jsonl"), "utf8").trim().split("\n");
    for (const item of lines.slice(0, 5).map((line) => JSON.parse(line) as Item)) {
      const { tokens, logprobs } = await score(item, item.choices[0]!);
      const body = { model: it.baseId, prompt: [tokens], max_tokens: 1, temperature: 0, logprobs: 1, echo: true };
      const { choices } = (await it.call("inference.completions", { body })).body;
      const told = choices[0].logprobs.token_logprobs.slice(tokens.length - logprobs.length, tokens.length) as number[];
      for (const [at, value] of told.entries()) largest = Math.max(largest, Math.abs(value - logprobs[at]!));
    }
    t.diagnostic(`log-probs differ by ${largest} at most`);
    assert(largest <= tolerance);
  });
});
