// Material that the prior calibrator is fitted on: the documents of a made-up brewery, paraphrased questions that they
// answer, and questions that they do not answer. All of it comes from one seed; none of it is in the demo or in any
// benchmark.
import { seeded } from "../base/statistics/random.ts";
import type { SnapshotDocument } from "../contract/run-folder.ts";

export interface PriorQuestion {
  question: string;
  /** The correct answer; null if the documents do not contain it. Any answer is then wrong. */
  gold: string | null;
}

export interface PriorMaterial {
  documents: SnapshotDocument[];
  questions: PriorQuestion[];
}

const starts = [
  "Bar",
  "Cal",
  "Dor",
  "Fen",
  "Gal",
  "Hol",
  "Kes",
  "Lam",
  "Mor",
  "Nor",
  "Pel",
  "Ros",
  "Sel",
  "Tor",
  "Vel",
];
const ends = [
  "rick",
  "dane",
  "mont",
  "wyn",
  "stead",
  "low",
  "bury",
  "gate",
  "ford",
  "lund",
  "mere",
  "ton",
  "vale",
  "wick",
];
const firstNames = [
  "Ada",
  "Bruno",
  "Celia",
  "Dmitri",
  "Elsa",
  "Farid",
  "Greta",
  "Hugo",
  "Ines",
  "Jarek",
  "Kaya",
  "Leon",
];
const towns = ["Ashby", "Brakel", "Corfe", "Dunmore", "Elst", "Fivemile", "Garvagh", "Hedel", "Ivry", "Jura", "Kilbeg"];
const beers = ["amber ale", "porter", "wheat beer", "pale ale", "stout", "lager"];
const hops = ["Saaz", "Fuggle", "Cascade", "Perle", "Hallertau", "Magnum", "Admiral"];

/** Questions that no document of a company answers. */
const elsewhere = [
  "What is the boiling point of tungsten?",
  "Who painted the ceiling of the Sistine Chapel?",
  "How many moons does Neptune have?",
  "Write a short poem about the sea.",
  "What should I cook tonight?",
  "Which team won the cup last year?",
  "How do I change a bicycle tyre?",
  "What is the airspeed of a swallow?",
  "Translate 'good morning' into Finnish.",
  "Who was the first person to climb Annapurna?",
  "What does the word 'sesquipedalian' mean?",
  "How long does it take to drive from Lyon to Turin?",
  "What is the population of Ulan Bator?",
  "Give me three names for a cat.",
  "Is it going to rain tomorrow?",
  "What is the square root of 1849?",
  "Who wrote the opera Norma?",
  "How many strings does a sitar have?",
  "Tell me a joke about lawyers.",
  "What is the best way to learn the violin?",
  "When did the Ottoman Empire end?",
  "What is the atomic number of osmium?",
  "How do bees make honey?",
  "Why is the sky blue?",
  "What time is it in Wellington?",
  "Which river flows through Khartoum?",
  "How do I reset my router?",
  "What is the plot of Hamlet?",
  "Can you recommend a film?",
  "How deep is Lake Baikal?",
  "What is my name?",
  "Sort these numbers: 7, 3, 9, 1.",
  "What is the capital of Burkina Faso?",
  "How tall is the Eiffel Tower?",
  "Who discovered penicillin?",
  "What is the exchange rate of the yen?",
  "How many bones does a horse have?",
  "Explain quantum entanglement.",
  "What is a good password?",
  "Which year was the printing press invented?",
];

/**
 * Makes the material. `size` is the number of beers, and also the number of people. Throws RangeError if it is above 50,
 * because there are not enough names for more.
 */
export function priorMaterial(seed: number, size: number): PriorMaterial {
  if (size > 50) throw new RangeError("There are only names for 50 beers and people");
  const next = seeded(seed);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(next() * items.length)]!;
  const whole = (least: number, most: number): number => least + Math.floor(next() * (most - least + 1));
  const names = distinctNames(pick, 4 * size);
  const questions: PriorQuestion[] = [];
  const ask = (gold: string | null, ...forms: string[]): void => {
    for (const question of forms) questions.push({ question, gold });
  };

  const brews = Array.from({ length: size }, () => ({
    name: names.pop()!,
    style: pick(beers),
    hop: pick(hops),
    strength: `${whole(3, 9)}.${whole(0, 9)} %`,
    price: `${whole(2, 6)}.${whole(10, 95)} euros`,
  }));
  for (const { name, style, hop, strength, price } of brews) {
    ask(style, `What kind of beer is ${name}?`, `${name} is brewed in which style?`);
    ask(hop, `Which hop goes into ${name}?`, `What is ${name} hopped with?`);
    ask(strength, `How strong is ${name}?`, `What is the alcohol content of ${name}?`);
    ask(price, `How much is a bottle of ${name}?`, `What do I pay for ${name}?`);
  }
  const people = Array.from({ length: size }, () => ({
    name: `${pick(firstNames)} ${names.pop()!}`,
    extension: String(whole(200, 899)),
    town: pick(towns),
    since: String(whole(1988, 2023)),
  }));
  for (const { name, extension, town, since } of people) {
    ask(extension, `On which extension do I reach ${name}?`, `What is ${name}'s extension?`);
    ask(town, `Where does ${name} work?`, `In which town is ${name} to be found?`);
    ask(since, `Since when has ${name} been with the brewery?`, `In what year did ${name} join?`);
  }
  // These questions have the same wording, but are about beers and people that the documents never mention.
  for (const unknown of names.slice(0, size)) {
    const nobody = `${pick(firstNames)} ${unknown}`;
    ask(null, `What kind of beer is ${unknown}?`, `Which hop goes into ${unknown}?`, `How strong is ${unknown}?`);
    ask(null, `How much is a bottle of ${unknown}?`, `What is ${nobody}'s extension?`, `Where does ${nobody} work?`);
  }
  ask(null, ...elsewhere);

  const beerTable = ["| Beer | Style | Hop | Strength | Price |", "|---|---|---|---|---|"].concat(
    brews.map((brew) => `| ${brew.name} | ${brew.style} | ${brew.hop} | ${brew.strength} | ${brew.price} |`),
  );
  const staff = people.map(
    ({ name, extension, town, since }) =>
      `${name} works in ${town}. ${name} has been with the brewery since ${since}. ${name}'s extension is ${extension}.`,
  );
  return {
    documents: [
      {
        id: "document_beers",
        name: "beers.md",
        media_type: "text/markdown",
        text: `# The beers\n\n${beerTable.join("\n")}\n`,
      },
      {
        id: "document_people",
        name: "people.txt",
        media_type: "text/plain",
        text: `Who works for the brewery\n\n${staff.join("\n\n")}\n`,
      },
    ],
    questions,
  };
}

function distinctNames(pick: <T>(items: readonly T[]) => T, count: number): string[] {
  const names = new Set<string>();
  while (names.size < count) names.add(`${pick(starts)}${pick(ends)}`);
  return [...names];
}
