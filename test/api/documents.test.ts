import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { sha256 } from "../../src/base/files.ts";
import { lines, pdf } from "../helpers/document-files.ts";
import { eventually, type TestHouse, testHouse } from "../helpers/house.ts";

let it: TestHouse;
before(async () => {
  it = await testHouse({ PLUMBLINE_UPLOAD_BYTES: String(4 << 20), PLUMBLINE_UPLOAD_FILES: "5" });
});
after(() => it.close());

type File = { name: string; content: string | Uint8Array };
const upload = (...files: File[]) => it.call("documents.upload", { files });
const get = (document_id: string, key?: string) =>
  it.call("documents.get", { params: { document_id }, ...(key ? { key } : {}) });
const remove = (document_id: string, key?: string) =>
  it.call("documents.delete", { params: { document_id }, ...(key ? { key } : {}) });
const total = async (): Promise<number> => (await it.call("documents.list")).body.total;
const blobs = (): string[] =>
  readdirSync(join(it.data, "blobs"), { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(join(it.data, "blobs", name)).isFile(),
  );

test("without a key every route is refused", async () => {
  for (const name of ["documents.upload", "documents.list", "documents.get", "documents.delete"] as const)
    assert.equal((await it.call(name, { key: null, params: { document_id: "x" } })).status, 422);
});

describe("an upload", () => {
  const cases: [string, File, string, number][] = [
    ["text", { name: "a.txt", content: "Plain words." }, "text/plain", 12],
    ["Markdown by name", { name: "a.md", content: "words" }, "text/markdown", 5],
    ["Markdown by looks", { name: "notes", content: "# Title\n\nwords" }, "text/markdown", 14],
    ["text that only looks like it", { name: "a.txt", content: "# not a title" }, "text/plain", 13],
    ["CSV", { name: "a.CSV", content: 'a,b\n1,"x, y"\n' }, "text/csv", 13],
    ["a byte order mark and other line ends", { name: "a.txt", content: "\ufeffone\r\ntwo\rthree" }, "text/plain", 13],
    ["control characters", { name: "a.txt", content: "a\u0007b\u001b[0mc" }, "text/plain", 6],
    ["UTF-16", { name: "a.txt", content: Buffer.from("\ufeffwörds", "utf16le") }, "text/plain", 5],
    ["UTF-16 without a mark", { name: "a.txt", content: Buffer.from("plain words", "utf16le") }, "text/plain", 11],
    ["an old charset", { name: "a.txt", content: Buffer.from("Straßenverkäufe für Öl", "latin1") }, "text/plain", 22],
    ["letters beyond the first plane", { name: "a.txt", content: "𝒳 e\u0301" }, "text/plain", 3],
  ];
  for (const [what, file, mediaType, characters] of cases)
    test(`of ${what} is kept`, async () => {
      const { status, body } = await upload(file);
      assert.equal(status, 200, JSON.stringify(body));
      const [record] = body.documents;
      assert.equal(record.media_type, mediaType);
      assert.equal(record.characters, characters);
      assert.equal(record.bytes, Buffer.from(file.content as string).length);
      assert.equal(record.sha256, sha256(file.content));
      assert.deepEqual((await get(record.document_id)).body, record);
    });

  const refused: [string, File, number, string][] = [
    ["an empty file", { name: "a.txt", content: "" }, 422, "document_invalid"],
    ["only space", { name: "a.md", content: " \n\t\u00a0\n" }, 422, "document_invalid"],
    ["NUL bytes", { name: "a.txt", content: "a\0b" }, 415, "document_type"],
    ["a program", { name: "a.md", content: "\x7fELF words" }, 415, "document_type"],
    ["a PDF named as text", { name: "a.txt", content: "%PDF-1.7\nwords" }, 415, "extension_mismatch"],
    ["a ZIP named as text", { name: "a.txt", content: "PK\x03\x04words" }, 415, "extension_mismatch"],
    ["text named as a PDF", { name: "a.pdf", content: "words" }, 415, "extension_mismatch"],
    ["a damaged ZIP", { name: "a", content: "PK\x03\x04words" }, 422, "document_invalid"],
    ["a damaged PDF", { name: "a", content: "%PDF-1.7\nwords" }, 422, "document_invalid"],
    ["a model", { name: "a.md", content: "GGUF words" }, 415, "document_type"],
    [
      "HTML named as Markdown",
      { name: "a.md", content: "\n<!DOCTYPE html><script>1</script>" },
      415,
      "extension_mismatch",
    ],
    ["a broken CSV", { name: "a.csv", content: 'a,b\n1,"never closed' }, 422, "document_invalid"],
    ["quotations within each other", { name: "a.md", content: ">".repeat(200_000) }, 422, "document_limit"],
    ["a file over the limit", { name: "a.txt", content: "x".repeat((4 << 20) + 1) }, 413, "too_large"],
  ];
  for (const [what, file, status, code] of refused)
    test(`of ${what} is refused, and its neighbour with it`, async () => {
      const before = [await total(), blobs().length];
      const answer = await upload({ name: "good.txt", content: `good ${what}` }, file);
      assert.equal(answer.status, status, JSON.stringify(answer.body));
      assert.equal(answer.body.error.code, code);
      if (status === 415) assert.match(answer.body.detail, /^\w+\.\w+ is /);
      assert.doesNotMatch(JSON.stringify(answer.body), /plumbline-house/);
      assert.deepEqual([await total(), blobs().length], before);
      await eventually(() => readdirSync(join(it.data, "uploads")).length === 0);
    });

  test("declared types are not believed", async () => {
    const form = new FormData();
    form.append("file", new Blob(["words"], { type: "application/pdf" }), "a.txt");
    const response = await it.get("/api/v3/documents/upload", { method: "POST", body: form });
    assert.equal(response.status, 200);
  });

  test("big text in one line is fine within the limit", async () => {
    const { status } = await upload({ name: "a.txt", content: "word ".repeat(800_000) });
    assert.equal(status, 200);
  });

  test("random bytes are never a document, nor an error of ours", async () => {
    for (let i = 0; i < 10; i++) {
      const { status } = await upload({ name: "a.txt", content: Uint8Array.from(randomBytes(2000)) });
      assert.ok(status === 415 || status === 422);
    }
  });
});

describe("names are labels", () => {
  const cases: [string, string][] = [
    ["../../x.txt", "x.txt"],
    ["/etc/cron.d/x", "x"],
    ["C:\\temp\\x.txt", "x.txt"],
    ["CON", "CON"],
    ["-rf", "-rf"],
    [";id;.txt", ";id;.txt"],
    ["evil\u202etxt.exe", "eviltxt.exe"],
    ["\u0085[31mred", "[31mred"],
    ["x".repeat(4000), "x".repeat(200)],
    ["😀".repeat(150), "😀".repeat(100)],
    ["..", "unnamed"],
    ["\u200e", "unnamed"],
  ];
  for (const [name, shown] of cases)
    test(JSON.stringify(name.slice(0, 30)), async () => {
      const { status, body } = await upload({ name, content: `text of ${name}` });
      assert.equal(status, 200, JSON.stringify(body));
      assert.equal(body.documents[0].name, shown);
    });
});

describe("lists and owners", () => {
  test("newest first, paged, each user's own", async () => {
    const own = await testHouse();
    const names = ["1", "2", "3", "4", "5"];
    for (const name of names) await own.call("documents.upload", { files: [{ name, content: name }] });
    const page = async (query: string, key = own.key) => (await own.call("documents.list", { query, key })).body;
    const first = await page("limit=2");
    assert.deepEqual([first.total, first.documents.map((d: { name: string }) => d.name)], [5, ["5", "4"]]);
    assert.deepEqual(
      (await page("limit=2&offset=4")).documents.map((d: { name: string }) => d.name),
      ["1"],
    );
    assert.deepEqual((await page("offset=9007199254740991")).documents, []);
    assert.deepEqual(await page("", own.otherKey), { documents: [], total: 0 });
    await own.close();
  });

  test("another's, a deleted and one that never was are the same 404", async () => {
    const [mine, gone] = (await upload({ name: "a", content: "mine" }, { name: "b", content: "gone" })).body.documents;
    await remove(gone.document_id);
    const answers = [
      await get(mine.document_id, it.otherKey),
      await remove(mine.document_id, it.otherKey),
      await get(gone.document_id),
      await remove(gone.document_id),
      await get("document_000000000000000000000000"),
      await get("model_000000000000000000000000"),
      await get("' OR 1=1 --"),
    ];
    for (const { status, body } of answers) {
      assert.equal(status, 404);
      assert.deepEqual({ ...body.error, request_id: "" }, { ...answers[0]!.body.error, request_id: "" });
    }
    assert.equal((await get(mine.document_id)).status, 200);
  });

  test("the same bytes twice are two documents over one content, which goes with the last", async () => {
    const content = "shared words";
    const before = blobs().length;
    const a = (await upload({ name: "a", content })).body.documents[0].document_id;
    const other = await it.call("documents.upload", { files: [{ name: "b", content }], key: it.otherKey });
    const b = other.body.documents[0].document_id;
    assert.notEqual(a, b);
    assert.equal(blobs().length, before + 1);
    assert.equal((await remove(a)).body.document_id, a);
    assert.equal(blobs().length, before + 1);
    assert.equal((await remove(b, it.otherKey)).status, 200);
    assert.equal(blobs().length, before);
  });

  test("its clean text is read back, by its owner alone", async () => {
    const [document] = (await upload({ name: "a.md", content: "\ufeff# Öffnung\r\n\r\nAb sechs. 𝒳" })).body.documents;
    const params = { document_id: document.document_id };
    const { status, headers, body } = await it.call("documents.text", { params });
    assert.equal(status, 200);
    assert.equal(headers.get("content-type"), "text/plain; charset=utf-8");
    assert.equal(body, "# Öffnung\n\nAb sechs. 𝒳");
    assert.equal([...body].length, document.characters);
    assert.equal((await it.call("documents.text", { params, key: it.otherKey })).status, 404);
    await remove(document.document_id);
    assert.equal((await it.call("documents.text", { params })).status, 404);
  });

  test("is deleted with its snapshots where the query says so", async () => {
    for (const [query, status] of [
      ["snapshots=yes", 422],
      ["snapshots=1", 422],
      ["snapshots=true", 200],
    ] as const) {
      const [document] = (await upload({ name: "a.txt", content: "Six." })).body.documents;
      const reply = await it.call("documents.delete", { params: { document_id: document.document_id }, query });
      assert.equal(reply.status, status, JSON.stringify(reply.body));
      if (status === 200) assert.equal(reply.body.message, "Deleted with its snapshots.");
    }
  });

  test("uploads and deletes of one content at once leave every document its content", async () => {
    const content = "contended words";
    let left: string[] = [];
    for (let round = 0; round < 5; round++) {
      const uploads = Promise.all(Array.from({ length: 6 }, () => upload({ name: "a", content })));
      const deletes = Promise.all(left.map((id) => remove(id)));
      left = (await uploads).map(({ body }) => body.documents[0].document_id);
      await deletes;
    }
    assert.ok(blobs().some((name) => name.endsWith(sha256(content))));
    await Promise.all(left.map((id) => remove(id)));
    assert.ok(!blobs().some((name) => name.endsWith(sha256(content))));
  });
});

describe("what is found out about a document", () => {
  const words = (from: number) =>
    Array.from({ length: 40 }, (_, i) => `word${(from * 7919 + i * i * 31) % 997}`).join(" ");
  const record = async (id: string) => (await get(id)).body;

  test("pages, language, quality, warnings", async () => {
    const prose = Array.from(
      { length: 12 },
      (_, i) => `The master m${i} keeps book b${i} of the ships s${i} that come to berth t${i}.`,
    );
    const { body } = await upload({ name: "a.pdf", content: pdf([lines(prose, 72, 700), []]) });
    const [{ format, media_type, report }] = body.documents;
    assert.deepEqual([format, media_type], ["pdf", "text/markdown"]);
    assert.equal(report.pages.count, 2);
    assert.deepEqual(report.pages.without_text, [2]);
    assert.equal(report.language.main, "en");
    assert.equal(report.quality.words, 12 * 15);
    assert.deepEqual(
      report.warnings.map(({ code }: { code: string }) => code),
      ["pages_without_text"],
    );
  });

  test("paragraphs that other documents of the same owner have, as long as they have them", async () => {
    const near = words(2).replace("word", "another");
    const [older, newer, third] = (
      await upload(
        { name: "older", content: `${words(1)}\n\n${words(2)}` },
        { name: "newer", content: `${words(1)}\n\n${near}\n\n${words(3)}` },
        { name: "third", content: words(4) },
      )
    ).body.documents.map(({ document_id }: { document_id: string }) => document_id);
    await it.call("documents.upload", { files: [{ name: "foreign", content: words(4) }], key: it.otherKey });
    const found = async (id: string) => (await record(id)).duplicates;
    assert.deepEqual(await found(older), { exact: 1, near: 1, documents: [newer] });
    assert.deepEqual(await found(newer), { exact: 1, near: 1, documents: [older] });
    assert.deepEqual(await found(third), { exact: 0, near: 0, documents: [] });
    await remove(older);
    assert.deepEqual(await found(newer), { exact: 0, near: 0, documents: [] });
  });

  test("two uploads at once find each other", async () => {
    const answers = await Promise.all([
      upload({ name: "a", content: words(7) }),
      upload({ name: "b", content: words(7) }),
    ]);
    const found = await Promise.all(answers.map(({ body }) => record(body.documents[0].document_id)));
    assert.deepEqual(
      found.map(({ duplicates }) => duplicates.exact),
      [1, 1],
    );
  });

  test("personal data is counted, left alone or masked, as the upload says", async () => {
    const text = "Write to ada@example.org or call +49 30 901820.";
    const send = async (personal_data?: string) =>
      (
        await it.call("documents.upload", {
          files: [{ name: "a", content: text }],
          ...(personal_data ? { query: `personal_data=${personal_data}` } : {}),
        })
      ).body;
    const reports = [await send(), await send("flag"), await send("off"), await send("mask")].map(
      ({ documents: [{ report, characters }] }) => [report.personal_data, characters === text.length],
    );
    const found = { email: 1, phone: 1 };
    assert.deepEqual(reports, [
      [{ mode: "flag", found }, true],
      [{ mode: "flag", found }, true],
      [{ mode: "off", found: {} }, true],
      [{ mode: "mask", found }, false],
    ]);
    const wrong = await it.call("documents.upload", {
      files: [{ name: "a", content: text }],
      query: "personal_data=hide",
    });
    assert.equal(wrong.status, 422);
  });
});

test("what was acknowledged is there after a restart, and what a crash left is not", async () => {
  const kept = (await upload({ name: "kept.txt", content: "kept words" })).body.documents[0];
  const orphan = sha256("orphan");
  mkdirSync(join(it.data, "blobs", orphan.slice(0, 2)), { recursive: true });
  writeFileSync(join(it.data, "blobs", orphan.slice(0, 2), orphan), "orphan");
  writeFileSync(join(it.data, "blobs", ".tmp-1-x"), "half");
  writeFileSync(join(it.data, "uploads", "half"), "half");
  await it.restart();
  assert.deepEqual((await get(kept.document_id)).body, kept);
  await eventually(() => !blobs().some((name) => name.endsWith(orphan)));
  assert.ok(!blobs().some((name) => name.includes("tmp")));
  assert.deepEqual(readdirSync(join(it.data, "uploads")), []);
});

test("below the low-water mark uploads are 507, and the rest goes on", async () => {
  const full = await testHouse({ PLUMBLINE_FREE_DISK: String(Number.MAX_SAFE_INTEGER) });
  const answer = await full.call("documents.upload", { files: [{ name: "a", content: "a" }] });
  assert.equal(answer.status, 507);
  assert.equal(answer.body.error.code, "disk_full");
  assert.equal((await full.call("documents.list")).status, 200);
  await eventually(async () => (await full.call("system.health", { key: null })).body.status === "degraded");
  await full.close();
});
