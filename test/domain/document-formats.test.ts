// Documents of every format: what is read, what is left out, and where it stood.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type Element, type Piece, wordsOf } from "../../src/domain/documents/elements.ts";
import { readHtml } from "../../src/domain/documents/read/html.ts";
import { layOut, type TextItem } from "../../src/domain/documents/read/pdf-layout.ts";
import { passagesOf } from "../../src/study/passages.ts";
import { targetsOf } from "../../src/study/targets.ts";
import { docx, epub, lines, type PdfText, pdf, pptx, scan, xlsx } from "../helpers/document-files.ts";
import { type DocumentReader, documentReader, type Read } from "../helpers/read-document.ts";

let it: DocumentReader;
before(() => {
  it = documentReader();
});
after(() => it.close());

const blocksOf = (read: Read): [string, string][] =>
  read.blocks.map(({ type, level, start, end }) => [
    level > 0 ? `${type} ${level}` : type,
    read.text.slice(start, end),
  ]);

const textsOf = (elements: readonly Element[]): string[] =>
  elements.map((element) =>
    element.type === "row"
      ? `row: ${element.cells.map(wordsOf).join(" | ")}`
      : `${element.type}: ${wordsOf(element.pieces)}`,
  );

describe("HTML", () => {
  const page = `<!doctype html><html><head><title>Harbour</title><style>p{}</style></head><body>
<nav><a href="/">Home</a></nav><header>Cookies?</header><main>
<h1>Harbour &amp; docks<a class="headerlink" href="#x">¶</a></h1>
<p>The harbour opens at <b>six</b>&nbsp;o&#8217;clock.<br>It closes late.</p>
<ol start="3"><li>moor<ul><li>ask *first*</li></ul></li><li>pay</li></ol>
<table><tr><th>Ship</th><th>Berth</th></tr><tr><td rowspan="2">Ada | Lund</td><td>7</td></tr><tr><td>8</td></tr></table>
<pre>
  $ moor --now
</pre><script>alert(1)</script><p style="display:none">secret</p></main><footer>© 2020</footer></body></html>`;

  test("a bold line that begins a paragraph stands apart, a bold word does not", async () => {
    const read = await it.read(
      "q.html",
      "<html><body><p><strong>May I moor?</strong><br>Yes.<br>By day.</p><p><b>Never</b> swim.<br>Row.</p></body></html>",
    );
    assert.deepEqual(blocksOf(read), [
      ["paragraph", "May I moor?"],
      ["paragraph", "Yes. By day."],
      ["paragraph", "Never swim. Row."],
    ]);
  });

  test("is read as a person sees it, without what surrounds it", async () => {
    const read = await it.read("a.html", page);
    assert.equal(read.format, "html");
    assert.deepEqual(blocksOf(read), [
      ["heading 1", "Harbour & docks"],
      ["paragraph", "The harbour opens at six o’clock. It closes late."],
      ["item", "moor"],
      ["item", "ask \\*first\\*"],
      ["item", "pay"],
      ["row 1", "| Ship | Berth |"],
      ["row 2", "| Ada \\| Lund | 7 |"],
      ["row 2", "|  | 8 |"],
      ["code", "  $ moor --now"],
    ]);
    assert.match(read.text, /^3\. moor\n {2}- ask/m);
  });

  test("a cell that spans rows at the right edge of a table spans no more of them", async () => {
    const rows = ["<td>1</td><td rowspan=2>x</td>", "<td>2</td>", "<td>3</td><td>y</td>", "<td>4</td><td>z</td>"];
    const read = await it.read("a.html", `<table>${rows.map((row) => `<tr>${row}</tr>`).join("")}</table>`);
    const texts = blocksOf(read).map(([, text]) => text);
    assert.deepEqual(texts.slice(-3), ["| 2 |", "| 3 | y |", "| 4 | z |"]);
  });

  test("keeps where each word stands in the file", async () => {
    const read = await it.read("a.html", page);
    for (const words of ["Harbour", "docks", "six", "o’clock", "closes late", "Ada", "moor --now"]) {
      const at = read.text.indexOf(words);
      const block = read.blocks.find(({ start, end }) => start <= at && at < end)!;
      assert.ok(page.slice(block.place.start, block.place.end).includes(words.replace("’", "&#8217;")), words);
    }
  });

  test("an article is found among what is beside it", async () => {
    const prose = (n: number) =>
      `<p>${`The pilot boards ships, sentence ${n}, at the outer buoy, and guides them in with care. `.repeat(6)}</p>`;
    const links = `<div class="sidebar"><ul>${Array.from({ length: 12 }, (_, i) => `<li><a href="/${i}">Other news ${i}</a></li>`).join("")}</ul></div>`;
    const read = await it.read(
      "a.html",
      `<html><body>${links}<div class="post"><h1>Pilots</h1>${[1, 2, 3, 4].map(prose).join("")}</div>${links}</body></html>`,
    );
    assert.doesNotMatch(read.text, /Other news/);
    assert.equal(read.text.match(/sentence \d/g)?.length, 24);
  });

  test("an article keeps paragraphs that are divs, and a second-level heading that is the page's title", async () => {
    const prose = (n: number) =>
      `<div class="para">The <em>pilot</em> boards ships, sentence ${n}, at the outer buoy. </div><div class="para">She guides them in, line ${n}. ${"With care. ".repeat(20)}</div>`;
    const body = `<div class="section"><div><h2 class="title">10.8. Pilots</h2></div>${[1, 2, 3, 4].map(prose).join("")}</div>`;
    const read = await it.read("a.html", `<html><head><title>10.8. Pilots</title></head><body>${body}</body></html>`);
    assert.deepEqual(blocksOf(read)[0], ["heading 2", "10.8. Pilots"]);
    assert.deepEqual(read.text.match(/The pilot boards ships, sentence \d|She guides them in, line \d/g)?.length, 8);
  });

  test("an article keeps a box that tells something, whatever its class, and drops one of links", async () => {
    const prose = (n: number) => `<p>${`The pilot boards ships, sentence ${n}, at the outer buoy. `.repeat(8)}</p>`;
    const told =
      "The buoy was laid in 1931 and has been painted red since. It is lit at night and can be seen from four miles.";
    const box = `<div class="sidebar"><h3>The buoy</h3><p>${told}</p><p>Its bell is new.</p></div>`;
    const links = `<div class="sidebar"><h3>More</h3>${Array.from({ length: 9 }, (_, i) => `<p><a href="/${i}">What else is new, number ${i}</a></p>`).join("")}</div>`;
    const read = await it.read(
      "a.html",
      `<html><body><div class="post"><h1>Pilots</h1>${prose(1)}${box}${prose(2)}${links}${prose(3)}</div></body></html>`,
    );
    assert.ok(read.text.includes(told) && read.text.includes("Its bell is new."), read.text);
    assert.deepEqual(
      blocksOf(read).filter(([kind]) => kind.startsWith("heading")),
      [
        ["heading 1", "Pilots"],
        ["heading 3", "The buoy"],
      ],
    );
    assert.doesNotMatch(read.text, /What else is new/);
  });

  test("a page that is no article is read without the blocks that lead to other pages", async () => {
    const chapters = Array.from({ length: 12 }, (_, i) => `<div><h2>Part ${i}</h2><p>Lamp ${i}.</p></div>`).join("");
    const more = "The navigator's table below lists what every lamp costs, what it weighs, and who may open it by day.";
    const read = await it.read(
      "a.html",
      `<body><div id="banner"><a href="/get">Download</a></div><ul class="docnav top"><li><a href="0">Prev</a></li><li>The Lamp Book</li></ul>
       ${chapters}<div class="nav-note">${more} <a href="/1">More</a></div><ul class="lamps"><li><a href="/2">Red lamps</a></li></ul>
       <section id="pagination"><h2>Pagination<a class="headerlink" href="#pagination">¶</a></h2><p>A page has 50 rows.</p></section>
       <h2 id="keyboard-navigation">Navigation keys <a href="#keyboard-navigation">#</a></h2><div class="banner">Closed on Monday. <a href="/n">All</a></div></body>`,
    );
    assert.doesNotMatch(read.text, /Download|Prev|Lamp Book/);
    assert.ok(
      [
        "Lamp 11.",
        more,
        "Red lamps",
        "Pagination",
        "A page has 50 rows.",
        "Navigation keys",
        "Closed on Monday.",
      ].every((kept) => read.text.includes(kept)),
      read.text,
    );
  });

  test("a tag of XHTML ends at its slash, and what follows keeps its place", () => {
    const said = "<h1>One<a id='p1'/></h1><p>The <i/>first.<br/>It is &lt; two.</p>";
    for (const head of ["<title/>", '<title>T</title><script src="a.js"/><style/>']) {
      const page = `<?xml version="1.0"?><html><head>${head}</head><body>${said}</body></html>`;
      const { elements } = readHtml(page, 0, "x", false);
      assert.deepEqual(textsOf(elements), ["heading: One", "paragraph: The first.\nIt is < two."]);
      const [first] = (elements[1] as { pieces: Piece[] }).pieces;
      assert.equal(page.slice(first!.start, first!.start + 4), "The ");
    }
    const named = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body><h1>One</h1></body></html>';
    assert.deepEqual(textsOf(readHtml(named, 0, "x").elements), ["heading: One"]);
  });

  test("a header and an aside of a chapter are read, those of a page are not", () => {
    const chapter =
      "<html><body><header><h1>One</h1></header><p>The first.</p><aside><p>1 A note.</p></aside></body></html>";
    assert.deepEqual(textsOf(readHtml(chapter, 0, "x", false).elements), [
      "heading: One",
      "paragraph: The first.",
      "paragraph: 1 A note.",
    ]);
    assert.deepEqual(textsOf(readHtml(chapter, 0, "x").elements), ["paragraph: The first."]);
  });

  test("the reading of a word of Japanese is not read with the word", () => {
    const said = "<p><ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>を読む。</p>";
    const title = "<h1><ruby>港<rt>みなと</rt></ruby></h1>";
    assert.deepEqual(textsOf(readHtml(`<body>${title}${said}</body>`, 0, "x").elements), [
      "heading: 港",
      "paragraph: 漢字を読む。",
    ]);
  });

  test("a form is read without its controls and what names them", () => {
    const fields = `<input type="hidden" value="x"><label for="q">Search for</label><input id="q"><select><option>All</option></select><textarea>Say</textarea><button>Send</button>`;
    const prose = (n: number) =>
      `<p>${`The pilot boards ships, sentence ${n}, at the outer buoy. `.repeat(8).trim()}</p>`;
    for (const text of ["<p>They rise in May.</p>", [1, 2, 3].map(prose).join("")]) {
      const page = `<body><form action="a.aspx">${fields}<div><h1>Fees</h1>${text}</div></form></body>`;
      const { elements } = readHtml(page, 0, "x");
      const said = text.slice(3, -4).split("</p><p>");
      assert.deepEqual(textsOf(elements), ["heading: Fees", ...said.map((one) => `paragraph: ${one}`)]);
    }
    const beside = readHtml("<body><p>Before.</p>Open<form>Within.</form>After.</body>", 0, "x").elements;
    assert.deepEqual(
      textsOf(beside),
      ["Before.", "Open", "Within.", "After."].map((one) => `paragraph: ${one}`),
    );
  });

  test("raised figures are told from those before them, and marks of notes are left out", () => {
    const cases: [string, string][] = [
      ["10<sup>6</sup> lamps and 10<sup>-3</sup> bells", "10^6 lamps and 10^-3 bells"],
      ["since 2019<sup>1</sup> on 5 m<sup>2</sup>", "since 2019^1 on 5 m²"],
      ["the 1<sup>st</sup> of 2 CO<sub>2</sub>", "the 1st of 2 CO2"],
      [
        "1<sup>1</sup>⁄<sub>2</sub> cups, <sup>3</sup>/<sub>4</sub> and 9 m<sup>3</sup>/s",
        "1 1⁄2 cups, 3/4 and 9 m³/s",
      ],
      ['since 2019<sup><a href="#fn1">[1]</a></sup>, red', "since 2019, red"],
      ['since 2019<a epub:type="noteref" href="notes.xhtml#n1"><sup>1</sup></a>, red', "since 2019, red"],
      ['as <a href="#two">part <sup>2</sup></a> tells', "as part ² tells"],
    ];
    for (const [written, said] of cases)
      assert.deepEqual(textsOf(readHtml(`<body><p>${written}</p></body>`, 0, "x").elements), [`paragraph: ${said}`]);
    const table =
      "<table><tr><td>Sum</td><td>10<sup>6</sup></td></tr><tr><td>Area</td><td>m<sup>2</sup></td></tr></table>";
    assert.deepEqual(textsOf(readHtml(table, 0, "x").elements), ["row: Sum | 10^6", "row: Area | m²"]);
  });

  test("an article keeps the heading that says what it is about", async () => {
    const table =
      "<table><tr><th>Lead</th><td>Ada Lund</td></tr><tr><th>Budget</th><td>206,000 euros</td></tr></table>";
    const page = `<html><head><title>Project Aspen</title></head><body><h1>Project Aspen</h1><p>The group has approved the plan.</p>${table}</body></html>`;
    const read = await it.read("a.html", page);
    assert.deepEqual(blocksOf(read)[0], ["heading 1", "Project Aspen"]);
  });
});

