// What a client reads of a body that does not fit: which field, what was wrong with it, and nothing about what it did not mean.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { having, rules, textPart, whenever, where } from "../../src/contract/common.ts";
import { contract } from "../../src/contract/index.ts";
import { renamedFields } from "../../src/contract/renamed.ts";
import { compile } from "../../src/contract/validate.ts";
import { processorMs } from "../helpers/processor.ts";

const schema = {
  type: "object",
  properties: {
    content: { anyOf: [{ type: "string" }, { type: "array", items: textPart }] },
    list: { type: "array", items: { anyOf: [{ type: "string" }, having("text")] } },
    choice: { anyOf: [{ enum: ["auto", "none"] }, having("name")] },
    best_of: { type: "null", description: "Not served: ask for n." },
    tools: { type: "array" },
    format: { type: "string" },
  },
  ...rules(
    whenever(where("format", "json"), {
      type: "object",
      properties: { tools: { not: {}, description: "does not go with format" } },
    }),
  ),
} as const;
const check = compile(schema as never) as (value: unknown, at: string[]) => { ok: boolean; details: unknown[] };
const said = (value: unknown) =>
  (check(value, ["body"]).details as { loc: unknown[]; msg: string }[]).map(({ loc, msg }) => [loc.join("."), msg]);

describe("of what does not fit", () => {
  test("only the alternative speaks that was meant", () => {
    assert.deepEqual(said({ content: [{ type: "text" }] }), [["body.content.0.text", "field required"]]);
    const [[at, msg] = [], ...others] = said({ content: [{ type: "image" }] });
    assert.deepEqual([at, others], ["body.content.0.type", []]);
    assert.match(msg!, /must be equal to constant: text\. Images, files and documents are not supported\.$/);
    assert.deepEqual(said({ choice: {} }), [["body.choice.name", "field required"]]);
  });

  test("all alternatives speak where none was meant", () => {
    const wrong = said({ content: 5 });
    assert.deepEqual(new Set(wrong.map(([at]) => at)), new Set(["body.content"]));
    assert.deepEqual(
      wrong.map(([, msg]) => msg),
      ["must be string", "must be array", "must match a schema in anyOf"],
    );
  });

  test("an item's alternatives are its own, whatever its index begins with", () => {
    const list = Array.from({ length: 11 }, (_, at) => (at === 1 ? {} : at === 10 ? 5 : "fine"));
    assert.deepEqual(said({ list }), [
      ["body.list.1.text", "field required"],
      ["body.list.10", "must be string"],
      ["body.list.10", "must be object"],
      ["body.list.10", "must match a schema in anyOf"],
    ]);
  });

  test("what is not taken says why not, and a rule says what it misses", () => {
    assert.deepEqual(said({ best_of: 2 }), [["body.best_of", "Not served: ask for n."]]);
    assert.deepEqual(said({ format: "json", tools: [] }), [["body.tools", "does not go with format"]]);
    assert(check({ format: "text", tools: [] }, ["body"]).ok);
  });

  test("a field that has another name now gives that name, wherever the object has it", () => {
    const body = { line: "harbour", reason: "a test" };
    const promote = compile(contract["models.promote"].body as never) as typeof check;
    const query = compile(contract["models.promotions"].query as never) as typeof check;
    for (const result of [promote(body, ["body"]), query({ line: "harbour" }, ["body"])])
      assert.deepEqual(result.details, [
        { loc: ["body", "line"], msg: "unknown field; it is called channel now", type: "extra_forbidden" },
      ]);
    // A large body is checked field by field.
    const large = promote({ ...body, more: Array(10_000).fill(1) }, ["body"]).details as { msg: string }[];
    assert.deepEqual(
      large.map(({ msg }) => msg),
      ["unknown field; it is called channel now", "unknown field"],
    );
    const other = compile(contract["models.deploy"].params as never) as typeof check;
    assert.match(JSON.stringify(other({ model_id: "m", line: "l" }, ["path"]).details), /"unknown field"/);
    for (const [old, successor] of Object.entries(renamedFields)) {
      assert.notEqual(old, successor);
      assert.ok(JSON.stringify(contract).includes(`"${successor}":`), successor);
    }
  });

  test("ten thousand wrong items are looked through in a moment", () => {
    const ms = processorMs(() => assert(!check({ list: Array(10_000).fill({}) }, ["body"]).ok));
    assert(ms < 1_000, `${ms} ms`);
  });
});

describe("what is refused costs little, whatever its size", () => {
  for (const [name, field] of [
    ["inference.completions", "prompt"],
    ["inference.embeddings", "input"],
  ] as const)
    test(`${name}: three million objects for ${field}`, () => {
      const asked = compile(contract[name].body as never) as typeof check;
      asked({ model: "m", [field]: ["once, to compile it"] }, ["body"]);
      const body = { model: "m", [field]: Array(3_400_000).fill({}) };
      let details: unknown[] = [];
      const ms = processorMs(() => {
        details = asked(body, ["body"]).details;
      });
      assert.ok(details.length > 0 && details.length < 10 && ms < 500, `${details.length} errors in ${ms} ms`);
    });

  test("nothing of a refused body is kept", async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const refused = (): WeakRef<object> => {
      const item = {};
      assert(!check({ list: [item] }, ["body"]).ok);
      return new WeakRef(item);
    };
    const item = refused();
    // A reference that was made in this turn holds until its end.
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    assert.equal(item.deref(), undefined);
  });

  test("several broken fields are named at once, in a body of a usual size", () => {
    const messages = Array.from({ length: 200 }, () => ({ role: "user", content: "x".repeat(10_000) }));
    const asked = compile(contract["inference.chat"].body as never) as typeof check;
    const { details } = asked({ model: "m", messages, temperature: 3, n: 0, top_k: "1" }, ["body"]);
    const fields = (details as { loc: string[] }[]).map(({ loc }) => loc.join("."));
    assert.deepEqual(new Set(fields), new Set(["body.temperature", "body.n", "body.top_k"]));
  });
});
