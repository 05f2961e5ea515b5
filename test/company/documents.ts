// Facts → documents, as an organisation writes them: prose, lists, tables, price lists, e-mails, web pages, contracts.
import type { Draw } from "./draw.ts";
import { policies } from "./policies.ts";
import { attributeOf, type Drawn, type Fact, fill, type Thing } from "./things.ts";

export interface CompanyDocument {
  name: string;
  media_type: "text/markdown" | "text/csv" | "text/plain" | "text/html" | "message/rfc822";
  text: string;
}

/** Sentences that say nothing one could ask for. */
const asides: Partial<Record<Thing["kind"], string[]>> = {
  company: ["Whoever visits us is welcome to look around.", "Tradition and curiosity go together here."],
  site: [
    "Visitors are asked to wear sturdy shoes.",
    "The canteen is open to guests.",
    "Parking is scarce, so please come by bus.",
  ],
  product: [
    "Customers praise how quietly it does its work.",
    "Spare parts are always in stock.",
    "It has become a favourite of the trade.",
  ],
  person: [
    "We are glad about this and hope you will say hello.",
    "Please make the new colleague feel at home.",
    "A warm welcome from all of us.",
  ],
  contract: ["Both sides have read this document and agree with it.", "Changes must be made in writing."],
  project: ["The steering group has approved the plan.", "Everybody involved is confident."],
};

/** Fills in where each fact stands. */
export function documentsOf(draw: Draw, drawn: Drawn): CompanyDocument[] {
  const out: CompanyDocument[] = [];
  const write = (name: string, type: CompanyDocument["media_type"], facts: readonly Fact[], text: string): void => {
    for (const fact of facts) fact.document = name;
    out.push({ name, media_type: type, text });
  };
  const of = (kind: Thing["kind"]): Thing[] => drawn.things.filter((thing) => thing.kind === kind);
  const aside = (kind: Thing["kind"]): string => draw.one(asides[kind]!);
  const says = (fact: Fact): string => {
    const template = draw.one(attributeOf(fact).says);
    fact.statement = fill(template, { e: fact.entity, v: fact.value, c: drawn.company });
    return fact.statement;
  };
  /** Sentences one behind the other: «it» where the thing was named just before. */
  const told = (facts: readonly Fact[]): string[] =>
    facts.map((fact, at) => {
      const sentence = says(fact);
      const named = `${fact.entity.charAt(0).toUpperCase()}${fact.entity.slice(1)} `;
      if (at > 0 && sentence.startsWith(named) && /site|product|project/.test(fact.kind) && draw.random() < 0.4)
        fact.statement = `It ${sentence.slice(named.length)}`;
      return fact.statement;
    });
  const labelled = (fact: Fact): [label: string, value: string] => {
    const { label } = attributeOf(fact);
    fact.statement = `${label}: ${fact.value}`;
    return [label, fact.value];
  };

  for (const { facts } of of("company")) {
    const [figures, prose] = parted(facts, ({ attribute }) => /employees|export_share/.test(attribute));
    const parts = [
      `# ${drawn.company}`,
      `${drawn.company} makes ${drawn.trade}. ${told(prose).join(" ")}`,
      aside("company"),
      ...(figures.length > 0 ? ["## Figures", markdownTable(["Figure", "Value"], figures.map(labelled))] : []),
    ];
    write("company.md", "text/markdown", facts, parts.join("\n\n"));
  }
  for (const { title, at, facts } of of("site")) {
    const slug = slugOf(title);
    const [listed, prose] = parted(facts, (_, index) => index % 2 === 1);
    if (at % 3 === 0) {
      const list = listed.map((fact) => `- ${labelled(fact).join(": ")}\n`).join("");
      const text = `# ${title}\n\n${told(prose).join(" ")}\n\n${aside("site")}\n\n${list}`;
      write(`site-${slug}.md`, "text/markdown", facts, text);
    } else if (at % 3 === 1) {
      const text = `${title.toUpperCase()}\n\n${wrap(`${told(facts).join(" ")} ${aside("site")}`)}\n`;
      write(`site-${slug}.txt`, "text/plain", facts, text);
    } else {
      const text = html(title, [...told(prose), aside("site")], listed.map(labelled));
      write(`site-${slug}.html`, "text/html", facts, text);
    }
  }
  const [pages, listed] = parted(of("product"), ({ facts }) => facts[0]?.attribute === "designer");
  for (const [noun, things] of Map.groupBy(listed, ({ title }) => title.split(" ").at(-1)!)) {
    const facts = things.flatMap((thing) => thing.facts);
    write(`price-list-${noun}.csv`, "text/csv", facts, priceList(things));
  }
  for (const { title, facts } of pages) {
    const text = html(title, [...told(facts), aside("product")], []);
    write(`${slugOf(title)}.html`, "text/html", facts, text);
  }
  for (const { title, facts } of of("person")) {
    const text = mail(drawn.company, title, [wrap(told(facts).join(" ")), aside("person")]);
    write(`welcome-${slugOf(title)}.eml`, "message/rfc822", facts, text);
  }
  for (const { title, facts } of of("contract")) {
    const sections = facts.map((fact, at) => `${at + 1}. ${attributeOf(fact).label}\n\n${wrap(says(fact))}\n`);
    const text = `AGREEMENT WITH ${title.toUpperCase()}\n\n${sections.join("\n")}\n${aside("contract")}\n`;
    write(`agreement-${slugOf(title)}.txt`, "text/plain", facts, text);
  }
  for (const { title, at, facts } of of("policy")) {
    const { intro } = policies[at]!;
    const rules = facts.map((fact) =>
      at % 2 === 0 ? `- ${says(fact)}\n` : `## ${attributeOf(fact).label}\n\n${says(fact)}\n`,
    );
    const text = `# ${title}\n\n${intro}\n\n${rules.join(at % 2 === 0 ? "" : "\n")}`;
    write(`${slugOf(title)}.md`, "text/markdown", facts, text);
  }
  for (const { title, at, facts } of of("project")) {
    const [rows, prose] = at % 2 === 0 ? [facts, []] : [[], facts];
    const text = html(title, [...told(prose), aside("project")], rows.map(labelled));
    write(`${slugOf(title)}.html`, "text/html", facts, text);
  }
  const departments = of("department");
  const columns = departments[0]?.facts.map((fact) => attributeOf(fact).label) ?? [];
  const rows = departments.map(({ title, facts }) => {
    const cells = [title, ...columns.map((_, at) => facts[at]?.value ?? "")];
    for (const fact of facts) fact.statement = `| ${cells.join(" | ")} |`;
    return cells;
  });
  if (departments.length > 0) {
    const text = `# Departments\n\n${markdownTable(["Department", ...columns], rows)}`;
    const facts = departments.flatMap((thing) => thing.facts);
    write("departments.md", "text/markdown", facts, text);
  }
  return out;
}