describe("Word", () => {
  const p = (text: string, properties = "") =>
    `<w:p><w:pPr>${properties}</w:pPr><w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`;
  const item = (text: string, level: number) =>
    p(text, `<w:numPr><w:ilvl w:val="${level}"/><w:numId w:val="3"/></w:numPr>`);
  test("headings by style and outline, lists, tables, notes; nothing deleted or hidden", async () => {
    const read = await it.read(
      "a.docx",
      docx(
        `${p("Harbour", '<w:pStyle w:val="Heading1"/>')}${p("Rules", '<w:pStyle w:val="Own"/>')}` +
          `<w:p><w:r><w:t>Open </w:t></w:r><w:ins><w:r><w:t>daily</w:t></w:r></w:ins><w:del><w:r><w:delText>never</w:delText></w:r></w:del><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:t>.</w:t></w:r></w:p>` +
          `${item("moor", 0)}${item("ask", 1)}${item("pay", 0)}` +
          `<w:tbl><w:tr><w:tc>${p("Ship")}</w:tc><w:tc>${p("Berth")}</w:tc></w:tr><w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>${p("Ada")}${p("Lund")}</w:tc><w:tc>${p("7")}</w:tc></w:tr><w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>${p("x")}</w:tc><w:tc>${p("8")}</w:tc></w:tr></w:tbl>`,
      ),
    );
    assert.deepEqual(blocksOf(read), [
      ["heading 1", "Harbour"],
      ["heading 2", "Rules"],
      ["paragraph", "Open daily."],
      ["item", "moor"],
      ["item", "ask"],
      ["item", "pay"],
      ["row 1", "| Ship | Berth |"],
      ["row 2", "| Ada Lund | 7 |"],
      ["row 2", "|  | 8 |"],
      ["paragraph", "Since May."],
    ]);
    assert.match(read.text, /^1\. moor\n {2}- ask\n2\. pay$/m);
    assert.equal(read.report.pages, null);
  });

  test("rows and cells in content controls, and text boxes in cells", async () => {
    const control = (content: string) => `<w:sdt><w:sdtContent>${content}</w:sdtContent></w:sdt>`;
    const box = `<w:p><w:r><w:t>Ada</w:t></w:r><w:r><w:drawing><w:txbxContent>${p("from Lund")}</w:txbxContent></w:drawing></w:r></w:p>`;
    const rows = `<w:tr><w:tc>${p("Ship")}</w:tc></w:tr>${control(`<w:tr>${control(`<w:tc>${box}</w:tc>`)}</w:tr>`)}`;
    const read = await it.read("a.docx", docx(`<w:tbl>${rows}</w:tbl>`));
    assert.deepEqual(
      blocksOf(read).map(([, text]) => text),
      ["| Ship |", "| Ada from Lund |", "Since May."],
    );
  });

  test("the reading of a word of Japanese is not read with the word", async () => {
    const run = (text: string) => `<w:r><w:t>${text}</w:t></w:r>`;
    const ruby = `<w:r><w:ruby><w:rubyPr/><w:rt>${run("かんじ")}</w:rt><w:rubyBase>${run("漢字")}</w:rubyBase></w:ruby></w:r>`;
    const read = await it.read("a.docx", docx(`<w:p>${ruby}${run("を読む。")}</w:p>`));
    assert.deepEqual(blocksOf(read)[0], ["paragraph", "漢字を読む。"]);
  });

  test("raised figures and fractions are told from the figures before them", async () => {
    const run = (text: string, raised = false) =>
      `<w:r>${raised ? '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>' : ""}<w:t xml:space="preserve">${text}</w:t></w:r>`;
    const math = (text: string) => `<m:r><m:t>${text}</m:t></m:r>`;
    const half = `<m:oMath><m:f><m:num>${math("1")}</m:num><m:den>${math("2")}</m:den></m:f></m:oMath>`;
    const mixed = half.replaceAll(">1<", ">3<").replaceAll(">2<", ">4<");
    const power = `<m:oMath><m:sSup><m:e>${math("10")}</m:e><m:sup>${math("6")}</m:sup></m:sSup></m:oMath>`;
    const read = await it.read(
      "a.docx",
      docx(
        `<w:p>${run("The 1")}${run("st", true)}${run(" has 10")}${run("3", true)}${run(" m")}${run("2", true)}${run(", ")}${half}${run(" of ")}${power}${run(" or 2")}${mixed}</w:p>`,
      ),
    );
    assert.deepEqual(blocksOf(read)[0], ["paragraph", "The 1st has 10^3 m², 1/2 of 10^6 or 2 3/4"]);
  });

  test("pages are those that Word marked", async () => {
    const mark = "<w:r><w:lastRenderedPageBreak/><w:t>on the second page.</w:t></w:r>";
    const read = await it.read(
      "a.docx",
      docx(
        `${p("First.")}<w:p><w:r><w:footnoteReference w:id="1"/></w:r></w:p><w:p><w:r><w:t>Begun </w:t></w:r>${mark}</w:p>${p("Third.")}`,
      ),
    );
    assert.deepEqual(
      read.blocks.map(({ start, end, place }) => [read.text.slice(start, end), place.page, place.last_page]),
      [
        ["First.", 1, 1],
        ["Begun on the second page.", 1, 2],
        ["Third.", 2, 2],
        ["Since May.", 1, 1],
      ],
    );
    assert.equal(read.report.pages?.count, 2);
  });
});

