// Cases 24–34: bodies.
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { scopes } from "../../../src/contract/endpoint.ts";
import { keepsItsBounds, numeric, refusesWrongTypes, typed } from "../../helpers/fields.ts";
import { type Answer, type Case, expects, type Target } from "./target.ts";

const agents = "/api/v3/agents";
const prompts = "/api/v3/inference/completions";

/** An agent's body with this text in the place of its description. */
const described = (it: Target, text: string): string =>
  `{"name":"it","base_model":"${it.baseId}","description":${text}}`;

const bytes = (...parts: (string | number[])[]): Uint8Array =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from(part))));

/** Fields whose numbers are all sound would have this appliance do what they ask for, a whole run of it each time. */
const isWork = (path: string): boolean => /benchmarks\/create$/.test(path);

async function live(it: Target): Promise<void> {
  const benchmarks = it.store
    .prepare<[], { id: string }>(
      "SELECT subject_id AS id FROM job WHERE kind = 'generate' AND state IN('queued', 'running')",
    )
    .all();
  for (const { id } of benchmarks) await it.call("benchmarks.stop", { params: { benchmark_id: id } });
}

async function asked(it: Target, check: typeof keepsItsBounds, given: typeof numeric): Promise<string> {
  const asker = {
    it,
    ids: await it.idsOf("ada"),
    key: (await it.makeKey({ user: "ada", scopes: [...scopes] })).key,
  };
  let sent = 0;
  for (const one of given) {
    sent += await check(asker, one);
    if (isWork(one.endpoint.path)) await live(it);
  }
  return `${sent} values of ${given.length} fields`;
}

