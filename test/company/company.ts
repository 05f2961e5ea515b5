// A fictional company, all of it drawn from a seed: documents in five formats, what is true in them, and questions about it in
// words that no document uses. No model can know any of it, and every answer is known exactly.
import { type CompanyDocument, documentsOf } from "./documents.ts";
import { Draw } from "./draw.ts";
import { attributeOf, drawThings, type Fact, fill, type Thing } from "./things.ts";

export type { CompanyDocument, Fact };

export interface Company {
  name: string;
  documents: CompanyDocument[];
  facts: Fact[];
  /** Answered by two facts: who or what is meant, and what is said of it. */
  multiHop: { question: string; facts: [Fact, Fact] }[];
  /** Of things there are and of things there are not: no document says it. */
  unanswerable: string[];
}

/** What leads from one thing to another, so that a question can speak of the second without its name. */
const hops: Record<string, string> = {
  "site manager": "the boss of {e}",
  "project lead": "the one who pulls the strings in {e}",
  "product designer": "the one who thought up {e}",
  "product made_at": "the works that turns out {e}",
};

const unsaid: Partial<Record<Fact["kind"], string[]>> = {
  company: ["What are the shares of {e} trading at?", "Which colour is the flag of {e}?"],
  site: ["How many parking spaces does {e} offer?", "Who painted the gates of {e}?"],
  product: ["Which colours can {e} be had in?", "How loud is {e} when it runs?"],
  person: ["What is the name of {e}'s dog?", "Where did {e} go to school?"],
  contract: ["On whose insurance do the lorries of {e} run?", "How old is the owner of {e}?"],
  project: ["What did the kick-off party of {e} cost?", "Which newspaper wrote about {e}?"],
  department: ["What do they drink in the breaks at {e}?", "Which songs are sung in {e}?"],
};

/** The same seed and number of facts (20 to 400) give the same company. */
export function makeCompany({ seed, facts: size }: { seed: number; facts: number }): Company {
  const draw = new Draw(seed);
  const drawn = drawThings(draw, size);
  const documents = documentsOf(draw, drawn);
  const facts = drawn.things.flatMap((thing) => thing.facts);
  return {
    name: drawn.company,
    documents,
    facts,
    multiHop: multiHop(facts),
    unanswerable: [...new Set([...neverSaid(drawn.things), ...ofNothing(draw, drawn.things)])],
  };
}

function multiHop(facts: readonly Fact[]): Company["multiHop"] {
  const ofEntity = Map.groupBy(facts, (fact) => fact.entity);
  return facts.flatMap((first) => {
    const hop = hops[`${first.kind} ${first.attribute}`];
    if (hop === undefined) return [];
    const meant = hop.replace("{e}", first.entity);
    return (ofEntity.get(first.value) ?? [])
      .filter((second) => hops[`${second.kind} ${second.attribute}`] === undefined)
      .map((second): Company["multiHop"][number] => ({
        question: fill(attributeOf(second).asks[0]!, { e: meant }),
        facts: [first, second],
      }));
  });
}

const neverSaid = (things: readonly Thing[]): string[] =>
  things.flatMap((thing) => {
    const asks = unsaid[thing.kind] ?? [];
    return asks.length === 0 ? [] : [fill(asks[thing.at % asks.length]!, { e: thing.said })];
  });

/** For every fifth thing, what could be asked of it if it had another name. */
function ofNothing(draw: Draw, things: readonly Thing[]): string[] {
  return things
    .filter(({ kind, facts }, at) => at % 5 === 0 && !/company|policy|department/.test(kind) && facts.length > 0)
    .map(({ kind, title, facts }) => {
      const name =
        kind === "person" ? draw.person() : title.replace(/(?<=^Project )\S+|^(?!Project )\S+/, () => draw.word());
      const ask = draw.one(attributeOf(draw.one(facts)).asks);
      return fill(ask, { e: kind === "product" ? `the ${name}` : name });
    });
}

export interface BenchmarkChoice {
  /** Questions per fact: rules of policies have two, other facts three. */
  wordings?: number;
  multiHop?: boolean;
  unanswerable?: boolean;
}

/** Rows as benchmarks/upload takes them, one JSON object a line. Wordings of one fact stay on one side of the split. */
export function benchmarkOf(
  company: Company,
  { wordings = 2, multiHop = false, unanswerable = false }: BenchmarkChoice = {},
): string {
  const cited = (...facts: Fact[]) => facts.map(({ document, statement }) => ({ document, quote: statement }));
  const answer = ({ value, aliases, type, tolerance, id }: Fact) => ({
    response: value,
    aliases,
    type,
    ...(tolerance === undefined ? {} : { tolerance }),
    cluster: id,
  });
  const rows = company.facts.flatMap((fact) =>
    fact.questions
      .slice(0, wordings)
      .map((instruction): object => ({ instruction, ...answer(fact), citations: cited(fact) })),
  );
  if (multiHop)
    for (const { question, facts } of company.multiHop)
      rows.push({ instruction: question, ...answer(facts[1]), citations: cited(...facts) });
  if (unanswerable)
    for (const instruction of company.unanswerable)
      rows.push({ instruction, response: "The documents do not say.", type: "refusal" });
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}