test("PowerPoint: slides are pages, titles headings; numbers and dates of slides are left out", async () => {
  const shape = (type: string, ...texts: string[]) =>
    `<p:sp><p:nvSpPr><p:nvPr><p:ph${type && ` type="${type}"`}/></p:nvPr></p:nvSpPr><p:txBody>${texts.map((text) => `<a:p><a:r><a:t>${text}</a:t></a:r></a:p>`).join("")}</p:txBody></p:sp>`;
  const table = `<p:graphicFrame><a:graphic><a:graphicData><a:tbl>${[
    ["Ship", "Berth"],
    ["Ada", "7"],
  ]
    .map(
      (row) =>
        `<a:tr>${row.map((cell) => `<a:tc><a:txBody><a:p><a:r><a:t>${cell}</a:t></a:r></a:p></a:txBody></a:tc>`).join("")}</a:tr>`,
    )
    .join("")}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>`;
  const read = await it.read(
    "a.pptx",
    pptx([shape("", "first", "second") + shape("title", "Harbour") + shape("sldNum", "1"), table]),
  );
  assert.deepEqual(blocksOf(read), [
    ["heading 2", "Harbour"],
    ["item", "first"],
    ["item", "second"],
    ["row 1", "| Ship | Berth |"],
    ["row 2", "| Ada | 7 |"],
  ]);
  assert.deepEqual(
    read.blocks.map((block) => block.place.page),
    [1, 1, 1, 2, 2],
  );
  assert.equal(read.report.pages?.count, 2);
});

