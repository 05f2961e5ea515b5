// Base models by their name on a hub, against a local server that answers as the hub does.
import assert from "node:assert/strict";
import { createReadStream, readdirSync } from "node:fs";
import { stat } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { readConfig } from "../../src/base/config.ts";
import { sha256, sha256OfFile } from "../../src/base/files.ts";
import { openStore } from "../../src/store/open.ts";
import { type TestHouse, type TestReply, testHouse } from "../helpers/house.ts";
import { type Hub, type HubRepository, localHub } from "../helpers/hub.ts";
import { insertBase } from "../helpers/rows.ts";
import { withoutModel } from "../helpers/served.ts";

const starter = readConfig({}).starterModel;

let hub: Hub;
let it: TestHouse;
before(async () => {
  hub = await localHub();
  it = await testHouse({ PLUMBLINE_HUB_MIRROR: `${hub.url}/` });
});
after(async () => {
  await it.close();
  await hub.close();
});

async function create(base: string, house = it): Promise<TestReply> {
  const upload = await house.call("documents.upload", { files: [{ name: "a.txt", content: "The door is teal." }] });
  const document_ids = [upload.body.documents[0].document_id];
  return house.call("alignments.create", { body: { alignment_name: "it", base_model_id: base, document_ids } });
}

const content = Buffer.from("no model at all");
const offer = (repository: string, changes: Partial<HubRepository> = {}): string => {
  hub.repositories.set(`org/${repository}`, {
    files: [{ path: "a.gguf", size: content.length, oid: sha256(content) }],
    send: (_, response) => void response.end(content),
    ...changes,
  });
  return `hf://org/${repository}`;
};

test("without a mirror nothing is asked, and the answer says so", async () => {
  const own = await testHouse();
  try {
    const { status, body } = await create("hf://org/name", own);
    assert.equal(status, 400);
    assert.match(body.detail, /no mirror of the model hub is configured/);
    assert.match(body.error.hint, /PLUMBLINE_HUB_MIRROR/);
    const store = openStore(join(own.data, "plumbline.db"));
    insertBase(store, "here", "hf://org/name/here.gguf");
    assert.equal((await create("hf://org/name", own)).status, 200);
    assert.equal((await create("hf://org/name/here.gguf", own)).status, 200);
    assert.equal((await create("hf://org/name/other.gguf", own)).status, 400);
    assert.equal((await create("hf://org/nam", own)).status, 400);
    insertBase(store, "too", "hf://org/name/too.gguf");
    assert.match((await create("hf://org/name", own)).body.detail, /Several files/);
    store.close();
  } finally {
    await own.close();
  }
});

describe("names that lead elsewhere are refused before anything is asked", () => {
  for (const name of [
    "hf://",
    "hf://org",
    "hf://../..",
    "hf://org/name/../../c",
    "hf://user@evil/name",
    "hf://org/a%2fb",
    "hf://org//name",
    "hf://org/name\n",
    "hf://org/nаme",
    "hf://org/name?x=1",
    "hf://127.0.0.1:80/x/y",
  ])
    test(JSON.stringify(name), async () => {
      const before_ = hub.asked.length;
      const { status, body } = await create(name);
      assert.equal(status, 422);
      assert.deepEqual(body.detail[0].loc, ["body", "base_model_id"]);
      assert.equal(hub.asked.length, before_);
    });
});

