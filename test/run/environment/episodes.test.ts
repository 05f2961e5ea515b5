// Episodes of several turns: which calls are read, how a template goes on behind them, and that only the policy's own tokens are learned
// from. The sampler is a script, but for the last test, where the real trainer takes the steps.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../../../src/base/log.ts";
import { formatChat } from "../../../src/engine/format/chat-format.ts";
import { plainCalls } from "../../../src/engine/format/tool-format.ts";
import type { Tokenizer } from "../../../src/engine/generator.ts";
import { openTokenizer } from "../../../src/engine/serve/generator.ts";
import type { Rows, Trainer, TrainerSampling } from "../../../src/engine/train/trainer.ts";
import { masked } from "../../../src/run/auto/reinforce.ts";
import { resolveSampling } from "../../../src/run/auto/sampling.ts";
import type { Run } from "../../../src/run/context.ts";
import { callIn, continuation } from "../../../src/run/environment/calls.ts";
import { drawEpisodes, type Episode } from "../../../src/run/environment/episodes.ts";
import { openToolbox, tools } from "../../../src/run/environment/tools.ts";
import { runAlignment } from "../../../src/run/run.ts";
import { starterModel } from "../../engine/engine-fixture.ts";
import { letters } from "../../helpers/letters.ts";
import { withoutModel } from "../../helpers/served.ts";
import { documentOf } from "../../helpers/study.ts";
import { claimAutoAlign, devItem, eventsOf, newRunFolder, overridden, partsOf, template } from "../run-harness.ts";

const document = documentOf(
  "# Lamps\n\nThe lamp called Orla weighs 3 kg.\n\n# Boats\n\nThe boat called Brim costs 41 euros.\n",
  "text/markdown",
  "stock.md",
);
const { control } = partsOf();
const run = { snapshot: { documents: [document] }, request: {}, parts: { control } } as unknown as Run;
const called = (name: string, given: object): string =>
  `<tool_call>\n${JSON.stringify({ name, arguments: given })}\n</tool_call>`;

const tokenizer = letters({ chatTemplate: template });
const textOf = (tokens: readonly number[]): string => String.fromCharCode(...tokens);

function rowsOf({ tokens, rowLengths }: Rows): number[][] {
  let end = 0;
  return [...rowLengths].map((length) => {
    end += length;
    return [...tokens.subarray(end - length, end)];
  });
}

/** Says of each row what `say` does, with log-probs that tell its tokens apart. */
function scripted(say: (prompt: string, row: number, settings: TrainerSampling) => string) {
  const calls: { rows: string[]; seed: number }[] = [];
  const sample: Trainer["sample"] = async (_, { tokens, rowLengths }, settings) => {
    const rows = rowsOf({ tokens, rowLengths }).map(textOf);
    calls.push({ rows, seed: settings.seed });
    return rows.map((prompt, row) => {
      const said = tokenizer.encode(say(prompt, row, settings), false);
      const isCut = said.length > settings.maxTokens;
      const drawn = isCut ? said.slice(0, settings.maxTokens) : [...said, 2];
      return {
        tokens: Int32Array.from(drawn),
        logprobs: Float32Array.from(drawn, (_token, place) => -(place + 1) / 100),
        stopReason: isCut ? "length" : "stop",
      };
    });
  };
  return { trainer: { sample }, calls };
}

const names = ["calculator", "search"] as const;
const sampling = resolveSampling({ max_tokens: 120 }, { context: 4000, inner: 1 });
const promptOf = (question: string): number[] =>
  formatChat(tokenizer, [{ role: "user", content: question }], { tools: names.map((name) => tools[name]) });

async function drawn(
  say: Parameters<typeof scripted>[0],
  { maxTurns = 4, plan = sampling, prompts = [promptOf("How much?")], maxBatchTokens = 1 << 18 } = {},
) {
  const { trainer, calls } = scripted(say);
  const environment = { maxTurns, tools: names, toolbox: await openToolbox(run, names) };
  const drawing = { tokenizer, trainer, adapter: "a", sampling: plan, environment, maxBatchTokens };
  return { episodes: await drawEpisodes(drawing, prompts, 7), calls };
}

const ownText = ({ tokens, isOwn }: Episode): string => textOf(tokens.filter((_, at) => isOwn[at]));

test("a policy that calls a tool is answered, and its last turn is its answer", async () => {
  const first = called("calculator", { expression: "6 * 7" });
  const { episodes, calls } = await drawn((prompt) => (prompt.includes("tool_response>\n42\n") ? "It is 42." : first));
  const [episode] = episodes as [Episode];
  assert.deepEqual([episode.turns, episode.answer], [2, "It is 42."]);
  assert.equal(ownText(episode), `${first}\u0002It is 42.\u0002`);
  assert.equal(
    textOf(episode.tokens.filter((_, at) => !episode.isOwn[at])),
    "\nuser: <tool_response>\n42\n</tool_response>\nassistant: ",
  );
  // What the second turn was drawn behind is what the first one left, token for token.
  assert.equal(
    calls[1]!.rows[0],
    textOf([...promptOf("How much?"), ...episode.tokens.slice(0, -"It is 42.".length - 1)]),
  );
  assert.notEqual(calls[0]!.seed, calls[1]!.seed);
});