test("Excel: sheets are pages; dates, percentages and sums as people see them; hidden sheets are named", async () => {
  const rows =
    '<row r="1"><c r="B1" t="s"><v>0</v></c></row>' +
    '<row r="3"><c r="B3" t="inlineStr"><is><t>Day</t></is></c><c r="C3" t="inlineStr"><is><t>Share</t></is></c><c r="D3" t="inlineStr"><is><t>Sum</t></is></c></row>' +
    '<row r="4"><c r="B4" s="1"><v>45292</v></c><c r="C4" s="2"><v>0.125</v></c><c r="D4"><f>0.1+0.2</f><v>0.30000000000000004</v></c></row>' +
    '<row r="5"><c r="B5" s="3"><v>45292.75</v></c><c r="D5" t="b"><v>1</v></c></row>';
  const read = await it.read(
    "a.xlsx",
    xlsx(
      [
        { name: "Fees", rows },
        { name: "Old", rows, state: "hidden" },
      ],
      ["All &lt;fees&gt;"],
    ),
  );
  assert.deepEqual(blocksOf(read), [
    ["heading 2", "Fees"],
    ["paragraph", "All \\<fees>"],
    ["row 1", "| Day | Share | Sum |"],
    ["row 2", "| 2024-01-01 | 12.5 % | 0.3 |"],
    ["row 2", "| 2024-01-01 18:00 |  | TRUE |"],
  ]);
  assert.deepEqual(
    read.report.warnings.map(({ code }) => code),
    ["sheets_hidden", "little_text"],
  );
});

test("Excel: numbers are shown as their formats tell, whatever the formats say beside it", async () => {
  const shown: [number, string, string][] = [
    [1.5, "[h]:mm", "36:00"],
    [1.5, "[hh]:mm:ss", "36:00"],
    [0.0625, "[mm]:ss", "90:00"],
    [45_352, "mmm", "March"],
    [45_352, "mmmm", "March"],
    [1067, "00000", "01067"],
    [1234.5, "#,##0.00 _D_i_n_.", "1234.50"],
    [14.5, "[$£-809]#,##0.00", "£14.50"],
    [-14.5, "[$£-809]#,##0.00;[Red]-[$£-809]#,##0.00", "-£14.50"],
    [795, '_-* #,##0\\ "€"_-;-* #,##0\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', "795 €"],
    [-5, '#,##0.00\\ "€";[Red]\\-#,##0.00\\ "€"', "-5.00 €"],
    [-5, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "-$5.00"],
    [0, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "0"],
    [0, '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', "0"],
    [1.256, "$#,##0.00_);($#,##0.00)", "$1.256"],
    [4, '0" of; 5"', "4 of; 5"],
    [0, '0;-0;"none"', "none"],
    [12, "0 \\k\\g", "12 kg"],
    [1_200_000, '0.0,,"M"', "1.2M"],
    [150, '[>100]"over "0;0', "over 150"],
    [1.5, "# ?/?", "1.5"],
    [1.5e30, "0.00E+00", "1.5e+30"],
    [7, "General", "7"],
    [3.25, "[Magenta]0.00", "3.25"],
    [3.25, '[>100]"days; "0* ;0.00', "3.25"],
    [45_292, '[$-407]d. mmmm yyyy" (day)"', "2024-01-01"],
    [0.5, "h:mm AM/PM", "12:00"],
  ];
  const formats = shown.map(([, format]) => format);
  const rows = shown.map(([value], i) => `<row r="${i + 1}"><c s="${i + 4}"><v>${value}</v></c><c><v>1</v></c></row>`);
  const read = await it.read("a.xlsx", xlsx([{ name: "Fees", rows: rows.join("") }], [], formats));
  assert.deepEqual(
    blocksOf(read)
      .slice(1)
      .map(([, text]) => text),
    shown.map(([, , text]) => `| ${text} | 1 |`),
  );
});

