// Every list of every body a megabyte long, and every object with 99,000 keys that nobody knows: whatever the answer is, the house
// goes on answering others meanwhile. Made from the contract.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Endpoint, scopes } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { exampleOf } from "../../src/http/examples.ts";
import { bodyOf, type Ids, ownedBy, pathOf, type Schema } from "../helpers/matrix.ts";
import { type Scripted, scriptedHouse } from "../helpers/scripted.ts";

/** Longest that others may wait. */
const mostMs = 1_000;

let it: Scripted;
let ids: Ids;
/** May everything: what is refused is refused for its size. */
let key: string;
before(async () => {
  it = await scriptedHouse();
  ids = await ownedBy(it, "ada", it.key);
  key = ((await it.house.admin("key.create", { user: "ada", scopes })) as { key: string }).key;
  last = now();
  probe = setInterval(ask, 100);
});
after(async () => {
  clearInterval(probe);
  await Promise.all(asked);
  await it.close();
});

// Somebody else asks for /healthz every 100 ms. How long that took is told in the processor's time of this thread, which is the
// house's too: what else runs on the machine does not count.
let probe: NodeJS.Timeout;
const now = () => ({ cpu: process.threadCpuUsage(), ms: performance.now() });
let last = now();
const asked = new Set<Promise<void>>();
let sending = "nothing";
const worst = { ms: 0, what: "" };
const worstWall = { ms: 0, what: "" };
const note = (kept: typeof worst, ms: number, what: string): void => {
  if (ms > kept.ms) Object.assign(kept, { ms, what });
};

function ask(): void {
  // It was to be asked a tenth of a second after the last time: what came between made it late.
  const due = last;
  const what = sending;
  last = now();
  const one = fetch(`${it.url}/healthz`).then(async (response) => {
    await response.text();
    const { user, system } = process.threadCpuUsage(due.cpu);
    note(worst, (user + system) / 1000, what);
    note(worstWall, performance.now() - due.ms - 100, what);
    assert.equal(response.status, 200);
  });
  asked.add(one);
  one.finally(() => asked.delete(one)).catch(() => {});
}

async function send(endpoint: Endpoint, body: string, what: string): Promise<number> {
  sending = what;
  const response = await it.get(pathOf(endpoint, ids), {
    method: endpoint.method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body,
  });
  const text = await response.text();
  assert.ok(response.status < 500, `${what}: ${response.status} ${text.slice(0, 500)}`);
  assert.ok(response.ok || text.length < 20_000, `${what}: the refusal has ${text.length} characters`);
  return response.status;
}

/** A list or an object of a body; `place` makes the body's field that has a value in its place. */
interface Part {
  at: string;
  schema: Schema;
  isList: boolean;
  place: (value: unknown) => Record<string, unknown>;
}

/** Endpoints share parts of their bodies; what is inside of one field is sent once. */
const sent = new Set<Schema>();

function* partsOf(schema: Schema, at: string, place: Part["place"], isInside = false): Generator<Part> {
  if (isInside && sent.has(schema)) return;
  sent.add(schema);
  const types = [schema.type ?? []].flat();
  if (types.includes("array")) {
    yield { at, schema, place, isList: true };
    if (schema.items) yield* partsOf(schema.items, `${at}[]`, (value) => place([value]), true);
  }
  if (types.includes("object")) {
    yield { at, schema, place, isList: false };
    const example = exampleOf(schema, false) as object;
    for (const [name, one] of Object.entries(schema.properties ?? {}))
      yield* partsOf(one, `${at}.${name}`, (value) => place({ ...example, [name]: value }), true);
  }
  for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) yield* partsOf(one, at, place, isInside);
}

/** Of a megabyte, with room for the rest of the body. */
const room = (1 << 20) - 20_000;
function listOf(item: (index: number) => string, room: number): string {
  const items: string[] = [];
  for (let length = 0; length < room; length += items.at(-1)!.length + 1) items.push(item(items.length));
  return `[${items.slice(0, -1).join()}]`;
}
const lists: Record<string, string> = {
  objects: listOf(() => "{}", room),
  strings: listOf((index) => `"${index}"`, room),
  numbers: listOf((index) => String(index % 10), room),
  lists: listOf(() => "[]", room),
  "lists of lists": listOf(() => `${"[".repeat(20)}${"]".repeat(20)}`, room),
};
const unknownKeys = Array.from({ length: 99_000 }, (_, index) => `"${index.toString(36)}":0`).join();

/** As many sound items as there may be. */
function allowed({ items, maxItems = room }: Schema): string {
  const item = JSON.stringify(exampleOf(items ?? {}, false) ?? {});
  return `[${Array(Math.min(maxItems, Math.floor(room / (item.length + 1))))
    .fill(item)
    .join()}]`;
}

function sizesOf({ schema, isList }: Part): Record<string, string> {
  if (isList) return { ...lists, "as many as are allowed": allowed(schema) };
  const example = JSON.stringify(exampleOf(schema, false)).slice(1, -1);
  return { "99,000 unknown keys": `{${example}${example === "" ? "" : ","}${unknownKeys}}` };
}