describe("refused with 400 and the reason, leaving nothing behind", () => {
  const redirect = (location: string) => (_: string, response: ServerResponse) =>
    void response.writeHead(302, { location }).end();
  const cases: [string, () => string, RegExp][] = [
    ["unknown", () => "hf://org/nothing", /answered 404/],
    ["no GGUF", () => offer("none", { files: [{ path: "README.md", size: 1, oid: sha256("a") }] }), /no GGUF file/],
    ["no such file", () => `${offer("other")}/b.gguf`, /no file b\.gguf/],
    [
      "several",
      () => offer("two", { files: ["a.gguf", "b.gguf"].map((path) => ({ path, size: 1, oid: sha256("a") })) }),
      /several GGUF files; name one: a\.gguf, b\.gguf/,
    ],
    ["no hash", () => offer("bare", { files: [{ path: "a.gguf", size: 15 }] }), /does not give the SHA-256/],
    [
      "a path that leads out",
      () => offer("out", { files: [{ path: "../../a.gguf", size: 15, oid: sha256(content) }] }),
      /no GGUF file/,
    ],
    [
      "another hash",
      () => offer("hash", { files: [{ path: "a.gguf", size: 15, oid: sha256("b") }] }),
      /different SHA-256/,
    ],
    ["short", () => offer("short", { files: [{ path: "a.gguf", size: 99, oid: sha256(content) }] }), /15 of 99 bytes/],
    [
      "long",
      () => offer("long", { files: [{ path: "a.gguf", size: 5, oid: sha256(content) }] }),
      /sent more bytes than/,
    ],
    ["a redirect to another host", () => offer("away", { send: redirect("http://169.254.169.254/x") }), /another host/],
    [
      "another name of it",
      () => offer("name", { send: redirect(`http://localhost:${new URL(hub.url).port}/x`) }),
      /another host/,
    ],
    ["another scheme", () => offer("scheme", { send: redirect("file:///etc/passwd") }), /another host/],
    ["in circles", () => offer("circle", { send: redirect("/org/circle/resolve/x") }), /too many times/],
  ];
  for (const [what, name, words] of cases)
    test(what, async () => {
      const { status, body } = await create(name());
      assert.equal(status, 400, JSON.stringify(body));
      assert.match(body.detail, words);
      assert.deepEqual(readdirSync(join(it.data, "models")), []);
      assert.deepEqual((await it.call("models.base")).body.base_models, []);
    });

  test("a mirror that breaks off, or does not answer, is another failure: it may be over soon", async () => {
    const cut = offer("cut", { send: (_, response) => void response.write("a", () => response.destroy()) });
    const gone = await testHouse({ PLUMBLINE_HUB_MIRROR: "http://127.0.0.1:1" });
    try {
      for (const [reply, words] of [
        [await create(cut), /was lost/],
        [await create("hf://org/name", gone), /does not answer/],
      ] as const) {
        assert.deepEqual(
          [reply.status, reply.body.error.code],
          [502, "mirror_unreachable"],
          JSON.stringify(reply.body),
        );
        assert.match(reply.body.detail, words);
        assert.match(reply.body.error.hint, /Check PLUMBLINE_HUB_MIRROR/);
        assert.ok(reply.headers.get("retry-after"));
      }
    } finally {
      await gone.close();
    }
    assert.deepEqual(readdirSync(join(it.data, "models")), []);
  });

  test("what is no model is a 422 of the import", async () => {
    const { status, body } = await create(offer("junk"));
    assert.equal(status, 422);
    assert.equal(body.error.code, "model_file_type");
    assert.deepEqual(readdirSync(join(it.data, "models")), []);
  });

  test("and no key of ours was sent along", () => {
    assert.ok(hub.asked.length > 0);
    for (const { headers } of hub.asked) assert.ok(!headers.authorization && !headers.cookie && !headers["x-api-key"]);
  });
});

test("a model is fetched once for all who ask, within the mirror's own redirects, and known from then on", {
  skip: withoutModel,
  timeout: 120_000,
}, async () => {
  const [{ size }, oid] = [await stat(starter), await sha256OfFile(starter)];
  let sent = 0;
  hub.repositories.set("org/small", {
    files: [
      { path: "README.md", size: 3 },
      { path: "q4/small.gguf", size, oid },
    ],
    send(path, response) {
      if (path === "q4/small.gguf") response.writeHead(302, { location: "/org/small/blob" }).end();
      else {
        sent++;
        createReadStream(starter).pipe(response);
      }
    },
  });
  const replies = await Promise.all([create("hf://org/small"), create("hf://org/small")]);
  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200],
  );
  assert.equal(sent, 1);
  const { base_models: bases } = (await it.call("models.base")).body;
  assert.equal(bases.length, 1);
  assert.equal(bases[0].sha256, oid);
  assert.equal(bases[0].model_name, "small");
  const asked = hub.asked.length;
  assert.equal((await create("hf://org/small/q4/small.gguf")).status, 200);
  assert.equal(hub.asked.length, asked);
  const admin = (await it.house.admin("key.create", { user: "root", scopes: ["admin"] })) as { key: string };
  const { acts } = (await it.call("audit.list", { key: admin.key })).body;
  const imported = acts.find((one: { act: string }) => one.act === "model.import");
  assert.equal(imported.actor, "ada");
  assert.equal(imported.detail.source, "hf://org/small/q4/small.gguf");
  assert.deepEqual(
    readdirSync(join(it.data, "models")).filter((name) => name.startsWith(".")),
    [],
  );
});