test("only the policy's own tokens have weight, an advantage and a log-prob", async () => {
  const { episodes } = await drawn((prompt) =>
    prompt.includes("tool_response>") ? "42" : called("calculator", { expression: "42" }),
  );
  const [said] = episodes as [Episode];
  const own = said.isOwn.filter(Boolean).length;
  const prompt = { item: {} as never, tokens: [1, 2, 3] };
  const { mask, advantages } = masked({
    prompt,
    said,
    advantage: Float64Array.from({ length: own }, (_, at) => at + 1),
  });
  assert.deepEqual([...(mask as Float64Array)], [0, 0, 0, ...said.isOwn.map(Number)]);
  assert.deepEqual(
    [...(advantages as Float64Array)].filter((value) => value !== 0),
    Array.from({ length: own }, (_, at) => at + 1),
  );
  for (const [at, isOwn] of said.isOwn.entries()) assert.equal(said.logprobs[at] !== 0, isOwn);
});

test("an episode ends with an answer, at its last turn, where a turn is cut, and where no room is left", async () => {
  const call = called("search", { query: "Orla" });
  const always = await drawn(() => call, { maxTurns: 3 });
  assert.deepEqual([always.episodes[0]!.turns, always.episodes[0]!.answer], [3, call]);
  const plain = await drawn(() => "No idea.");
  assert.equal(plain.episodes[0]!.turns, 1);
  const cut = await drawn(() => `${call} and then ${"so on ".repeat(30)}`);
  assert.equal(cut.episodes[0]!.turns, 1);
  const prompt = promptOf("How much?");
  const tight = { ...sampling, maxSeqLen: prompt.length + 2 * sampling.maxTokens };
  const room = await drawn(() => call, { plan: tight });
  assert.equal(room.episodes[0]!.turns, 1);
  for (const { tokens } of [...always.episodes, ...room.episodes])
    assert.ok(prompt.length + tokens.length <= sampling.maxSeqLen);
});

test("episodes go on together, and those that have ended are drawn no further", async () => {
  const prompts = ["A", "B", "C"].map(promptOf);
  const { episodes, calls } = await drawn(
    (prompt) =>
      prompt.includes("user: B\n") && !prompt.includes("tool_response>\nError") ? "<tool_call>\n{oops" : "Done.",
    { prompts },
  );
  assert.deepEqual(
    episodes.map(({ turns }) => turns),
    [1, 2, 1],
  );
  assert.deepEqual(
    calls.map(({ rows }) => rows.length),
    [3, 1],
  );
  assert.match(calls[1]!.rows[0]!, /Error: a call is a JSON object/);
});

test("more prompts than a call of the trainer may have are drawn in several calls, each with its own seed", async () => {
  const prompts = Array.from({ length: 5 }, () => promptOf("How much?"));
  const room = 2 * (prompts[0]!.length + sampling.maxTokens);
  const { episodes, calls } = await drawn((_, row) => `Answer ${row}`, { prompts, maxBatchTokens: room });
  assert.deepEqual(
    calls.map(({ rows }) => rows.length),
    [2, 2, 1],
  );
  assert.equal(new Set(calls.map(({ seed }) => seed)).size, 3);
  assert.equal(calls[0]!.seed, 7);
  assert.deepEqual(
    episodes.map(({ answer }) => answer),
    ["Answer 0", "Answer 1", "Answer 0", "Answer 1", "Answer 0"],
  );
});

test("calls are read in the model's own form, and a broken one is told", () => {
  assert.deepEqual(callIn(`So: ${called("search", { query: "x" })}`, plainCalls), {
    name: "search",
    arguments: { query: "x" },
  });
  assert.equal(callIn('{"name": "search", "arguments": {}}', plainCalls), undefined);
  for (const broken of [
    "<tool_call>",
    "<tool_call>\n{",
    '<tool_call>\n{"name": 1}',
    '<tool_call>{"name":"a","arguments":[]}',
  ])
    assert.equal(callIn(broken, plainCalls), null, broken);
  const bare = { ...plainCalls, before: "", argumentsKey: "parameters" };
  assert.deepEqual(callIn('{"name":"search","parameters":{}}', bare), { name: "search", arguments: {} });
  assert.equal(callIn("The set {a, b} is small.", bare), undefined);
});

test("tools answer whatever they are asked, errors too", async () => {
  const box = await openToolbox(run, names);
  const search = (query: unknown) => box.answer({ name: "search", arguments: { query } });
  assert.match(search("lamp Orla"), /^stock\.md|Lamps/);
  assert.match(search("lamp Orla"), /weighs 3 kg/);
  assert.equal(search("zzz"), "Nothing is found.");
  assert.equal(search(7), "Error: search needs the text query.");
  assert.equal(box.answer({ name: "calculator", arguments: { expression: "1/0" } }), "Error: division by 0.");
  assert.match(box.answer({ name: "shell", arguments: {} }), /there is no tool shell; there are calculator, search/);
  const few = await openToolbox(run, ["calculator"]);
  assert.match(few.answer({ name: "search", arguments: { query: "x" } }), /there are calculator\./);
});

