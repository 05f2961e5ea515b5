// Cases 75–87: model files, and the hub that they come from.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installation, places } from "../../../src/base/config.ts";
import { Failure } from "../../../src/base/errors.ts";
import { sha256 } from "../../../src/base/files.ts";
import { gguf, pair, u32, u64 } from "../../engine/gguf-file.ts";
import { tinyModel } from "../../engine/trainer-fixture.ts";
import type { HubRepository } from "../../helpers/hub.ts";
import { withChatTemplate, withLength, withNumber } from "../../helpers/mutants.ts";
import { aside, type Case, counted, expects, type Target } from "./target.ts";

let files = 0;

/** The code of the refusal, or the model's id. */
async function imported(
  it: Target,
  content: Uint8Array | string,
  name = `${++files}.gguf`,
): Promise<{ code: string } | { id: string }> {
  const path = join(it.folder, name);
  writeFileSync(path, content);
  return importPath(it, path);
}

async function importPath(it: Target, path: string): Promise<{ code: string } | { id: string }> {
  try {
    return { id: (await it.admin("model.import", { path })).model_id as string };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { code: error.code };
  }
}

/** All of them, and the appliance lives. */
async function refused(
  it: Target,
  contents: readonly (readonly [what: string, content: Uint8Array | string, name?: string])[],
  ...codes: string[]
): Promise<string> {
  const came: string[] = [];
  for (const [what, content, name] of contents) {
    const answer = await imported(it, content, name);
    assert.ok("code" in answer && codes.includes(answer.code), `${what}: ${JSON.stringify(answer)}`);
    came.push(answer.code);
    await it.mustLive();
  }
  return counted(came);
}

const tiny = readFileSync(tinyModel("tiny-f32"));

const templated = (template: string): Buffer => withChatTemplate(tiny, template);

const architecture = pair("general.architecture", "llama");
const tensor = { name: "a", shape: [4], offset: 0 };

function unsound(): (readonly [string, Buffer])[] {
  return [
    [
      "64 bytes with a key of 2^31",
      Buffer.concat([Buffer.from("GGUF"), u32(3), u64(0), u64(1), u64(2 ** 31), Buffer.alloc(32)]),
    ],
    ["a key of 2^30", Buffer.concat([Buffer.from("GGUF"), u32(3), u64(0), u64(1), u64(2 ** 30), Buffer.alloc(64)])],
    ...[2n ** 40n, 2n ** 63n, 2n ** 64n - 1n].flatMap((count) => [
      [`${count} pairs`, gguf({ pairs: [architecture], pairCount: count })] as const,
      [`${count} tensors`, gguf({ pairs: [architecture], tensorCount: count })] as const,
    ]),
    ["no tokenizer", gguf({ pairs: [architecture], tensors: [tensor], dataBytes: 64 })],
    [
      "dimensions whose product is none",
      gguf({ pairs: [architecture], tensors: [{ ...tensor, shape: [2n ** 33n, 2n ** 33n] }], dataBytes: 64 }),
    ],
    [
      "an offset past the end",
      gguf({ pairs: [architecture], tensors: [{ ...tensor, offset: 2n ** 40n }], dataBytes: 64 }),
    ],
    [
      "tensors that overlap",
      gguf({ pairs: [architecture], tensors: [tensor, { ...tensor, name: "b" }], dataBytes: 64 }),
    ],
    ...[0, 3, 2 ** 31].map(
      (alignment) =>
        [
          `alignment ${alignment}`,
          gguf({ pairs: [architecture, pair("general.alignment", alignment)], tensors: [tensor], dataBytes: 64 }),
        ] as const,
    ),
    ["big endian", Buffer.concat([Buffer.from("GGUF"), Buffer.from([0, 0, 0, 3]), Buffer.alloc(100)])],
    ["version 1", gguf({ version: 1, pairs: [architecture] })],
    ["another magic", gguf({ magic: "GGJT", pairs: [architecture] })],
    ...Array.from(
      { length: Math.floor(tiny.length / 4096) },
      (_, n) => [`cut at ${n * 4096}`, tiny.subarray(0, n * 4096)] as const,
    ),
    ["no layers", withNumber(tiny, "llama.block_count", 0)],
  ];
}

const encoder = join(installation, "test/fixtures/tiny-cross-encoder");