const parted = <T>(all: readonly T[], first: (one: T, at: number) => boolean): [T[], T[]] => [
  all.filter(first),
  all.filter((one, at) => !first(one, at)),
];

const slugOf = (text: string): string => text.toLowerCase().replace(/[^a-z0-9]+/g, "-");

const markdownTable = (header: readonly string[], rows: readonly (readonly string[])[]): string =>
  [header, header.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |\n`).join("");

function wrap(text: string, width = 88): string {
  const lines = [""];
  for (const word of text.split(" "))
    if (`${lines.at(-1)} ${word}`.length > width) lines.push(word);
    else lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
  return lines.join("\n");
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

function html(title: string, sentences: readonly string[], rows: readonly (readonly [string, string])[]): string {
  const cells = rows.map(([label, value]) => `<tr><th>${escaped(label)}</th><td>${escaped(value)}</td></tr>\n`);
  return `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>${escaped(title)}</title></head>
<body>
<h1>${escaped(title)}</h1>
<p>${escaped(sentences.join(" "))}</p>
${cells.length === 0 ? "" : `<table>\n${cells.join("")}</table>\n`}</body>
</html>
`;
}

const units: Record<string, string> = { price: "EUR", weight: "kg", warranty: "months" };

/** Numbers alone in the cells, their units in the header. */
function priceList(things: readonly Thing[]): string {
  const columns = things[0]!.facts.map((fact) => ({ unit: units[fact.attribute], label: attributeOf(fact).label }));
  const header = ["Product", ...columns.map(({ unit, label }) => (unit ? `${label} (${unit})` : label))];
  const lines = things.map(({ title, facts }) => {
    const cells = columns.map(({ unit }, at) => (unit ? facts[at]?.value.split(" ")[0] : facts[at]?.value) ?? "");
    const line = [title, ...cells].join(",");
    facts.forEach((fact, at) => {
      fact.statement = line;
      if (columns[at]!.unit) fact.aliases = [...fact.aliases, cells[at]!];
    });
    return line;
  });
  return [header.join(","), ...lines, ""].join("\n");
}

function mail(company: string, title: string, paragraphs: readonly string[]): string {
  const host = `${slugOf(company)}.example`;
  return `From: Personnel <personnel@${host}>
To: Everybody <all@${host}>
Subject: Welcome, ${title}
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8

${["Dear all,", ...paragraphs, "Personnel"].join("\n\n")}
`;
}