test("the starter model's template goes on behind its own end of a turn", { skip: withoutModel }, async (t) => {
  const { tokenizer, dispose } = await openTokenizer(starterModel, createLog("error"));
  t.after(dispose);
  const next = continuation(tokenizer, [tools.calculator], "42");
  const shown = next.map((token) => tokenizer.pieceOf(token)).join("");
  assert.match(
    shown,
    /^\n?<\|im_start\|>user\n<tool_response>\n42\n<\/tool_response><\|im_end\|>\n<\|im_start\|>assistant\n$/,
  );
});

/** Knows tools by itself, in a form of its own. */
const withTools =
  "{% if tools %}tools: {% for tool in tools %}{{ tool.function.name }} {{ tool.function.description }}\n{% endfor %}{% endif %}" +
  "{% for message in messages %}{{ message.role }}: {{ message.content }}{% if message.tool_calls %}" +
  '{% for call in message.tool_calls %}<call>{"name": "{{ call.function.name }}", ' +
  '"arguments": {{ call.function.arguments | tojson }}}</call>{% endfor %}{% endif %}\n{% endfor %}' +
  "{% if add_generation_prompt %}assistant: {% endif %}";

test("a phase over several turns: the real trainer says of the policy's tokens what its sampler said, and learns nothing else", async () => {
  const dev = Array.from({ length: 8 }, (_, at) => devItem(at + 1, `How heavy is lamp ${at}?`, `${at} kg`));
  const folder = await newRunFolder({
    dev,
    recipe: (recipe) => ({ ...recipe, rendering: { ...recipe.rendering, max_seq_len: 400 } }),
  });
  claimAutoAlign(folder, {
    request: {
      target_score: 99,
      sequencing: ["reinforce"],
      config: {
        environment: { type: "tool_use", max_turns: 2, tools: ["calculator"] },
        reward: { type: "verifier", verifier_ref: "builtin:regex?pattern=e" },
        sampling: { prompt_groups_per_step: 2, group_size: 8, max_tokens: 4 },
        training: { steps: 2 },
      },
    },
  });
  const parts = partsOf();
  /** What passes had before them and what they trained, read while the tokenizer is open. */
  const learned: { text: string; trained: string }[] = [];
  let tokenizer: Tokenizer | null = null;
  const call = '<call>{"name": "calculator", "arguments": {"expression": "2*3"}}</call>';
  const wrap = (trainer: Trainer): Trainer =>
    overridden(trainer, {
      async sample(adapter, rows: Rows, settings) {
        const text = tokenizer!.decode([...rows.tokens]);
        if (adapter === null || !text.includes("tools: ") || text.includes("tool: 6"))
          return trainer.sample(adapter, rows, settings);
        // The first turn calls, as a policy that has learned to; its log-probs are the trainer's own.
        const said = [...tokenizer!.encode(call, false), tokenizer!.eos!];
        const whole = rowsOf(rows).map((row) => [...row, ...said]);
        const all = { tokens: Int32Array.from(whole.flat()), rowLengths: Int32Array.from(whole, (row) => row.length) };
        const logprobs = await trainer.score(adapter, all, rows.rowLengths);
        let end = 0;
        return whole.map((row) => {
          end += row.length;
          return {
            tokens: Int32Array.from(said),
            logprobs: logprobs.slice(end - said.length, end),
            stopReason: "stop" as const,
          };
        });
      },
      async forwardBackward(adapter, rows) {
        const read = (tokens: readonly number[]): string => tokenizer!.decode(tokens);
        const tokens = [...rows.tokens];
        learned.push({ text: read(tokens), trained: read(tokens.filter((_, at) => rows.weights[at] !== 0)) });
        return trainer.forwardBackward(adapter, rows);
      },
    });
  const clock = { monotonicMs: () => 0, now: () => "2026-01-01T00:00:00.000Z" };
  const openTokenizerOf: typeof parts.openTokenizer = async (path) => {
    const opened = await parts.openTokenizer(path);
    tokenizer = { ...opened.tokenizer, chatTemplate: withTools };
    return { ...opened, tokenizer };
  };
  const grade = (answer: string) => ({ correct: answer.includes("e") });
  const result = await runAlignment(folder, partsOf({ wrap, over: { clock, grade, openTokenizer: openTokenizerOf } }));
  assert.equal(result.error, null);
  const steps = eventsOf(folder).filter(({ kind, metrics }) => kind === "step" && metrics?.turns !== undefined);
  assert.ok(steps.length > 0);
  for (const { metrics } of steps) {
    assert.equal(metrics!.turns, 2);
    assert.ok(Math.abs(metrics!.sampler_kl as number) < 1e-3, String(metrics!.sampler_kl));
  }
  const phase = learned.filter(({ text }) => text.includes("tool: 6"));
  assert.ok(phase.length > 0);
  for (const { trained } of phase) {
    assert.match(trained, /<call>/);
    assert.doesNotMatch(trained, /tool: 6|tools: |lamp/);
  }
});