export const bodies: Case[] = [
  {
    id: 24,
    situation: 'empty, null, [], "x", NaN, a trailing comma, two documents',
    expected: "422",
    run: (it) =>
      expects(
        ["", "null", "[]", '"x"', "NaN", '{"name":"a",}', "{}{}"].map(
          (body) => [body, () => it.ask(agents, { method: "POST", body, headers: json }), 422] as const,
        ),
      ),
  },
  {
    id: 25,
    situation: "invalid, overlong and CESU UTF-8; UTF-16; a byte order mark",
    expected: "422",
    run(it) {
      const [open, close] = [`{"name":"it","base_model":"${it.baseId}","description":"`, '"}'];
      const whole = `${open}a${close}`;
      return expects(
        (
          [
            ["invalid", bytes(open, [0xff], close)],
            ["overlong", bytes(open, [0xc0, 0xaf], close)],
            ["CESU", bytes(open, [0xed, 0xa0, 0x80, 0xed, 0xb0, 0x80], close)],
            ["UTF-16", Buffer.from(whole, "utf16le")],
            ["BOM", bytes([0xef, 0xbb, 0xbf], whole)],
          ] as const
        ).map(([what, body]) => [what, () => it.ask(agents, { body }), 422] as const),
      );
    },
  },
  {
    id: 26,
    situation: "half a surrogate pair or NUL in a description, a name, a message",
    expected: "422",
    run(it) {
      const name = (text: string) => it.ask(agents, { body: `{"name":"${text}","base_model":"${it.baseId}"}` });
      const message = (text: string) =>
        it.ask("/api/v3/inference/chat/completions", {
          body: `{"model":"${it.baseId}","messages":[{"role":"user","content":"${text}"}],"max_tokens":1}`,
        });
      return expects(
        ["\\ud800", "\\u0000"].flatMap((text) => [
          ["description", () => it.ask(agents, { body: described(it, `"${text}"`) }), 422] as const,
          ["name", () => name(text), 422] as const,
          ["message", () => message(text), 422] as const,
        ]),
      );
    },
  },
  {
    id: 27,
    situation: "100,000 deep; a million keys; 10 MB of [",
    expected: "422 or 413, soon",
    async run(it) {
      const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
      const keys = `{${Array.from({ length: 1_000_000 }, (_, n) => `"${n.toString(36)}":0`).join()}}`;
      const open = "[".repeat(10_000_000);
      const answers: Answer[] = [];
      const kept = (send: () => Promise<Answer>) => async () => {
        answers.push(await send());
        return answers.at(-1)!;
      };
      const came = await expects([
        ["deep", kept(() => it.ask(agents, { body: described(it, deep) })), 422],
        ["keys", kept(() => it.ask(agents, { body: keys })), 413],
        ["open", kept(() => it.ask(agents, { body: open })), 413],
        ["keys of inference", kept(() => it.ask(prompts, { body: keys })), 422, 413],
        ["10 MB of inference", kept(() => it.ask(prompts, { body: open.slice(1 << 16) })), 422],
      ]);
      return `${came}; the slowest ${Math.round(Math.max(...answers.map(({ ms }) => ms)))} ms`;
    },
  },
  {
    id: 28,
    situation: "__proto__ and constructor at the top; in a deep block",
    expected: "422; kept as they were sent",
    async run(it) {
      const top = (name: string) => () =>
        it.ask(agents, { body: `{"name":"a","base_model":"${it.baseId}","${name}":{"admin":true}}` });
      const came = await expects([
        ["__proto__", top("__proto__"), 422],
        ["constructor", top("constructor"), 422],
      ]);
      const { alignmentId } = await it.align();
      const config = '{"sampling":{"__proto__":{"admin":true},"constructor":1}}';
      const path = `/api/v3/alignment-projects/${alignmentId}/auto-align`;
      const taken = await it.ask(path, { body: `{"target_score":50,"config":${config}}` });
      assert.equal(taken.status, 202, taken.text);
      const record = await it.ask(`${path}/${taken.body.auto_align_id}`);
      assert.ok(record.text.includes(config));
      return `${came}; 202 and verbatim`;
    },
  },
  {
    id: 29,
    situation: "each field of each body of each wrong type, numbers as text",
    expected: "422 that names it",
    run: (it) => asked(it, refusesWrongTypes, typed),
  },
  {
    id: 30,
    situation: "each number of each body and query at and over its bounds, −2^63, 2^53+1, 1e400, −0",
    expected: "in range taken, else 422 that names it",
    run: (it) => asked(it, keepsItsBounds, numeric),
  },
  {
    id: 31,
    situation: "over the limit by length, by chunks; shorter than its length says",
    expected: "413; 413; 400",
    run(it) {
      const big = described(it, `"${"x".repeat(2 << 20)}"`);
      const lines = ["Host: localhost", `Authorization: Bearer ${it.key}`, "Content-Type: application/json"];
      const chunked = [
        "POST /api/v3/agents HTTP/1.1",
        ...[...lines, "Transfer-Encoding: chunked", "", big.length.toString(16), big, "0", "", ""],
      ].join("\r\n");
      const short = ["POST /api/v3/agents HTTP/1.1", ...lines, "Content-Length: 4", "", "{}{}{}{}"].join("\r\n");
      return expects([
        ["length", () => it.ask(agents, { body: big }), 413],
        ["chunks", () => it.raw(chunked, { ms: 10_000 }), 413],
        ["lying", () => it.raw(short, { ms: 10_000 }), 400, 422],
      ]);
    },
  },
  {
    id: 32,
    situation: "a bomb of 100 MB as gzip",
    expected: "415",
    run(it) {
      const body = gzipSync(Buffer.alloc(100 << 20, 32));
      return expects([["it", () => it.ask(agents, { body, headers: { "content-encoding": "gzip" } }), 415]]);
    },
  },
  {
    id: 33,
    situation: "JSON as text/plain",
    expected: "415",
    run: (it) =>
      expects([["it", () => it.ask(agents, { body: "{}", headers: { "content-type": "text/plain" } }), 415]]),
  },
  {
    id: 34,
    situation: "a key twice",
    expected: "422",
    run: (it) => expects([["it", () => it.ask(agents, { body: '{"name":"a","name":"b"}' }), 422]]),
  },
];

const json = { "content-type": "application/json" };