test("EPUB: chapters are pages, with places in their files; the contents page is left out", async () => {
  const chapters = ["<h1>One</h1><p>The first &eacute;lan.</p>", "<h1>Two</h1><p>The second.</p>"];
  const read = await it.read("a.epub", epub(chapters));
  assert.deepEqual(blocksOf(read), [
    ["heading 1", "One"],
    ["paragraph", "The first élan."],
    ["heading 1", "Two"],
    ["paragraph", "The second."],
  ]);
  assert.deepEqual(
    read.blocks.map((block) => block.place.page),
    [1, 1, 2, 2],
  );
});

test("e-mail: who, when, what; attachments are named", async () => {
  const mail = [
    "From: =?utf-8?q?Ada_L=C3=BCnd?= <ada@example.com>",
    "To: bo@example.com",
    "Subject: Harbour =?iso-8859-1?Q?gr=F6=DFe?=",
    "Date: Mon, 4 May 2026 12:00:00 +0000",
    "MIME-Version: 1.0",
    'Content-Type: multipart/mixed; boundary="b"',
    "",
    "--b",
    "Content-Type: text/plain; charset=utf-8",
    "Content-Transfer-Encoding: quoted-printable",
    "",
    "The harbour opens =",
    "at six=E2=80=A6",
    "",
    "Yours",
    "--b",
    'Content-Type: application/pdf; name="plan.pdf"',
    'Content-Disposition: attachment; filename="plan.pdf"',
    "Content-Transfer-Encoding: base64",
    "",
    "JVBERi0=",
    "--b--",
  ].join("\r\n");
  const read = await it.read("mail", mail);
  assert.equal(read.format, "email");
  assert.match(
    read.text,
    /^# Harbour größe\n\nFrom: Ada Lünd \\?<ada@example.com>\n\nTo: bo@example.com\n\nDate: [^\n]+\n\nThe harbour opens at six…\n\nYours\n$/,
  );
  assert.match(read.report.warnings[0]!.message, /plan\.pdf/);
});

test("the body of an e-mail has its lists, tables and keys, and no marks of quotation", async () => {
  const body = [
    "Ann wrote:",
    "> The gate is",
    "> shut.",
    "Two things:",
    "- bring boots",
    "- bring a torch",
    "",
    "Quay | 3 May",
    "Mole | 5 May",
    "",
    "Call: 771",
    "Pay: at once",
  ];
  const mail = ["From: a@example.com", "To: b@example.com", "Subject: Gate", "", ...body].join("\r\n");
  assert.deepEqual(blocksOf(await it.read("mail.eml", mail)).slice(3), [
    ["paragraph", "Ann wrote:"],
    ["paragraph", "The gate is shut."],
    ["paragraph", "Two things:"],
    ["item", "bring boots"],
    ["item", "bring a torch"],
    ["row 1", "| Quay | 3 May |"],
    ["row 2", "| Mole | 5 May |"],
    ["paragraph", "Call: 771"],
    ["paragraph", "Pay: at once"],
  ]);
});

