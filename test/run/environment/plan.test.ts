// The environment block: defaults, what is refused by its field, and what changes nothing.
import assert from "node:assert/strict";
import { test } from "node:test";
import { resolveEnvironment } from "../../../src/run/environment/plan.ts";

test("a single turn unless tools or more turns are asked for", () => {
  const plan = (block: Record<string, unknown>) => {
    const { maxTurns, tools } = resolveEnvironment(block);
    return [maxTurns, ...tools];
  };
  assert.deepEqual(plan({}), [1]);
  assert.deepEqual(plan({ type: "single_turn", max_turns: 1, tools: [] }), [1]);
  assert.deepEqual(plan({ type: "multi_turn" }), [4, "calculator", "search"]);
  assert.deepEqual(plan({ type: "tool_use", max_turns: 2, tools: ["search", "search"] }), [2, "search"]);
  assert.deepEqual(plan({ tools: ["calculator"] }), [4, "calculator"]);
  assert.deepEqual(plan({ max_turns: 3 }), [3, "calculator", "search"]);
});

test("what changes nothing is told with its reason", () => {
  const ignored = (block: Record<string, unknown>) => resolveEnvironment(block).ignored.map(({ field }) => field);
  assert.deepEqual(ignored({ type: "single_turn", max_turns: 3, tools: ["search"] }), [
    "environment.max_turns",
    "environment.tools",
  ]);
  assert.deepEqual(ignored({ type: "multi_agent" }), ["environment.type"]);
  assert.deepEqual(ignored({ type: "multi_turn", max_turns: 3, tools: ["search"] }), []);
  for (const { reason } of resolveEnvironment({ type: "multi_agent", max_turns: 2 }).ignored)
    assert.match(reason, /^(redundant|not supported): ./);
  assert.equal(resolveEnvironment({ type: "tool_use" }).warnings.length, 1);
});

test("a value that cannot be followed is refused with its field", () => {
  const refused: [Record<string, unknown>, RegExp][] = [
    [{ type: "arena" }, /^config\.environment\.type: must be one of single_turn, multi_turn, tool_use/],
    [{ max_turns: 0 }, /^config\.environment\.max_turns: /],
    [{ max_turns: 1.5 }, /^config\.environment\.max_turns: /],
    [{ tools: "search" }, /^config\.environment\.tools: /],
    [{ tools: ["shell"] }, /^config\.environment\.tools: .*calculator, search/],
    [{ type: "multi_turn", tools: [] }, /^config\.environment\.tools: is empty/],
  ];
  for (const [block, message] of refused) assert.throws(() => resolveEnvironment(block), { message });
});
