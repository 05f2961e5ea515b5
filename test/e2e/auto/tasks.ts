// What the three real auto-aligns are asked to reach, fixed before the first of them ran: documents, questions, target, hours, reward.
//
//   format   notes of orders are to be answered by one JSON object; rules.md says how, a data set shows it
//   sums     two numbers are added; a data set has sums, and the questions have others
//   net      facts of vets, closed book, where a wrong answer costs what a right one gains and declining costs nothing
import { join } from "node:path";
import { seeded } from "../../../src/base/statistics/random.ts";
import { shuffled } from "../../../src/base/text.ts";
import type { AutoAlignRequest } from "../../../src/contract/auto-align.ts";
import type { SnapshotDocument } from "../../../src/contract/run-folder.ts";
import { readJsonLines } from "../../helpers/json-lines.ts";
import type { Item } from "../prove/experiment.ts";
import { foreignMaterial, withBlocks } from "../prove/material.ts";

export interface Task {
  name: string;
  documents: SnapshotDocument[];
  items: Item[];
  request: Pick<AutoAlignRequest, "target_score" | "config">;
  /** Of all that an auto-align does; the supervised one beside it has as many. */
  hours: number;
  /** How many of the sealed answers are worth what: the sum over the answers, in points of a hundred. */
  scored: "right" | "right less wrong";
}

const seed = 20261126;
const hours = 0.6;
/** Questions that decisions see, questions that stay sealed, and rows of a data set. */
const [dev, sealed, given] = [60, 210, 240];

type Asked = { prompt: string; answer: string };
type Random = () => number;

/** The first of them are the benchmark's, the others the data set's. */
function split(asked: readonly Asked[]): { items: Item[]; rows: Asked[] } {
  const items = asked.slice(0, dev + sealed).map(
    ({ prompt, answer }, at): Item => ({
      instruction: prompt,
      response: answer,
      aliases: [],
      cluster: String(at),
      split: at < dev ? "dev" : "sealed",
    }),
  );
  return { items, rows: asked.slice(dev + sealed, dev + sealed + given) };
}

const document = (name: string, media_type: SnapshotDocument["media_type"], text: string): SnapshotDocument =>
  withBlocks({ id: name, name, media_type, text });

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

const dataSet = (name: string, rows: readonly Asked[]): SnapshotDocument =>
  document(
    name,
    "text/csv",
    ["prompt,answer", ...rows.map(({ prompt, answer }) => `${quoted(prompt)},${quoted(answer)}`), ""].join("\n"),
  );

const pick = <T>(from: readonly T[], random: Random): T => from[Math.floor(random() * from.length)]!;

/** So many different ones, in the order in which they are drawn. */
function different(draw: () => Asked, count: number): Asked[] {
  const found = new Map<string, Asked>();
  while (found.size < count) {
    const one = draw();
    found.set(one.prompt, one);
  }
  return [...found.values()];
}

const rules = `# Notes of orders

Every note of an order is answered by one JSON object on one line, and by nothing else.

The object has exactly three fields, in this order: item, quantity and bay. The field item names the article in the singular, as the
note calls it. The field quantity is a number written in digits, never in words. The field bay is one capital letter from A to H.

Where the note names a customer, the customer is left out of the object.
`;

const orderSchema = {
  type: "object",
  additionalProperties: false,
  required: ["item", "quantity", "bay"],
  properties: {
    item: { type: "string", minLength: 1 },
    quantity: { type: "integer", minimum: 1 },
    bay: { type: "string", pattern: "^[A-H]$" },
  },
};

