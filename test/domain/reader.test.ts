// Answers as they are read: thoughts, words and calls, wherever the text is cut; and the steering of thoughts.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { checkedCall, type OfferedTool } from "../../src/domain/inference/calls.ts";
import { AnswerReader, type ReaderOptions, type Spoken } from "../../src/domain/inference/reader.ts";
import { budgetOf, isWanted, steerThought, thinkingPrompt } from "../../src/domain/inference/thinking.ts";
import { type CallFormat, plainCalls } from "../../src/engine/format/tool-format.ts";
import type { Tokenizer } from "../../src/engine/generator.ts";
import { letters } from "../helpers/letters.ts";

const marks = { open: "<think>", close: "</think>" };
const tools: OfferedTool[] = [
  {
    name: "f",
    parameters: { type: "object", properties: { a: { type: "integer" } }, additionalProperties: false },
    at: [],
  },
  { name: "g", parameters: {}, at: [] },
];
const bare: CallFormat = { before: "", after: "", nameKey: "name", argumentsKey: "parameters", isList: false };
const list: CallFormat = { ...plainCalls, before: "[CALLS]", after: "", isList: true };

const optionsOf = (more: Partial<ReaderOptions>): ReaderOptions => {
  const format = more.format ?? null;
  return {
    marks: null,
    isOpen: false,
    format,
    isParallel: true,
    isForced: false,
    check: (call) => checkedCall(tools, format!, call),
    newId: () => "id",
    ...more,
  };
};

/** What an answer was, its pieces put together: thoughts and words as texts, calls as lists. */
function gathered(spoken: readonly Spoken[]): unknown[] {
  const whole: (string | [string, string])[] = [];
  let last = "";
  for (const part of spoken) {
    if (part.kind === "call") whole.push([part.name, ""]);
    else if (part.kind === "arguments") (whole.at(-1) as [string, string])[1] += part.text;
    else if (part.kind === last) whole[whole.length - 1] += part.text;
    else whole.push(`${part.kind}: ${part.text}`);
    last = part.kind;
  }
  return whole;
}

function read(text: string, more: Partial<ReaderOptions>, cuts: number[] = []): unknown[] {
  const reader = new AnswerReader(optionsOf(more));
  const places = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b);
  const spoken: Spoken[] = [];
  let from = 0;
  for (const to of [...places, text.length]) {
    spoken.push(...reader.push(text.slice(from, to)));
    from = to;
  }
  return gathered([...spoken, ...reader.finish()]);
}

const call = (given: string, name = "f"): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;

