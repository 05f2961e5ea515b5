// How much of a text survives ingestion: the same manual as TXT, HTML, EPUB and PDF, of Debian's packages debian-policy and
// developers-reference, unpacked in a folder (`apt-get download …`, `dpkg -x FILE.deb FOLDER`).
//
//   node test/ingest/words.ts FOLDER
//
// Of the words of the TXT file, in order, it counts those that stand in the same order in what was read from each other format
// (the longest common subsequence), and lists the tables' rows. Exits with 1 below 99 % (HTML, EPUB) or 97 % (PDF).
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { documentReader, type Read } from "../helpers/read-document.ts";

const [folder] = process.argv.slice(2);
if (!folder) throw new Error("usage: words.ts FOLDER");

interface Manual {
  name: string;
  at: string;
  /** Without its ending, which may have .gz after it. */
  file: string;
  /** Folder of the pages, in the order of its index. */
  pages: string;
}

const manuals: Manual[] = [
  { name: "debian-policy", at: "usr/share/doc/debian-policy", file: "policy", pages: "policy.html" },
  { name: "developers-reference", at: "usr/share/developers-reference", file: "developers-reference", pages: "." },
];
const least: Record<string, number> = { html: 0.99, epub: 0.99, pdf: 0.97 };

const content = (path: string): Buffer =>
  existsSync(path) ? readFileSync(path) : gunzipSync(readFileSync(`${path}.gz`));
const wordsOf = (text: string): string[] =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];

/** Myers 1986: the shortest edit script has D steps, and the longest common subsequence (N + M − D) / 2 words. */
function commonWords(a: readonly string[], b: readonly string[]): number {
  const ids = new Map<string, number>();
  const numbers = (words: readonly string[]): Int32Array =>
    Int32Array.from(words, (word) => {
      if (!ids.has(word)) ids.set(word, ids.size);
      return ids.get(word)!;
    });
  const [x, y] = [numbers(a), numbers(b)];
  const most = x.length + y.length;
  const reach = new Int32Array(2 * most + 3);
  for (let d = 0; d <= most; d++)
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && reach[most + k]! < reach[most + k + 2]!);
      let i = down ? reach[most + k + 2]! : reach[most + k]! + 1;
      let j = i - k;
      while (i < x.length && j < y.length && x[i] === y[j]) {
        i++;
        j++;
      }
      reach[most + k + 1] = i;
      if (i >= x.length && j >= y.length) return (most - d) / 2;
    }
  throw new Error("no edit script");
}

/** Chapters in the order of the index, each once. */
function pagesOf(at: string): string[] {
  const index = readFileSync(join(at, "index.html"), "utf8");
  const linked = [...index.matchAll(/class="toctree-l1"><a class="reference internal" href="([^"#]+)/g)];
  return [...new Set(linked.map((match) => match[1]!))].filter((name) => existsSync(join(at, name)));
}

const rowsIn = (read: Read): string[] =>
  read.blocks.filter((block) => block.type === "row").map((block) => read.text.slice(block.start, block.end));

const reader = documentReader();
let failed = false;
for (const { name, at, file, pages } of manuals) {
  const root = join(folder, at);
  const reference = wordsOf(content(join(root, `${file}.txt`)).toString("utf8"));
  const report = (format: string, reads: readonly Read[], seconds: number, wanted = reference): void => {
    const found = reads.flatMap((read) => wordsOf(read.text));
    const share = commonWords(wanted, found) / wanted.length;
    const rows = reads.flatMap(rowsIn);
    const low = share < (least[format] ?? 0);
    failed ||= low;
    console.log(
      `${name} ${format}: ${(share * 100).toFixed(2)} % of ${wanted.length} words in order, ${found.length} words, ${rows.length} rows of tables, ${seconds.toFixed(1)} s${low ? "  BELOW" : ""}`,
    );
    for (const row of rows.slice(0, 4)) console.log(`    ${row}`);
  };
  const timed = async (names: readonly string[], path: (name: string) => string): Promise<[Read[], number]> => {
    const start = performance.now();
    const reads: Read[] = [];
    for (const one of names) reads.push(await reader.read(basename(path(one)), content(path(one))));
    return [reads, (performance.now() - start) / 1000];
  };
  const chapters = pagesOf(join(root, pages));
  // The table of contents is not on the chapters' pages, but at the start of the text.
  const [html, htmlSeconds] = await timed(chapters, (page) => join(root, pages, page));
  const first = wordsOf(html[0]!.text).slice(0, 12).join(" ");
  const all = reference.join(" ");
  const from = all.lastIndexOf(first) < 0 ? 0 : all.slice(0, all.lastIndexOf(first)).split(" ").length - 1;
  report("html", html, htmlSeconds, reference.slice(from));
  for (const format of ["txt", "epub", "pdf"]) {
    const [reads, seconds] = await timed([`${file}.${format}`], (one) => join(root, one));
    report(format, reads, seconds, format === "txt" ? reference : reference.slice(from));
  }
}
await reader.close();
process.exit(failed ? 1 : 0);