const articles = [
  ...["kettle", "lantern", "saddle", "bucket", "ladder", "blanket", "hammer", "basket", "mirror", "candle"],
  ...["pillow", "wheel", "barrel", "rope", "plough", "bell", "chair", "stool", "clock", "drum"],
];
const customers = ["Mrs Vale", "Mr Orrin", "the Harpers", "Dr Lund", "Miss Tarn", "the abbey", "Mr Quill", "the mill"];
const numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
const bays = [..."ABCDEFGH"];
const notes = [
  (who: string, many: string, what: string, bay: string) =>
    `Note of an order: ${who} wants ${many} ${what} in bay ${bay}.`,
  (who: string, many: string, what: string, bay: string) =>
    `Note of an order: bay ${bay}, ${many} ${what}, for ${who}.`,
  (who: string, many: string, what: string, bay: string) =>
    `Note of an order: please put ${many} ${what} for ${who} into bay ${bay}.`,
];

function order(random: Random): Asked {
  const quantity = 1 + Math.floor(random() * numbers.length);
  const [item, bay] = [pick(articles, random), pick(bays, random)];
  const prompt = pick(notes, random)(
    pick(customers, random),
    numbers[quantity - 1]!,
    quantity === 1 ? item : `${item}s`,
    bay,
  );
  return { prompt, answer: JSON.stringify({ item, quantity, bay }).replaceAll(/([:,])/g, "$1 ") };
}

function format(random: Random): Task {
  const { items, rows } = split(different(() => order(random), dev + sealed + given));
  return {
    name: "format",
    documents: [document("rules.md", "text/markdown", rules), dataSet("orders.csv", rows)],
    items,
    request: {
      target_score: 95,
      config: {
        dataset: { split: "orders.csv" },
        reward: {
          type: "composite",
          composite: {
            [`builtin:json_schema?schema=${encodeURIComponent(JSON.stringify(orderSchema))}`]: 1,
            "builtin:exact": 1,
          },
        },
        sampling: { max_tokens: 40 },
      },
    },
    hours,
    scored: "right",
  };
}

/** Digits of the two numbers that are added. */
const digits = [2, 1] as const;

function sum(random: Random): Asked {
  const [a, b] = digits.map((count) => {
    const least = count === 1 ? 1 : 10 ** (count - 1);
    return least + Math.floor(random() * (10 ** count - least));
  });
  return { prompt: `What is ${a} + ${b}?`, answer: `${a! + b!}` };
}

function sums(random: Random): Task {
  const { items, rows } = split(different(() => sum(random), dev + sealed + given));
  return {
    name: "sums",
    documents: [dataSet("sums.csv", rows)],
    items,
    request: {
      target_score: 90,
      config: {
        dataset: { split: "sums.csv" },
        reward: { type: "verifier", verifier_ref: "builtin:numeric" },
        sampling: { max_tokens: 16 },
      },
    },
    hours,
    scored: "right",
  };
}

interface Recorded {
  asks: { answer: string; questions: string[] }[];
}

/** One question about each fact, by authors who saw one passage at a time; the benchmark of the corpus has no part in it. */
async function net(random: Random): Promise<Task> {
  const { documents } = await foreignMaterial("vets");
  const recorded = readJsonLines<Recorded>(join(import.meta.dirname, "../../foreign/teacher/vets.jsonl"));
  const asked = recorded.flatMap(({ asks }) =>
    asks.map(({ answer, questions }) => ({ prompt: pick(questions, random), answer })),
  );
  const { items } = split(shuffled(asked, random));
  return {
    name: "net",
    documents,
    items,
    request: {
      // Of the reward, which pays 1, ½ and 0: 30 net.
      target_score: 65,
      config: {
        reward: { type: "verifier", verifier_ref: "builtin:exact?declined=0.5" },
        evaluation: { metrics: ["reward"] },
        sampling: { max_tokens: 48 },
      },
    },
    hours,
    scored: "right less wrong",
  };
}

const made: Record<string, (random: Random) => Task | Promise<Task>> = { format, sums, net };
export const taskNames = Object.keys(made);

/** The same each time, whichever others are made. */
export const taskOf = async (name: string): Promise<Task> => made[name]!(seeded(seed));