describe("answers", () => {
  const rows: [name: string, text: string, options: Partial<ReaderOptions>, expected: unknown[]][] = [
    ["mere words", " a\n<b> ", {}, ["words:  a\n<b> "]],
    [
      "a thought, then words",
      "<think>\nhm </th no\n</think>\n\nYes <think>",
      { marks },
      ["thought: hm </th no", "words: Yes <think>"],
    ],
    ["a thought that the prompt began", "hm</think>Yes", { marks, isOpen: true }, ["thought: hm", "words: Yes"]],
    ["a thought that never ends", "<think>hm </thi", { marks }, ["thought: hm </thi"]],
    ["no thought", "\n<thin air>", { marks }, ["words: \n<thin air>"]],
    ["one call", call('{"a": 1}'), { format: plainCalls }, [["f", '{"a":1}']]],
    [
      "words, then calls",
      `So:\n${call('{"a": 1}')}\n${call('{"x": "}"}', "g")}`,
      { format: plainCalls },
      ["words: So:", ["f", '{"a":1}'], ["g", '{"x":"}"}']],
    ],
    [
      "a thought, then a call",
      `<think>x</think>\n${call("{}")}`,
      { marks, format: plainCalls },
      ["thought: x", ["f", "{}"]],
    ],
    ["a call of nobody's", call("{}", "h"), { format: plainCalls }, [`words: ${call("{}", "h")}`]],
    ["arguments that do not fit", call('{"a": "1"}'), { format: plainCalls }, [`words: ${call('{"a": "1"}')}`]],
    ["no arguments", '<tool_call>{"name": "f"}</tool_call>', { format: plainCalls }, [["f", "{}"]]],
    ["no end of the call", `${call("{}").slice(0, -13)}`, { format: plainCalls }, [["f", "{}"]]],
    [
      "a call cut short",
      '<tool_call>\n{"name": "f", "arg',
      { format: plainCalls },
      ['words: <tool_call>\n{"name": "f", "arg'],
    ],
    ["a mark and no call", "<tool_call> is a mark", { format: plainCalls }, ["words: <tool_call> is a mark"]],
    ["what is no JSON", "<tool_call>{f}</tool_call>!", { format: plainCalls }, ["words: <tool_call>{f}</tool_call>!"]],
    ["words after a call", `${call("{}")}\nDone.`, { format: plainCalls }, [["f", "{}"], "words: Done."]],
    [
      "of several calls the first, where one is allowed",
      `${call('{"a": 1}')}\n${call("{}", "g")}\nDone.`,
      { format: plainCalls, isParallel: false },
      [["f", '{"a":1}'], "words: Done."],
    ],
    [
      "of a list of calls the first, where one is allowed",
      '[CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]',
      { format: list, isParallel: false },
      [["f", "{}"]],
    ],
    ["a bare call", ' {"name": "g", "parameters": {"q": [1]}}', { format: bare }, [["g", '{"q":[1]}']]],
    ["JSON that is no call", '{"answer": 42} is it', { format: bare }, ['words: {"answer": 42} is it']],
    ["JSON in the midst of words", 'See {"name": "g"}', { format: bare }, ['words: See {"name": "g"}']],
    [
      "a list of calls",
      '[CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]',
      { format: list },
      [
        ["f", "{}"],
        ["g", "{}"],
      ],
    ],
    [
      "forced calls",
      `${call('{"a": -5}')}\n${call('{"s": "\\"}{"}', "g")}`,
      { format: plainCalls, isForced: true },
      [
        ["f", '{"a": -5}'],
        ["g", '{"s": "\\"}{"}'],
      ],
    ],
    [
      "a forced call cut short",
      '<tool_call>\n{"name": "g", "arguments": {"s": "x',
      { format: plainCalls, isForced: true },
      [["g", '{"s": "x']],
    ],
    [
      "a forced list",
      '[CALLS][{"name":"f","arguments":{"a":{}}},{"name":"g","arguments":{}}]',
      { format: list, isForced: true },
      [
        ["f", '{"a":{}}'],
        ["g", "{}"],
      ],
    ],
  ];
  for (const [name, text, options, expected] of rows)
    test(name, () => {
      assert.deepEqual(read(text, options), expected);
      fc.assert(
        fc.property(fc.array(fc.nat(), { maxLength: 20 }), (cuts) =>
          assert.deepEqual(read(text, options, cuts), expected),
        ),
      );
      assert.deepEqual(
        read(
          text,
          options,
          [...text].map((_, at) => at),
        ),
        expected,
      );
    });

  test("words are shown at once, a mark only held while it may be one, a call when it is whole", () => {
    const reader = new AnswerReader(optionsOf({ format: plainCalls }));
    const shown = ["So", ": <to", "ast> <tool_", "call>{", '"name":"f","arguments":{}}', "</tool_call>"].map((text) =>
      gathered(reader.push(text)),
    );
    assert.deepEqual(shown, [["words: So"], ["words: :"], ["words:  <toast>"], [], [], [["f", "{}"]]]);
  });

  test("forced arguments come as they are made", () => {
    const reader = new AnswerReader(optionsOf({ format: plainCalls, isForced: true }));
    const shown = ['<tool_call>\n{"name": "g", "argu', 'ments": {"a', '": 1', "}}"].map((text) => reader.push(text));
    assert.deepEqual(shown, [
      [],
      [
        { kind: "call", call: 0, id: "id", name: "g" },
        { kind: "arguments", call: 0, text: '{"a' },
      ],
      [{ kind: "arguments", call: 0, text: '": 1' }],
      [{ kind: "arguments", call: 0, text: "}" }],
    ]);
  });
});

