// Cases 61–74: documents, benchmarks, uploads.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { places } from "../../../src/base/config.ts";
import { docx, forms, lines, pdf, zip } from "../../helpers/document-files.ts";
import { aside, type Case, expects, limits, type Target } from "./target.ts";

const path = "/api/v3/documents/upload";
const words = lines(["words on a page"], 72, 700);

/** A body that no library would send. */
function multipart(it: Target, body: string | Buffer, boundary = "b"): Promise<{ status: number }> {
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: localhost",
    `Authorization: Bearer ${it.key}`,
    `Content-Type: multipart/form-data; boundary=${boundary}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    "",
    "",
  ].join("\r\n");
  return it.raw(Buffer.concat([Buffer.from(head), Buffer.from(body)]), { ms: 30_000 });
}

const part = (disposition: string, content = "words"): string =>
  `--b\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${content}\r\n`;

const uploadsLeft = (it: Target): string[] => readdirSync(places(it.data).uploads);

const nothingIsLeft = (it: Target): Promise<true> =>
  it.until("an empty folder of uploads", () => uploadsLeft(it).length === 0, 10_000) as Promise<true>;

const laughs = `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha">${Array.from({ length: 20 }, (_, i) => `<!ENTITY ${"a".repeat(i + 2)} "${`&${"a".repeat(i + 1)};`.repeat(10)}">`).join("")}]><l>&${"a".repeat(21)};</l>`;
const outside = (url: string): string => `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY x SYSTEM "${url}">]><l>&x;</l>`;
const paragraph = "<w:p><w:r><w:t>words</w:t></w:r></w:p>";

/** Files of that name, each of which is answered so. */
const files = (
  it: Target,
  given: readonly (readonly [name: string, content: string | Uint8Array, ...statuses: number[]])[],
) =>
  expects(
    given.map(([name, content, ...statuses]) => [name, () => it.documents([name, content]), ...statuses] as const),
  );

export const uploads: Case[] = [
  {
    id: 61,
    situation: "file names: ../../x, /etc/cron.d/x, C:\\x, NUL, CON, 4 KB, right to left, ;id;, -rf",
    expected: "a random name in the store, a label without controls",
    async run(it) {
      const names = [
        "../../x.txt",
        "/etc/cron.d/x.txt",
        "C:\\x.txt",
        "CON.txt",
        `${"n".repeat(4000)}.txt`,
        "\u202etxt.exe.txt",
        ";id;.txt",
        "-rf.txt",
      ];
      const labels: string[] = [];
      for (const name of names) {
        const { status, body, text } = await it.documents([name, "words"]);
        assert.equal(status, 200, text);
        labels.push(body.documents[0].name);
      }
      assert.ok(
        labels.every((label) => label.length <= 200 && !/[\\/\p{Cc}\u202e]/u.test(label)),
        labels.join(" "),
      );
      const kept = readdirSync(places(it.data).blobs, { recursive: true, encoding: "utf8" });
      assert.ok(
        kept.every((name) => /^[0-9a-f]{2}(\/[0-9a-f]{64})?$/.test(name)),
        kept.join(" ").slice(0, 500),
      );
      const { status } = await multipart(it, `${part('name="file"; filename="a\0.txt"')}--b--\r\n`);
      assert.ok(status === 200 || status === 422, String(status));
      return `200 × ${names.length}, NUL ${status}; only digests in the store`;
    },
  },
  {
    id: 62,
    situation:
      "filename*=%E0%A4%A; a disposition of 8 KB; 100,000 parts, fields; no end; a boundary of 80; headers of 1 MB",
    expected: "422, 413 or 400; no file left",
    async run(it) {
      const many = (disposition: string): string => `${part(disposition, "").repeat(100_000)}--b--\r\n`;
      const came = await expects([
        ["name", () => multipart(it, `${part("name=\"file\"; filename*=UTF-8''%E0%A4%A")}--b--\r\n`), 422],
        ["8 KB", () => multipart(it, `${part(`name="file"; filename="${"n".repeat(8000)}.txt"`)}--b--\r\n`), 200, 422],
        ["parts", () => multipart(it, many('name="file"; filename="a.txt"').slice(0, 7 << 20)), 413, 422],
        ["fields", () => multipart(it, many('name="x"').slice(0, 7 << 20)), 413, 422],
        ["no end", () => multipart(it, part('name="file"; filename="a.txt"')), 422],
        ["boundary", () => multipart(it, part('name="file"; filename="a.txt"'), "b".repeat(80)), 400, 422],
        ["headers", () => multipart(it, `--b\r\nX: ${"y".repeat(1 << 20)}\r\n\r\nwords\r\n--b--\r\n`), 422, 413],
      ]);
      await nothingIsLeft(it);
      return `${came}; nothing left`;
    },
  },
  {
    id: 63,
    situation: "100 uploads of 1 MB that are broken off, at each tenth",
    expected: "no row, no file",
    async run(it) {
      const rows = () => it.store.prepare<[], { n: number }>("SELECT count(*) AS n FROM document").get()!.n;
      const before = rows();
      const content = Buffer.alloc(1 << 20, "words ");
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${it.key}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${content.length + 500}\r\n\r\n${part('name="file"; filename="a.txt"', "").slice(0, -2)}`;
      for (let n = 0; n < 100; n++) {
        const socket = it.open();
        socket.write(head);
        await new Promise((resolve) =>
          socket.write(content.subarray(0, (content.length * (1 + (n % 10))) / 11), resolve),
        );
        socket.resetAndDestroy();
      }
      await nothingIsLeft(it);
      assert.equal(rows(), before);
      return "nothing left of 100";
    },
  },
  {
    id: 64,
    situation: "named .pdf: an ELF file, HTML, GGUF",
    expected: "415 or 422 by content",
    run: (it) =>
      files(it, [
        ["a.pdf", Buffer.concat([Buffer.from("\x7fELF", "latin1"), Buffer.alloc(500)]), 415, 422],
        ["b.pdf", "<!doctype html><p>words</p>", 415, 422],
        ["c.pdf", Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(500)]), 415, 422],
      ]),
  },
  {
    id: 65,
    situation: "archives: a bomb, overlapping and 10,001 parts, a false size and check sum, encrypted, leading out",
    expected: "422",
    run: (it) =>
      files(it, [
        ["a.docx", docx(paragraph, [{ name: "word/media/x", content: new Uint8Array(64 << 20) }]), 422],
        [
          "b.xlsx",
          zip([
            { name: "[Content_Types].xml", content: "x".repeat(100) },
            { name: "b", content: "y", claims: { offset: 0 } },
          ]),
          422,
        ],
        ["c.epub", zip(Array.from({ length: 10_001 }, (_, n) => ({ name: `${n}`, content: "" }))), 422],
        ["d.docx", zip([{ name: "[Content_Types].xml", content: "x".repeat(1 << 20), claims: { size: 10 } }]), 422],
        ["e.docx", zip([{ name: "[Content_Types].xml", content: "<a/>", claims: { crc: 1 } }]), 422],
        ["f.docx", zip([{ name: "[Content_Types].xml", content: "x", claims: { flags: 0x801 } }]), 422],
        ["g.docx", zip([{ name: "../../x", content: "x" }]), 422],
        ["h.docx", zip([{ name: "/etc/x", content: "x" }]), 422],
      ]),
  },
  {
    id: 66,
    situation: "Office and XML: entities, a DTD from outside, relations to file:// and http://",
    expected: "422, or read without looking there",
    async run(it) {
      const asked = it.hub.asked.length;
      const rels = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${["file:///etc/passwd", `${it.hub.url}/x`].map((target, n) => `<Relationship Id="r${n}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" Target="${target}" TargetMode="External"/>`).join("")}</Relationships>`;
      const came = await files(it, [
        ["a.xml", laughs, 422],
        ["b.xml", outside("file:///etc/passwd"), 422],
        ["c.docx", zip([{ name: "[Content_Types].xml", content: outside(`${it.hub.url}/dtd`) }]), 422],
        ["d.docx", docx(paragraph, [{ name: "word/_rels/other.xml.rels", content: rels }]), 200, 422],
      ]);
      assert.equal(it.hub.asked.length, asked, "it was fetched");
      return `${came}; nothing was fetched`;
    },
  },
  {
    id: 67,
    situation: "PDF: forms in forms, code, encrypted, cut, a page of 10^6 points, 6,000 pages",
    expected: "text or 422, in time",
    run: (it) =>
      files(it, [
        ["a.pdf", forms(2000, "words"), 200, 422],
        [
          "b.pdf",
          Buffer.from(
            pdf([words])
              .toString("latin1")
              .replace("/Type /Catalog", "/Type /Catalog /OpenAction << /S /JavaScript /JS (app.alert(1)) >>"),
            "latin1",
          ),
          200,
          422,
        ],
        ["c.pdf", pdf([words], "/Encrypt << /Filter /Standard /V 1 /R 2 /O (x) /U (x) /P -1 >>"), 422],
        ["d.pdf", pdf([words]).subarray(0, 300), 422],
        [
          "e.pdf",
          Buffer.from(
            pdf([words])
              .toString("latin1")
              .replace(/\/MediaBox \[[^\]]*\]/, "/MediaBox [0 0 1e6 1e6]"),
            "latin1",
          ),
          200,
          422,
        ],
        ["f.pdf", pdf(Array.from({ length: 6000 }, () => [])), 422],
      ]),
  },
  {
    id: 68,
    situation: "text: 20 MB; 7 MB in one line; lone CR; mixed encodings; empty; blank",
    expected: "413; read, 415 or 422; empty 422",
    run: (it) =>
      files(it, [
        ["a.txt", "x".repeat(20 << 20), 413],
        ["b.txt", "word ".repeat(1_400_000), 200, 422],
        ["c.txt", "one\rtwo\rthree", 200],
        [
          "d.txt",
          Buffer.concat([Buffer.from("grün "), Buffer.from("grün ", "latin1"), Buffer.from("x", "utf16le")]),
          200,
          415,
          422,
        ],
        ["e.txt", "", 422],
        ["f.txt", " \n\t \n", 422],
      ]),
  },
  {
    id: 69,
    situation:
      "benchmark rows: no instruction, an unknown field, a number as answer, 100,001 rows, =cmd(), 60 MB of lines, deep",
    expected: "422 that names the row; a formula is words",
    async run(it) {
      const row = (more: object): string => JSON.stringify({ instruction: "Who?", response: "Ada", ...more });
      const named = async (content: string | Uint8Array) => {
        const answer = await it.benchmark(content);
        if (answer.status === 422) assert.ok(answer.body.error.message.length > 0);
        return answer;
      };
      const bad = await named(`${row({})}\n{"response":"x"}`);
      assert.deepEqual([bad.status, bad.body.detail[0].loc], [422, ["body", "file", 2, "instruction"]]);
      const many = Array.from({ length: 100_001 }, (_, n) => `{"instruction":"${n}?","response":"a"}`).join("\n");
      return `422, ${await expects([
        ["unknown", () => named(row({ sample_num: -1 })), 422],
        ["number", () => named(row({ response: 5 })), 422],
        ["many", () => named(many), 422],
        ["formula", () => named("instruction,response\nWho?,\"=cmd|' /C calc'!A0\"\n"), 200],
        ["lines", () => named(`{${"\n".repeat(limits.uploadBytes - 100)}`), 422],
        ["deep", () => named(`{"instruction":${"[".repeat(1_000_000)}${"]".repeat(1_000_000)},"response":"a"}`), 422],
      ])}`;
    },
  },
  {
    id: 70,
    situation: "another user's document, benchmark, its data: read and deleted",
    expected: "404",
    async run(it) {
      const document = `/api/v3/documents/${await it.document()}`;
      const benchmark = `/api/v3/benchmarks/${(await it.benchmark('{"instruction":"Who?","response":"Ada"}')).body.benchmark_id}`;
      const as = (asked: string, method = "GET") =>
        [`${method} ${asked}`, () => it.ask(asked, { method, key: it.otherKey }), 404] as const;
      return expects([
        as(document),
        as(`${document}/text`),
        as(document, "DELETE"),
        as(benchmark),
        as(`${benchmark}/data`),
        as(benchmark, "DELETE"),
      ]);
    },
  },
  {
    id: 71,
    situation: "a document deleted twice; deleted while an alignment of it is made",
    expected: "200 then 404; a whole snapshot or 404",
    async run(it) {
      const [id, other] = [await it.document(), await it.document("The gate of the yard is grey.")];
      const twice = await expects([
        ["once", () => it.ask(`/api/v3/documents/${id}`, { method: "DELETE" }), 200],
        ["again", () => it.ask(`/api/v3/documents/${id}`, { method: "DELETE" }), 404],
      ]);
      const body = { alignment_name: "race", base_model_id: it.languageId, document_ids: [other] };
      const [made, gone] = await Promise.all([
        it.ask("/api/v3/alignment-projects/create", { json: body }),
        it.ask(`/api/v3/documents/${other}`, { method: "DELETE" }),
      ]);
      assert.equal(gone.status, 200);
      assert.ok(made.status === 200 || made.status === 404, made.text);
      if (made.status === 200) {
        const { body: status } = await it.call("alignments.status", {
          params: { alignment_id: made.body.alignment_id },
        });
        assert.notEqual(status.status, "FAILED");
        await it.ask(`/api/v3/alignment-projects/${made.body.alignment_id}`, { method: "DELETE" });
      }
      return `${twice}; created ${made.status}, deleted ${gone.status}`;
    },
  },
  {
    id: 72,
    situation: "the same bytes twice, and by two users",
    expected: "a record each, which say nothing of the other",
    async run(it) {
      const content = "The ferry leaves at nine.";
      const [one, two, theirs] = [
        await it.documents(["a.txt", content]),
        await it.documents(["a.txt", content]),
        await it.upload(path, [["a.txt", content]], it.otherKey),
      ].map((answer) => answer.body.documents[0]);
      assert.equal(new Set([one, two, theirs].map(({ document_id }) => document_id)).size, 3);
      for (const id of [one.document_id, two.document_id])
        assert.ok(!JSON.stringify(theirs).includes(id), "the other's is told of");
      return "three records; the other's names none of these";
    },
  },
  {
    id: 73,
    situation: "a file over the limit; the disk at its low water",
    expected: "413; 507, and reads are fine",
    async run(it) {
      const big = await expects([["big", () => it.documents(["a.txt", "x".repeat(limits.uploadBytes + 1)]), 413]]);
      return `${big}; ${await aside(it, { PLUMBLINE_FREE_DISK: String(2 ** 52) }, (full) =>
        expects([
          ["upload", () => full.documents(["a.txt", "words"]), 507],
          [
            "alignment",
            () =>
              full.ask("/api/v3/alignment-projects/create", {
                json: { alignment_name: "a", base_model_id: "model_x", document_ids: ["document_x"] },
              }),
            507,
            404,
          ],
          ["read", () => full.ask("/api/v3/documents"), 200],
        ]),
      )}`;
    },
  },
  {
    id: 74,
    situation: "stored HTML with a script, read back",
    expected: "as plain text with nosniff",
    async run(it) {
      const { body } = await it.documents([
        "a.html",
        "<!doctype html><p>words and more words</p><script>alert(1)</script>",
      ]);
      const answer = await it.ask(`/api/v3/documents/${body.documents[0].document_id}/text`);
      assert.match(answer.headers.get("content-type") ?? "", /^text\/plain/);
      assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
      return "text/plain, nosniff";
    },
  },
];