const mark = "the place";
const endpoints = Object.entries<Endpoint>(contract).filter(([, { body, open }]) => body && !open);

for (const [name, endpoint] of endpoints)
  describe(name, () => {
    const schema = endpoint.body as Schema;
    const fields = Object.entries(schema.properties ?? {});
    const parts = fields.flatMap(([field, one]) => [...partsOf(one, field, (value) => ({ [field]: value }))]);
    const textWith = (part: Part, raw: string): string =>
      JSON.stringify({ ...bodyOf(it, endpoint, ids), ...part.place(mark) }).replace(`"${mark}"`, () => raw);

    test("the body", async () => {
      const own = JSON.stringify(bodyOf(it, endpoint, ids)).slice(1, -1);
      await send(endpoint, `{${own}${own === "" ? "" : ","}${unknownKeys}}`, `${name}: 99,000 unknown keys`);
    });
    for (const part of parts)
      test(`${part.at}, ${part.isList ? "a list" : "an object"}`, async () => {
        for (const [size, raw] of Object.entries(sizesOf(part)))
          await send(endpoint, textWith(part, raw), `${name} ${part.at}: ${size}`);
      });
  });

describe("a JSON schema for the answer", () => {
  const schemasOf = (size: number): Record<string, string> => ({
    enum: `{"enum":${listOf((index) => `"${index}"`, size)}}`,
    required: `{"type":"object","required":${listOf((index) => `"${index}"`, size)}}`,
    anyOf: `{"anyOf":${listOf((index) => `{"const":${index}}`, size)}}`,
    allOf: `{"allOf":${listOf((index) => `{"minLength":${index % 10}}`, size)}}`,
    properties: `{"type":"object","properties":{${listOf((index) => `"k${index}":{}`, size).slice(1, -1)}}}`,
    pattern: `{"type":"string","pattern":"${"a?".repeat(size / 2)}"}`,
    prefixItems: `{"type":"array","prefixItems":${listOf(() => "{}", size)}}`,
  });
  for (const [title, size] of [
    ["as long as is read", 260_000],
    ["of a megabyte", room],
  ] as const)
    for (const [what, schema] of Object.entries(schemasOf(size)))
      test(`${title}: ${what}`, async () => {
        const format = `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${schema}}}`;
        const tools = `"tools":[{"type":"function","function":{"name":"a","parameters":${schema}}}],"tool_choice":"required"`;
        const head = JSON.stringify({ model: it.baseId, messages: [{ role: "user", content: "a" }] }).slice(0, -1);
        for (const [how, field] of Object.entries({ format, tools }))
          await send(contract["inference.chat"], `${head},${field}}`, `a schema as ${how} ${title}: ${what}`);
      });

  // Made here, where nobody waits for it.
  const prefixItems = `{"type":"array","prefixItems":${listOf(() => "{}", 5 * room)}}`;
  test("is refused where it is longer, whatever it says", async () => {
    const body = `{"model":"${it.baseId}","messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"schema":${prefixItems}}}}`;
    assert.equal(await send(contract["inference.chat"], body, "a schema of five megabytes"), 422);
  });
});

test("a conversation that is cut to a little less than it has", async () => {
  const messages = Array.from({ length: 2000 }, () => ({ role: "user", content: "word ".repeat(25) }));
  const body = JSON.stringify({ model: it.baseId, messages, prompt_truncate_len: 260_000 });
  await send(contract["inference.chat"], body, "a conversation that is cut");
});

const tokens = `[${Array(1_700_000).fill("12345").join()}]`;
test("ten megabytes of token ids, more than any context has", async () => {
  for (const [name, field] of [
    ["inference.completions", "prompt"],
    ["inference.embeddings", "input"],
    ["inference.detokenize", "tokens"],
  ] as const) {
    const body = `{"model":"${it.baseId}","${field}":${tokens}}`;
    assert.equal(await send(contract[name], body, `${name}: ten megabytes of token ids`), 422);
  }
});

const objects = `[${Array(3_400_000).fill("{}").join()}]`;
test("ten megabytes of objects, twice: refused, and nothing of them stays", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const heldMb = (): number => {
    collect();
    return process.memoryUsage().heapUsed / 2 ** 20;
  };
  const before = heldMb();
  for (const [name, field] of [
    ["inference.completions", "prompt"],
    ["inference.embeddings", "input"],
  ] as const) {
    const body = `{"model":"${it.baseId}","${field}":${objects}}`;
    assert.equal(await send(contract[name], body, `${name}: ten megabytes of objects`), 422);
  }
  const kept = heldMb() - before;
  assert.ok(kept < 100, `${kept} MB are kept`);
});

test("nobody waited for long", async (t) => {
  await new Promise((resolve) => setTimeout(resolve, 300));
  await Promise.all(asked);
  t.diagnostic(`worst: ${worst.ms.toFixed(0)} ms of the processor, ${worst.what}`);
  t.diagnostic(`by the clock: ${worstWall.ms.toFixed(0)} ms, ${worstWall.what}`);
  assert.ok(worst.ms < mostMs, `others waited ${worst.ms} ms during ${worst.what}`);
});