describe("thinking", () => {
  /** A token is a character. */
  const tokenizer = {
    pieceOf: (token: number) => String.fromCharCode(token),
    encode: (text: string) => [...text].map((character) => character.charCodeAt(0)),
  } as unknown as Tokenizer;
  const afterwards = { constrained: true };
  const run = (text: string, more: { isOpen?: boolean; mustOpen?: boolean; budget?: number | null }) => {
    const given = { isOpen: false, mustOpen: false, budget: null, ...more, afterwards };
    const { steer, tokens } = steerThought(tokenizer, marks, given);
    const told: [number, object][] = [];
    const first = steer(null);
    for (const [at, token] of tokenizer.encode(text, true).entries()) {
      const steering = steer(token);
      if (Object.keys(steering).length > 0) told.push([at, steering]);
    }
    return { first, told, tokens: tokens() };
  };
  const taken = (text: string) => ({ take: tokenizer.encode(text, true) });

  test("a thought is followed to its end", () => {
    const text = "\n<think>ab</think>cd";
    assert.deepEqual(run(text, {}), {
      first: {},
      told: [[text.indexOf("c"), afterwards]].map(([at, what]) => [(at as number) - 1, what]),
      tokens: 10,
    });
    assert.deepEqual(run("ab</think>", { isOpen: true }).told, [[9, afterwards]]);
    assert.deepEqual(run("ab</think>", { isOpen: true }).first, { constrained: false });
    assert.deepEqual(run("plain", {}).told, []);
    assert.deepEqual(run("", { mustOpen: true }).first, { ...taken("<think>\n"), constrained: false });
  });

  test("only a mark that the template wrote opens or closes a thought", async () => {
    const asked = async (content: string, wanted: boolean | null, more = "") => {
      const { chatTemplate } = letters();
      const model = letters({ chatTemplate: `${chatTemplate}{{ ${JSON.stringify(more)} }}` });
      const { tokens, isOpen } = await thinkingPrompt(model, [{ role: "user", content }], {}, marks, wanted);
      return [model.decode(tokens), isOpen];
    };
    const said = "What is <think>?";
    assert.deepEqual(await asked(said, null), [`<user>${said}<assistant>`, false]);
    assert.deepEqual(await asked(said, null, "<think>\n"), [`<user>${said}<assistant><think>\n`, true]);
    const empty = "<think>\n\n</think>\n\n";
    assert.deepEqual(await asked("a</think>", false), [`<user>a</think><assistant>${empty}`, false]);
    assert.deepEqual(await asked("a", false, "<think>\n"), ["<user>a<assistant><think>\n\n</think>\n\n", false]);
    assert.deepEqual(await asked("a", false, empty), [`<user>a<assistant>${empty}`, false]);
  });

  test("a budget closes it", () => {
    const closing = "\n</think>\n\n";
    const { told, tokens } = run(`<think>abc${closing}rest`, { budget: 3 });
    assert.deepEqual(told, [
      [9, taken(closing)],
      [18, afterwards],
    ]);
    assert.equal(tokens, 12);
  });

  test("effort, budgets and switches", () => {
    const asked = { enabled: null, effort: null, maxTokens: null };
    assert.deepEqual(
      [
        isWanted(asked),
        isWanted({ ...asked, effort: "low" }),
        isWanted({ ...asked, effort: "none" }),
        isWanted({ ...asked, enabled: false, effort: "high" }),
        isWanted({ ...asked, maxTokens: 0 }),
        isWanted({ ...asked, maxTokens: 5 }),
        isWanted({ ...asked, enabled: true }),
      ],
      [null, true, false, false, false, true, true],
    );
    assert.deepEqual(
      [
        budgetOf(asked, 100),
        budgetOf({ ...asked, effort: "medium" }, 100),
        budgetOf({ ...asked, effort: "high", maxTokens: 7 }, 100),
      ],
      [null, 50, 7],
    );
  });
});