describe("JSON", () => {
  test("lists of flat objects are tables, the rest is named, each with its place", async () => {
    const json =
      '{ "site": "Harbour", "open": true, "ships": [ { "name": "A\\u00dfa", "berth": 7 }, { "name": "Bo", "crew": null } ], "rules": { "moor": ["ask", "pay"] } }';
    const read = await it.read("a.json", json);
    assert.deepEqual(blocksOf(read), [
      ["paragraph", "site: Harbour"],
      ["paragraph", "open: true"],
      ["heading 1", "ships"],
      ["row 1", "| name | berth | crew |"],
      ["row 2", "| Aßa | 7 |  |"],
      ["row 2", "| Bo |  |  |"],
      ["heading 1", "rules"],
      ["heading 2", "moor"],
      ["item", "ask"],
      ["item", "pay"],
    ]);
    const harbour = read.blocks[0]!;
    assert.match(json.slice(harbour.place.start, harbour.place.end), /site.*Harbour/);
  });

  test("a property stands under the heading of its own object, whatever comes before it", async () => {
    const text = "It was built of oak and larch. ".repeat(4).trim();
    const ships = [
      { name: "Ada", price: { eur: 3 }, crew: 7 },
      { built: text, price: { eur: 4 } },
      { open: true, price: { eur: 5 } },
    ];
    const blocks = [
      ["heading 1", "name: Ada"],
      ["paragraph", "name: Ada"],
      ["paragraph", "crew: 7"],
      ["heading 2", "price"],
      ["paragraph", "eur: 3"],
      ["heading 1", "2"],
      ["paragraph", `built: ${text}`],
      ["heading 2", "price"],
      ["paragraph", "eur: 4"],
      ["heading 1", "3"],
      ["paragraph", "open: true"],
      ["heading 2", "price"],
      ["paragraph", "eur: 5"],
    ];
    const read = await it.read("ships.json", JSON.stringify(ships));
    assert.deepEqual(blocksOf(read), blocks);
    const lines = await it.read("ships.jsonl", ships.map((one) => JSON.stringify(one)).join("\n"));
    assert.deepEqual(blocksOf(lines), blocks);
    const site = {
      address: { city: "Tarnby" },
      phone: "123",
      ships: ships.slice(0, 1),
      notes: ["dry", { flat: true }],
    };
    assert.deepEqual(blocksOf(await it.read("site.json", JSON.stringify(site))), [
      ["paragraph", "phone: 123"],
      ["heading 1", "address"],
      ["paragraph", "city: Tarnby"],
      ["heading 1", "ships"],
      ["heading 2", "name: Ada"],
      ["paragraph", "name: Ada"],
      ["paragraph", "crew: 7"],
      ["heading 3", "price"],
      ["paragraph", "eur: 3"],
      ["heading 1", "notes"],
      ["item", "dry"],
      ["paragraph", "flat: true"],
    ]);
    const json = JSON.stringify(ships);
    assert.deepEqual(
      read.blocks.slice(0, 3).map(({ place }) => json.slice(place.start, place.end)),
      ['name":"Ada', 'name":"Ada', 'crew":7'],
    );
  });

  test("a value that names another record of the list is studied, and is no line of a table of contents", async () => {
    const staff = [
      { name: "Ada", reports: ["Bo", "Cy"] },
      { name: "Bo", reports: ["Cy"] },
      { name: "Cy", reports: ["Ada"] },
    ];
    const read = await it.read("staff.json", JSON.stringify(staff));
    const passages = passagesOf([{ id: "document_staff", name: "staff.json", ...read, media_type: read.mediaType }]);
    assert.deepEqual(
      passages.flatMap(({ units }) => units.filter(({ type }) => type === "item").map(({ text }) => text)),
      ["Bo", "Cy", "Cy", "Ada"],
    );
  });

  test("a record that begins with a question has the question as its heading, as it is asked", async () => {
    const faq = [
      { question: "How long is the notice period?", answer: "90 days.", tags: ["contract"] },
      { question: "Who signs?", answer: "The head.", tags: ["form"] },
      { question: "ما هي مدة الإجازة؟", answer: "عشرون يوما.", tags: ["leave"] },
    ];
    const read = await it.read("faq.json", JSON.stringify(faq));
    const passages = passagesOf([{ id: "document_faq", name: "faq.json", ...read, media_type: read.mediaType }]);
    const asked = passages.flatMap((passage) =>
      targetsOf(passage, []).flatMap(({ kind, before }) => (kind === "asked" ? [before] : [])),
    );
    assert.equal(new Set(asked).size, asked.length);
    for (const { question } of faq) assert.ok(asked.includes(question), question);
  });

  test("the place of a chunk holds all of its values, in whatever order the file has them", async () => {
    const json = '{"address":{"city":"Tarnby"},"phone":"123"}';
    const [chunk] = (await it.read("site.json", json)).chunks;
    assert.match(json.slice(chunk!.place.start, chunk!.place.end), /^address.*Tarnby.*phone.*123$/);
  });

  test("JSON Lines are one list", async () => {
    const read = await it.read("rows", '{"q":"When?","a":"Six."}\n\n{"q":"Where?","a":"Here."}\n');
    assert.equal(read.format, "jsonl");
    assert.equal(read.text, "| q | a |\n| --- | --- |\n| When? | Six. |\n| Where? | Here. |\n");
    await assert.rejects(it.read("a.json", '{"q":1}\n{"q":2}\n'), /JSON Lines, not JSON/);
  });
});