/** The folder of an encoder whose weights' header is another. */
function folderWith(
  it: Target,
  change: (header: Record<string, Entry>, data: Buffer) => { head: string; data?: Buffer; length?: bigint },
): string {
  const folder = join(it.folder, `encoder-${++files}`);
  cpSync(encoder, folder, { recursive: true });
  const bytes = readFileSync(join(encoder, "model.safetensors"));
  const dataAt = 8 + Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.subarray(8, dataAt).toString()) as Record<string, Entry>;
  const { head, data = bytes.subarray(dataAt), length } = change(header, bytes.subarray(dataAt));
  writeFileSync(
    join(folder, "model.safetensors"),
    Buffer.concat([u64(length ?? Buffer.byteLength(head)), Buffer.from(head), data]),
  );
  return folder;
}

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

async function alignOn(it: Target, base: string): Promise<{ status: number; body: { error?: { code: string } } }> {
  const document_ids = [await it.document()];
  return it.ask("/api/v3/alignment-projects/create", {
    json: { alignment_name: "it", base_model_id: base, document_ids },
  });
}

const nothing = Buffer.from("no model at all");
const offered = (it: Target, name: string, changes: Partial<HubRepository> = {}): string => {
  it.hub.repositories.set(`org/${name}`, {
    files: [{ path: "a.gguf", size: nothing.length, oid: sha256(nothing) }],
    send: (_, response) => void response.end(nothing),
    ...changes,
  });
  return `hf://org/${name}`;
};
const redirect = (location: string): Pick<HubRepository, "send"> => ({
  send: (_, response) => void response.writeHead(302, { location }).end(),
});

const half = (it: Target): string[] =>
  readdirSync(places(it.data).models).filter((name) => !/^[0-9a-f]{64}\.gguf$/.test(name));

