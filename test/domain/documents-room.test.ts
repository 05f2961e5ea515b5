// What other rooms are given of a document: its parts with their places, and a snapshot that knows its pages.
import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { sha256 } from "../../src/base/files.ts";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { catalogDocuments } from "../../src/catalog/documents.ts";
import { createDocuments, type Documents } from "../../src/domain/documents/index.ts";
import { openStore, type Store } from "../../src/store/open.ts";
import { lines, pdf } from "../helpers/document-files.ts";

let folder: string;
let store: Store;
let documents: Documents;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "plumbline-room-"));
  store = openStore(join(folder, "db"), { onIoError: (error) => assert.fail(error) });
  store.prepare("INSERT INTO user(id, name, created_at) VALUES('u', 'ann', '2026-05-04T12:00:00Z')").run();
  documents = createDocuments({
    store,
    clock: systemClock,
    log: createLog("error"),
    folder: join(folder, "blobs"),
    personalData: "flag",
    snapshotsOf: () => [],
    removeSnapshots: async () => {},
  });
  await documents.prepare();
});
after(async () => {
  await documents.close();
  store.close();
  rmSync(folder, { recursive: true, force: true });
});

async function uploadAll(
  files: [name: string, content: string | Uint8Array][],
  query: { personal_data?: "mask" } = {},
): Promise<string[]> {
  const arrived = files.map(([name, content]) => {
    const path = join(folder, `${sha256(content)}.upload`);
    writeFileSync(path, content);
    return { name, declaredType: "", path, bytes: statSync(path).size, sha256: sha256(content) };
  });
  const handler = documents.handlers["documents.upload"];
  const input = { files: arrived, query, signal: new AbortController().signal, keepReply: () => {} };
  const caller = { userId: "u", userName: "ann", keyId: "k" };
  const answer = await handler(input as unknown as Parameters<typeof handler>[0], caller);
  return answer.documents.map(({ document_id }) => document_id);
}

const upload = async (name: string, content: string | Uint8Array): Promise<string> =>
  (await uploadAll([[name, content]]))[0]!;

test("a PDF's parts cite their pages", async () => {
  const page = (n: number) =>
    lines([`Berth ${n} is the berth of the ship called number ${n}, and of no other ship.`], 72, 700);
  const id = await upload("a.pdf", pdf([page(1), [], page(3)]));
  const [read] = await documents.read("u", [id, id]);
  assert.deepEqual([read!.id, read!.format, read!.media_type, read!.language], [id, "pdf", "text/markdown", "en"]);
  assert.deepEqual(
    read!.blocks.map(({ place }) => [place.page, place.start, place.last_page]),
    [
      [1, 0, 1],
      [3, 0, 3],
    ],
  );
  assert.equal(read!.chunks.map((chunk) => chunk.text).join("\n\n"), read!.text.trim());
  const { document } = (await documents.snapshot("u", [id]))[0]!;
  assert.equal(document.pages!.length, 3);
  assert.ok(document.text.slice(document.pages![2]).startsWith("Berth 3"));
});

test("a document that was taken in before its parts were kept is read all the same", async () => {
  const id = await upload("a.md", "# Title\r\n\r\nWords.");
  const [now] = await documents.read("u", [id]);
  store
    .prepare<[string]>("UPDATE document SET structure_sha256 = NULL, report_json = NULL, format = NULL WHERE id = ?")
    .run(id);
  const [then] = await documents.read("u", [id]);
  assert.equal(then!.format, "markdown");
  assert.deepEqual(
    then!.blocks.map(({ start, end }) => [start, end]),
    now!.blocks.map(({ start, end }) => [start, end]),
  );
  const { document } = (await documents.snapshot("u", [id]))[0]!;
  assert.deepEqual(Object.keys(document), ["id", "name", "media_type", "text", "blocks"]);
  assert.deepEqual(
    document.blocks!.map(({ type, start, end }) => [type, document.text.slice(start, end)]),
    [
      ["heading", "Title"],
      ["paragraph", "Words."],
    ],
  );
});

test("a document is there for its owner until it is deleted", async () => {
  const id = await upload("there.txt", "Words that are there.");
  const catalog = catalogDocuments(store);
  catalog.check("u", [id, id]);
  assert.deepEqual(
    [catalog.has("u", id), catalog.has("v", id), catalog.has("u", "document_none")],
    [true, false, false],
  );
  const handler = documents.handlers["documents.delete"];
  const input = { params: { document_id: id }, query: { snapshots: false } };
  await handler(input as Parameters<typeof handler>[0], { userId: "u", userName: "ann", keyId: "k" });
  assert.equal(catalog.has("u", id), false);
  assert.throws(() => catalog.check("u", [id]), { code: "not_found" });
});

test("another's documents are not found", async () => {
  const id = await upload("a.md", "Words.");
  await assert.rejects(documents.read("other", [id]), { code: "not_found" });
});

test("a paragraph is found again past hundreds of other documents", async () => {
  const words = (n: number) => Array.from({ length: 20 }, (_, i) => `w${n}x${i}`).join(" ");
  const first = await upload("first.txt", `${words(0)}\n\nFirst.`);
  await uploadAll(Array.from({ length: 230 }, (_, i) => [`${i}.txt`, words(i + 1)]));
  const last = await upload("last.txt", `Last.\n\n${words(0)}\n\n${words(230)}`);
  const [read] = await documents.read("u", [last]);
  assert.deepEqual(
    read!.duplicates.map(({ start, similarity, of }) => [
      read!.text.slice(start, start + 4),
      similarity,
      of.document_id === first,
    ]),
    [
      ["w0x0", 1, true],
      ["w230", 1, false],
    ],
  );
});

test("what is masked has the same stand-in in every document, and still leads back to its place", async () => {
  const originals = ["Write to ada@example.org today.", "It was Ada@Example.org, not bo@example.org, who called."];
  const ids = await uploadAll(
    originals.map((text, i) => [`${i}.txt`, text]),
    { personal_data: "mask" },
  );
  const read = await documents.read("u", ids);
  const standIns = read.map(({ text }) => text.match(/\[email [0-9a-f]{8}\]/g));
  assert.deepEqual(
    standIns.map((found) => found?.length),
    [1, 2],
  );
  assert.equal(standIns[0]![0], standIns[1]![0]);
  assert.notEqual(standIns[1]![0], standIns[1]![1]);
  assert.ok(read.every(({ text }) => !text.includes("@")));
  assert.deepEqual(
    read.map(({ blocks }, i) => originals[i]!.slice(blocks[0]!.place.start, blocks[0]!.place.end)),
    originals,
  );
});

test("content that others on the machine could read becomes its owner's alone at the next start", async () => {
  await upload("open.txt", "The lamp of the lighthouse is red.");
  const digest = sha256("The lamp of the lighthouse is red.");
  const path = join(folder, "blobs", digest.slice(0, 2), digest);
  chmodSync(path, 0o644);
  await documents.sweep();
  assert.equal(statSync(path).mode & 0o777, 0o600);
});