describe("PDF", () => {
  const words =
    "The harbour master keeps the register of all vessels that enter or leave the outer basin during the night shift and".split(
      " ",
    );
  const line = (n: number, length = 9) => Array.from({ length }, (_, i) => words[(n * 5 + i) % words.length]).join(" ");
  const prose = (from: number, count: number, length?: number) =>
    Array.from({ length: count }, (_, i) => line(from + i, length));

  test("running headers and footers go, a word broken at a line's end is whole, pages are counted", async () => {
    const page = (n: number): PdfText[] => [
      { text: `Harbour Rules, Release ${n}`, x: 72, y: 760 },
      ...lines([`Chapter ${n}`], 72, 700, { size: 16, font: "Helvetica-Bold" }),
      ...lines(
        [...prose(n, 4), "all vessels must be regis-", "tered with the well-", `known office, rule number ${n}.`],
        72,
        670,
      ),
      ...lines([line(n + 3), "a well-known office."], 72, 560),
      { text: `Page ${n} of 6`, x: 280, y: 40 },
    ];
    const read = await it.read("a.pdf", pdf([1, 2, 3, 4, 5, 6].map(page)));
    assert.equal(read.report.pages?.count, 6);
    assert.ok(read.report.pages.characters.every((count) => count > 300));
    assert.doesNotMatch(read.text, /Release|of 6/);
    assert.equal(read.text.match(/registered with the well-known office, rule number \d\./g)?.length, 6);
    assert.deepEqual(
      read.blocks.slice(0, 3).map(({ type, level, place }) => [type, level, place.page]),
      [
        ["heading", 1, 1],
        ["paragraph", 0, 1],
        ["paragraph", 0, 1],
      ],
    );
    const last = read.blocks.at(-1)!;
    assert.deepEqual([last.place.page, last.place.last_page], [6, 6]);
  });

  test("two columns are read one after the other, what spans them where it stands", async () => {
    const left = prose(0, 20, 6).map((text) => text.slice(0, 44));
    const right = prose(40, 20, 6).map((text) => text.slice(0, 44));
    const read = await it.read(
      "a.pdf",
      pdf([
        [
          ...lines(["Two columns"], 72, 740, { size: 18 }),
          ...lines(
            [
              "An abstract that runs over the whole width of the page, from the left edge to the right one, in one line.",
            ],
            72,
            710,
          ),
          ...lines(["LEFT", ...left, "LEFT end."], 72, 680),
          ...lines(["RIGHT", ...right, "RIGHT end."], 330, 680),
        ],
      ]),
    );
    const order = ["Two columns", "An abstract", "LEFT", "LEFT end.", "RIGHT", "RIGHT end."].map((text) =>
      read.text.indexOf(text),
    );
    assert.deepEqual(
      order,
      order.toSorted((a, b) => a - b),
    );
    assert.ok(order.every((at) => at >= 0));
    assert.ok(read.blocks.every((block) => block.type !== "row"));
  });

  test("a table is rows, with cells of several lines whole", async () => {
    const row = (y: number, ...cells: string[]): PdfText[] => cells.map((text, i) => ({ text, x: 72 + i * 160, y }));
    const read = await it.read(
      "a.pdf",
      pdf([
        [
          ...lines(prose(0, 4, 16), 72, 740),
          ...row(670, "Ship", "Berth", "Remark"),
          ...row(656, "Ada Lund", "7", "comes at night"),
          ...row(644, "", "", "and leaves early"),
          ...row(630, "Bo", "8", "none"),
          ...row(616, "Cleo", "12", "none"),
          ...lines(prose(9, 4, 16), 72, 580),
        ].filter(({ text }) => text !== ""),
      ]),
    );
    assert.deepEqual(
      blocksOf(read).filter(([type]) => type.startsWith("row")),
      [
        ["row 1", "| Ship | Berth | Remark |"],
        ["row 2", "| Ada Lund | 7 | comes at night and leaves early |"],
        ["row 2", "| Bo | 8 | none |"],
        ["row 2", "| Cleo | 12 | none |"],
      ],
    );
  });

  test("listings keep their lines, items their marks", async () => {
    const read = await it.read(
      "a.pdf",
      pdf([
        [
          ...lines(prose(0, 4), 72, 740),
          ...lines(["if open:", "    moor()"], 72, 660, { font: "Courier" }).map((one, i) =>
            i === 1 ? { ...one, text: "moor()", x: 96 } : one,
          ),
          ...lines(
            ["\u2022 ask first", "\u2022 then pay"].map((text) => text.replace("\u2022", "\x95")),
            72,
            600,
          ),
        ],
      ]),
    );
    assert.deepEqual(blocksOf(read).slice(1), [
      ["code", "if open:\n    moor()"],
      ["item", "ask first"],
      ["item", "then pay"],
    ]);
  });

  test("a paragraph that goes on on the next page is one, on both pages", async () => {
    const read = await it.read(
      "a.pdf",
      pdf([lines(prose(0, 5), 72, 700), lines(["and so it ends here, on the next page, at last."], 72, 700)]),
    );
    assert.equal(read.blocks.length, 1);
    assert.deepEqual([read.blocks[0]!.place.page, read.blocks[0]!.place.last_page], [1, 2]);
  });

  test("pages without text are named", async () => {
    const read = await it.read("a.pdf", pdf([lines(prose(0, 5), 72, 700), [], lines(prose(9, 5), 72, 700), []]));
    assert.deepEqual(read.report.pages?.without_text, [2, 4]);
    assert.deepEqual(
      read.report.warnings.map(({ code, message }) => [code, message]),
      [["pages_without_text", "2 of 4 pages have no text: 2, 4"]],
    );
  });

  test("a scanned page is read where tesseract is installed, from its own picture, and marked", async () => {
    // In place of tesseract: says how large the picture is that it was given, and its first pixel.
    const folder = mkdtempSync(join(tmpdir(), "plumbline-tesseract-"));
    writeFileSync(
      join(folder, "tesseract"),
      `#!/bin/sh\n[ "$1" = --list-langs ] && { echo deu; echo eng; echo osd; exit; }\necho "Haupt-"; echo "und languages $4 pic-"\nhead -c 11 | tr '\\n' ' ' | sed 's/^/ture /'\n`,
      { mode: 0o755 },
    );
    const path = process.env.PATH;
    process.env.PATH = `${folder}:${path}`;
    try {
      const grey = new Uint8Array(300 * 200).fill(0x41);
      const read = await it.read("a.pdf", scan(300, 200, grey));
      assert.equal(read.text.trim(), "Haupt- und languages deu+eng picture P5 300 200");
      assert.deepEqual(
        read.report.warnings.map(({ code }) => code),
        ["pages_recognised", "little_text"],
      );
      assert.deepEqual(read.report.pages?.without_text, []);
      assert.equal(read.blocks[0]!.place.page, 1);
    } finally {
      process.env.PATH = path;
      rmSync(folder, { recursive: true });
    }
    const error = await it.read("a.pdf", scan(300, 200, new Uint8Array(300 * 200))).catch((cause) => cause);
    // On a machine that has the real one it finds nothing on a black page.
    assert.equal(error.code, "document_no_text");
  });
});