export const models: Case[] = [
  {
    id: 75,
    situation:
      "GGUF: keys of 2^30 and more, counts to 2^64−1, no tokenizer, overflowing, overlapping, past the end, alignment 0, 3, 2^31, cut at each 4 KB, big endian",
    expected: "model_invalid before any native load; the appliance lives",
    run: (it) => refused(it, unsound(), "model_invalid", "model_file_type"),
  },
  {
    id: 76,
    situation:
      "safetensors: header longer than the file, 200 MB, offsets reversed and negative, overlapping, a shape whose product overflows, an unknown type, a tail",
    expected: "422",
    async run(it) {
      const first = (header: Record<string, Entry>): Entry =>
        Object.entries(header).find(([name]) => name !== "__metadata__")![1];
      const changed = (change: (entry: Entry) => void) => (header: Record<string, Entry>) => {
        change(first(header));
        return { head: JSON.stringify(header) };
      };
      const folders: [string, string][] = [
        ["longer", folderWith(it, (header) => ({ head: JSON.stringify(header), length: 2n ** 40n }))],
        ["2^63", folderWith(it, (header) => ({ head: JSON.stringify(header), length: 2n ** 63n }))],
        [
          "reversed",
          folderWith(
            it,
            changed((entry) => entry.data_offsets.reverse()),
          ),
        ],
        [
          "negative",
          folderWith(
            it,
            changed((entry) => (entry.data_offsets = [-4, 0])),
          ),
        ],
        [
          "past the end",
          folderWith(
            it,
            changed((entry) => (entry.data_offsets[1] += 2 ** 40)),
          ),
        ],
        [
          "overflow",
          folderWith(
            it,
            changed((entry) => (entry.shape = [4194305, 4194305, 211106198978564])),
          ),
        ],
        [
          "type",
          folderWith(
            it,
            changed((entry) => (entry.dtype = "F7")),
          ),
        ],
        ["no JSON", folderWith(it, () => ({ head: "{" }))],
        [
          "cut",
          folderWith(it, (header, data) => ({ head: JSON.stringify(header), data: data.subarray(0, data.length / 2) })),
        ],
      ];
      const came: string[] = [];
      for (const [what, folder] of folders) {
        const answer = await importPath(it, folder);
        assert.ok("code" in answer && /^model_/.test(answer.code), `${what}: ${JSON.stringify(answer)}`);
        came.push(answer.code);
        await it.mustLive();
      }
      return counted(came);
    },
  },
  {
    id: 77,
    situation: "pickles (.bin, .pt, .ckpt), Python, a folder with auto_map",
    expected: "refused; no code is kept",
    async run(it) {
      const pickle = Buffer.concat([Buffer.from([0x80, 2]), Buffer.from("cos\nsystem\n(S'id'\ntR.")]);
      const came = await refused(
        it,
        [
          ["bin", pickle, "a.bin"],
          ["pt", pickle, "a.pt"],
          ["ckpt", pickle, "a.ckpt"],
          ["py", "import os", "a.py"],
        ],
        "model_file_type",
        "model_invalid",
      );
      const folder = join(it.folder, "mapped");
      mkdirSync(folder, { recursive: true });
      writeFileSync(
        join(folder, "config.json"),
        JSON.stringify({ auto_map: { AutoModel: "modeling.X" }, model_type: "x" }),
      );
      writeFileSync(join(folder, "modeling.py"), "import os");
      const mapped = await importPath(it, folder);
      assert.ok("code" in mapped, JSON.stringify(mapped));
      assert.deepEqual(half(it), []);
      return `${came}; ${mapped.code}`;
    },
  },
  {
    id: 78,
    situation: "chat templates: constructor, ranges of 9 million, of 10^7 and of 10^9, 20,000 parentheses, doubling",
    expected: "refused, or 422 when it is asked; others are served meanwhile",
    async run(it) {
      const doubling = `{% set a = "x" %}${"{% set a = a ~ a %}".repeat(40)}{{ a }}`;
      const templates = [
        "{{ [].constructor.constructor('return process')().exit() }}",
        "{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}{% endfor %}x",
        "{% for a in range(10000000) %}{% endfor %}x",
        "{% set a = range(1000000000) %}x",
        `{{ ${"(".repeat(20_000)}1${")".repeat(20_000)} }}`,
        doubling,
      ];
      const came: string[] = [];
      for (const template of templates) {
        const answer = await imported(it, templated(template));
        if ("code" in answer) came.push(answer.code);
        else {
          const { status, ms } = await it.chat({ model: answer.id });
          assert.ok(status === 422 || status === 200 || status === 503, `${template.slice(0, 60)}: ${status}`);
          assert.ok(ms < 30_000, `${template.slice(0, 60)}: ${ms} ms`);
          came.push(String(status));
        }
        await it.mustLive();
      }
      return counted(came);
    },
  },
  {
    id: 79,
    situation: "tokenizers: 10^8 tokens, none; a first token past the end",
    expected: "model_invalid; refused, or the library's own is taken and it answers",
    async run(it) {
      const wrong = [1e8, 0].map((length) => [`${length}`, withLength(tiny, "tokenizer.ggml.tokens", length)] as const);
      const came = await refused(it, wrong, "model_invalid");
      const bos = await imported(it, withNumber(tiny, "tokenizer.ggml.bos_token_id", 2 ** 31));
      if ("code" in bos) return `${came}; ${bos.code}`;
      return `${came}; ${await expects([["asked", () => it.complete({ model: bos.id, prompt: "a" }), 200]])}`;
    },
  },
  {
    id: 80,
    situation: "a control vector with direction.536870912",
    expected: "refused",
    run: (it) =>
      refused(
        it,
        [
          [
            "vector",
            gguf({
              pairs: [pair("general.architecture", "controlvector")],
              tensors: [{ ...tensor, name: "direction.536870912" }],
              dataBytes: 64,
            }),
          ],
        ],
        "model_invalid",
        "model_file_type",
      ),
  },
  {
    id: 81,
    situation: "hub names: ../.., a/b/../../c, user@evil, a%2f, look-alikes, a line's end, an address",
    expected: "422, nothing is asked",
    async run(it) {
      const asked = it.hub.asked.length;
      const names = [
        "",
        "org",
        "../..",
        "org/name/../../c",
        "user@evil/name",
        "org/a%2fb",
        "org//name",
        "org/name\n",
        "org/nаme",
        "org/name?x=1",
        "127.0.0.1:80/x/y",
      ];
      const came = await expects(names.map((name) => [name, () => alignOn(it, `hf://${name}`), 422] as const));
      assert.equal(it.hub.asked.length, asked);
      return came;
    },
  },
  {
    id: 82,
    situation:
      "the hub redirects to 127.0.0.1 by another port, 169.254.169.254, [::ffff:127.0.0.1], a decimal address, file:, in circles",
    expected: "400",
    run: (it) =>
      expects(
        [
          "http://127.0.0.1:1/x",
          "http://169.254.169.254/x",
          "http://[::ffff:127.0.0.1]/x",
          "http://2130706433/x",
          "file:///etc/passwd",
          "/org/r5/resolve/x",
        ].map((to, n) => [to, () => alignOn(it, offered(it, `r${n}`, redirect(to))), 400] as const),
      ),
  },
  {
    id: 83,
    situation: "what the hub is told of us",
    expected: "no key, no cookie",
    async run(it) {
      for (const { headers } of it.hub.asked)
        assert.ok(!headers.authorization && !headers.cookie && !headers["x-api-key"]);
      return `nothing in ${it.hub.asked.length} requests`;
    },
  },
  {
    id: 84,
    situation: "another SHA-256, too short, too long, .. in the list, 100,000 files, 10 TB said",
    expected: "400 or 502, no part of it is left",
    async run(it) {
      const file = { path: "a.gguf", size: nothing.length, oid: sha256(nothing) };
      const came = await expects(
        (
          [
            ["hash", [{ ...file, oid: sha256("b") }]],
            ["short", [{ ...file, size: 99 }]],
            ["long", [{ ...file, size: 5 }]],
            ["out", [{ ...file, path: "../../a.gguf" }]],
            ["many", Array.from({ length: 100_000 }, (_, n) => ({ ...file, path: `${n}.gguf` }))],
            ["10 TB", [{ ...file, size: 10 ** 13 }]],
          ] as const
        ).map(
          ([what, list]) =>
            [what, () => alignOn(it, offered(it, what.replace(" ", ""), { files: [...list] })), 400, 502, 507] as const,
        ),
      );
      assert.deepEqual(half(it), []);
      return `${came}; nothing left`;
    },
  },
  {
    id: 85,
    situation: "the same name has another file now",
    expected: "the one that is here stays what the name means",
    async run(it) {
      const offer = (content: Buffer) =>
        offered(it, "same", {
          files: [{ path: "same.gguf", size: content.length, oid: sha256(content) }],
          send: (_, response) => void response.end(content),
        });
      const source = offer(readFileSync(tinyModel("tiny-qwen3-q4_1")));
      const take = () => it.ask("/api/v3/models/import", { json: { source }, key: it.adminKey });
      const first = await take();
      assert.equal(first.status, 200, first.text);
      offer(readFileSync(tinyModel("tiny-gemma3-f32-untied")));
      const again = await take();
      assert.ok(again.status === 200 ? again.body.model_id === first.body.model_id : again.status < 500, again.text);
      assert.equal((await it.complete({ model: first.body.model_id, prompt: "a" })).status, 200);
      return `200 and ${again.status}; the first answers`;
    },
  },
  {
    id: 86,
    situation: "no mirror is configured: an import, an alignment over a hub's name",
    expected: "400 at once, nothing is asked",
    async run(it) {
      const asked = it.hub.asked.length;
      return aside(it, { PLUMBLINE_HUB_MIRROR: "" }, async (alone) => {
        const came = await expects([
          [
            "import",
            () => alone.ask("/api/v3/models/import", { json: { source: "hf://org/name" }, key: alone.adminKey }),
            400,
          ],
          ["alignment", () => alignOn(alone, "hf://org/name"), 400],
        ]);
        assert.equal(it.hub.asked.length, asked);
        return came;
      });
    },
  },
  {
    id: 87,
    situation: "killed while a model is fetched, at five places",
    expected: "after the start nothing is left, and it can be fetched",
    run: (it) =>
      aside(it, {}, async (other) => {
        const content = readFileSync(tinyModel("tiny-f32"));
        let most = content.length;
        const source = offered(other, "cut", {
          files: [{ path: "cut.gguf", size: content.length, oid: sha256(content) }],
          send: (_, response) =>
            most < content.length ? void response.write(content.subarray(0, most)) : void response.end(content),
        });
        const take = () => other.ask("/api/v3/models/import", { json: { source }, key: other.adminKey });
        for (let n = 0; n < 5; n++) {
          most = Math.floor((content.length * n) / 5) + 1;
          const asked = other.hub.asked.length;
          const taking = take().catch(() => null);
          await other.until("the fetching", () =>
            other.hub.asked.slice(asked).some(({ path }) => path.includes("resolve")),
          );
          await other.restart("SIGKILL");
          await taking;
          await other.until("an empty folder", () => half(other).length === 0, 20_000);
        }
        most = content.length;
        const { status, text } = await take();
        assert.equal(status, 200, text);
        return "five times nothing left, then 200";
      }),
  },
];
