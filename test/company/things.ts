// Which things a company of a given size has, and every fact about them.
import type { Draw, Value } from "./draw.ts";
import {
  type Attribute,
  company,
  contract,
  department,
  type KindName,
  people,
  product,
  productPage,
  project,
  site,
  type World,
} from "./kinds.ts";
import { policies } from "./policies.ts";

export interface Thing {
  kind: KindName;
  /** As a heading or a cell names it, and as it stands in a sentence. */
  title: string;
  said: string;
  /** Which of its kind it is. */
  at: number;
  facts: Fact[];
}

export interface Fact {
  id: string;
  kind: KindName;
  entity: string;
  attribute: string;
  value: string;
  aliases: string[];
  type: Value["type"];
  tolerance?: number;
  /** Name of the one document that says it, and the words it says it in. */
  document: string;
  statement: string;
  questions: string[];
  about: RegExp;
}

/** Things drawn before their facts are: some are the values of others. */
interface Planned {
  kind: KindName;
  at: number;
  attributes: readonly Attribute[];
  /** Its place among all: a smaller company has the first ones. */
  order: number;
}

const kinds: { kind: KindName; attributes: readonly Attribute[]; weight: number; most: number }[] = [
  { kind: "company", attributes: company, weight: 100, most: 1 },
  { kind: "site", attributes: site, weight: 7, most: 12 },
  { kind: "product", attributes: product, weight: 20, most: 40 },
  { kind: "product", attributes: productPage, weight: 8, most: 16 },
  { kind: "person", attributes: people, weight: 12, most: 20 },
  { kind: "contract", attributes: contract, weight: 9, most: 16 },
  { kind: "policy", attributes: [], weight: 8, most: policies.length },
  { kind: "project", attributes: project, weight: 6, most: 12 },
  { kind: "department", attributes: department, weight: 5, most: 8 },
];
const departments = ["Sales", "Purchasing", "Research", "Accounts", "Logistics", "Legal", "Marketing", "Personnel"];
const siteNouns = ["Works", "Yard", "Mill", "Depot", "Foundry"];
const trades = [
  { trade: "greenhouse equipment", nouns: ["heater", "sprinkler", "lamp", "fan"] },
  { trade: "beekeeping equipment", nouns: ["smoker", "extractor", "feeder", "hive"] },
  { trade: "bakery machines", nouns: ["mixer", "oven", "slicer", "prover"] },
  { trade: "workshop tools", nouns: ["winch", "press", "grinder", "pump"] },
];

export interface Drawn {
  company: string;
  trade: string;
  things: Thing[];
}

/** `size` facts in all. */
export function drawThings(draw: Draw, size: number): Drawn {
  const planned = plan(size);
  const { trade, nouns } = draw.one(trades);
  const companyName = `${draw.word()} ${draw.one(["Group", "Holding", "Industries", "Company"])}`;
  const world: World = {
    company: [companyName],
    site: [],
    product: [],
    person: [],
    contract: [],
    policy: [],
    project: [],
    department: [],
  };
  const names: Record<KindName, (at: number) => string> = {
    company: () => companyName,
    site: (at) => `${draw.word()} ${siteNouns[at % siteNouns.length]}`,
    product: (at) => `${draw.word()} ${nouns[at % nouns.length]}`,
    person: draw.person,
    contract: draw.firm,
    policy: (at) => policies[at]!.title,
    project: () => `Project ${draw.word()}`,
    department: (at) => departments[at]!,
  };
  for (const { kind, at } of planned) world[kind][at] ??= names[kind](at);
  const things = planned.map(({ kind, at, attributes }): Thing => {
    const title = world[kind][at]!;
    const said = saidOf(kind, title, companyName);
    const facts = attributes.map((attribute) => factOf(draw, world, { kind, at, said, attribute }));
    return { kind, title, said, at, facts };
  });
  return { company: companyName, trade, things };
}

function plan(size: number): Planned[] {
  const all = kinds
    .flatMap(({ kind, attributes, weight, most }) =>
      Array.from({ length: most }, (_, at) => ({
        kind,
        at,
        attributes: kind === "policy" ? policies[at]!.rules : attributes,
        order: (at + 0.5) / weight,
      })),
    )
    .sort((a, b) => a.order - b.order);
  let left = size;
  const chosen: Planned[] = [];
  for (const one of all) {
    if (left <= 0) break;
    chosen.push({ ...one, attributes: one.attributes.slice(0, left) });
    left -= one.attributes.length;
  }
  if (left > 0) throw new Error(`there are at most ${size - left} facts`);
  return chosen;
}

function saidOf(kind: KindName, title: string, companyName: string): string {
  if (kind === "policy") return companyName;
  if (kind === "product") return `the ${title}`;
  return kind === "department" ? `the ${title} department` : title;
}

function factOf(
  draw: Draw,
  world: World,
  { kind, at, said, attribute }: { kind: KindName; at: number; said: string; attribute: Attribute },
): Fact {
  const value = attribute.draw(draw, world, at);
  return {
    id: `${kind}-${at + 1}-${attribute.key}`,
    kind,
    entity: said,
    attribute: attribute.key,
    value: value.text,
    aliases: value.aliases,
    type: value.type,
    ...(value.tolerance === undefined ? {} : { tolerance: value.tolerance }),
    document: "",
    statement: "",
    questions: attribute.asks.map((ask) => fill(ask, { e: said })),
    about: attribute.about,
  };
}

/** «{e}» gives way to the thing; a sentence begins with a capital. */
export function fill(template: string, parts: Record<string, string>): string {
  const text = template.replace(/\{(\w)\}/g, (_, key: string) => parts[key]!);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What the fact is drawn from. */
export function attributeOf({ kind, id, attribute }: Fact): Attribute {
  const all: Record<KindName, Attribute[]> = {
    company,
    site,
    product: [...product, ...productPage],
    person: people,
    contract,
    policy: policies[Number(id.split("-")[1]) - 1]?.rules ?? [],
    project,
    department,
  };
  return all[kind].find(({ key }) => key === attribute)!;
}