describe("the layout of PDF pages", () => {
  const item = (text: string, y: number, size = 10): TextItem => ({
    text,
    x: 72,
    y,
    width: text.length * size * 0.5,
    size,
    font: "f",
    fixedWidth: false,
    rightToLeft: false,
  });
  const words = (elements: readonly Element[]): string[] =>
    elements.map((element) => ("pieces" in element ? wordsOf(element.pieces) : "table"));
  const body = (n: number): TextItem[] =>
    Array.from({ length: 6 }, (_, i) =>
      item(`Page ${n} has a line ${i} of text that is as long as the others are.`, 100 + i * 12),
    );
  const page = (...items: TextItem[]) => ({ width: 612, height: 792, items });

  test("footnotes follow their chapter where chapters are known, else their page; their marks are no part of words", () => {
    const pages = [1, 2, 3].map((n) => {
      const mark = { ...item(String(n), 168, 7), x: 72 + 70 * 5 };
      return page(
        ...body(n),
        item(
          `A sentence ${n} that has a mark behind its last word, this${n === 1 ? " one" : "."}`.padEnd(70, "x"),
          172,
        ),
        mark,
        item(`${n} Note on ${["ships", "berths", "locks"][n - 1]}.`, 700, 8),
      );
    });
    const noted = (chapters: ReadonlySet<number> | null) =>
      words(layOut(pages, chapters).elements).flatMap(
        (text) =>
          /^(\d) Note|^Page (\d)/
            .exec(text)
            ?.slice(1)
            .filter(Boolean)
            .map((n) => (text.includes("Note") ? `note ${n}` : `page ${n}`)) ?? [],
      );
    assert.deepEqual(noted(null), ["page 1", "note 1", "page 2", "note 2", "page 3", "note 3"]);
    assert.deepEqual(noted(new Set([0, 2])), ["page 1", "page 2", "note 1", "note 2", "page 3", "note 3"]);
    assert.match(words(layOut(pages, null).elements).join(), /onex+ 1/);
  });

  test("what recurs at the top of neighbouring pages is no text; what recurs far apart is", () => {
    const pages = Array.from({ length: 30 }, (_, n) =>
      page(item(`${n + 1} Rules`, 40), ...(n % 9 === 4 ? [item("Released in May.", 60)] : []), ...body(n)),
    );
    const text = words(layOut(pages, null).elements).join("\n");
    assert.doesNotMatch(text, /Rules/);
    assert.equal(text.match(/Released in May/g)?.length, 3);
  });

  test("entries of a table of contents are lines of their own, without their dots, and no table", () => {
    const led = ["1.1 Scope", "1.2 Terms", "1.3 Fees"].map((text, i) =>
      item(`${text} . . . . . . . . . ${i + 3}`, 112 + i * 12),
    );
    const chapter = (text: string, y: number, n: string) => [item(text, y), { ...item(n, y), x: 500 }];
    const { elements } = layOut([page(...chapter("1 About", 100, "3"), ...led, ...chapter("2 Ships", 148, "9"))], null);
    assert.deepEqual(
      words(elements).map((text) => text.replace(/\s+/g, " ").trim()),
      ["1 About 3", "1.1 Scope 3", "1.2 Terms 4", "1.3 Fees 5", "2 Ships 9"],
    );
  });

  const laidOut = (...texts: string[]) =>
    textsOf(layOut([page(...texts.map((text, i) => item(text, 100 + i * 12)))], null).elements);

  test("a number, a letter or a dash that was wrapped to the start of a line begins no item", () => {
    const first = "This line is as long as a line of the page can be, and then ends";
    const wrapped = [
      ["Die Ausgabe ist an jedem zweiten Tag der Woche,", "z. B. am Montag, bis zu drei Stunden offen."],
      ["The order of the lamps is told by the maker in", "p. 12 of the book that lies beside the lamp."],
      ["Der Vertrag beginnt mit der Unterschrift beider Seiten am", "3. Mai 2024 und endet nach einem Jahr."],
      ["released under this License and any conditions added under section", "7. This requirement modifies it."],
      ["The lamp that the keeper lit at the end of the day", "– it was red – could be seen from afar."],
    ];
    for (const lines of wrapped) assert.deepEqual(laidOut(first, ...lines), [`paragraph: ${first} ${lines.join(" ")}`]);
    assert.deepEqual(laidOut("z. B. am Montag"), ["paragraph: z. B. am Montag"]);
  });

  test("an item begins within a paragraph where a sentence ends, and where a list goes on", () => {
    assert.deepEqual(
      laidOut(
        "Whoever enters by the northern door after dark has to bring:",
        "1. a lamp whose glass is whole and which burns until the morning of",
        "3. May or longer",
        "2. a coat, of which the keeper has two: one of wool as well as these",
        "a) one of linen which is long enough to reach below the knee",
        "b) one of leather",
        "3. a key. Or,",
        "• a bell",
        "Without them",
        "- he waits, or",
        "- he leaves",
      ),
      [
        "paragraph: Whoever enters by the northern door after dark has to bring:",
        "item: a lamp whose glass is whole and which burns until the morning of 3. May or longer",
        "item: a coat, of which the keeper has two: one of wool as well as these",
        "item: one of linen which is long enough to reach below the knee",
        "item: one of leather",
        "item: a key. Or,",
        "item: a bell Without them",
        "item: he waits, or",
        "item: he leaves",
      ],
    );
  });

  test("a hyphen before a conjunction stands for the rest of a word", () => {
    const first = "Die Ordnung gilt im ganzen Haus und in allen Anlagen, auch den";
    assert.deepEqual(laidOut(first, "offenen, sowie an den Haupt-", "und Nebenanlagen und im Hof."), [
      `paragraph: ${first} offenen, sowie an den Haupt- und Nebenanlagen und im Hof.`,
    ]);
    assert.deepEqual(
      laidOut("The keeper has a plan for the short-", "and long-term, which he has writ-", "ten down."),
      ["paragraph: The keeper has a plan for the short- and long-term, which he has written down."],
    );
    assert.deepEqual(laidOut("Der Ausweis gilt für alle Famili-", "en im Ort und ihre Gäste."), [
      "paragraph: Der Ausweis gilt für alle Familien im Ort und ihre Gäste.",
    ]);
  });

  test("letters of scripts without spaces are joined without one, lines that run from right to left are read so", () => {
    const chinese = [item("港口早上六点开放。船只在外面等待，直到船", 100), item("闸打开。", 112)];
    assert.deepEqual(words(layOut([page(...chinese)], null).elements), [
      "港口早上六点开放。船只在外面等待，直到船闸打开。",
    ]);
    const hebrew = [
      { ...item("הנמל", 100), x: 300, width: 40, rightToLeft: true },
      { ...item("נפתח", 100), x: 250, width: 40, rightToLeft: true },
    ];
    assert.deepEqual(words(layOut([page(...hebrew)], null).elements), ["הנמל נפתח"]);
  });
});
