// The match of a short answer: a table of what a person would say, and properties that hold for every gold.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { competitorsOf, type GradedItem, grade, kindOf } from "../../src/domain/evaluations/grade.ts";
import { tokensOf } from "../../src/domain/evaluations/tokens.ts";

const item = (response: string, rest: Partial<GradedItem> = {}): GradedItem => ({
  response,
  aliases: [],
  competitors: [],
  ...rest,
});

const cases: [answer: string, item: GradedItem, reason: string][] = [
  ["Marta Keller", item("Marta Keller"), "match"],
  ["It is Marta Keller's desk.", item("marta keller"), "match"],
  ["It is Martha Keller.", item("Marta Keller"), "no_match"],
  ["the head office", item("The Head Office"), "match"],
  ["**Berlin**, of course", item("Berlin"), "match"],
  ["Berliner", item("Berlin"), "no_match"],
  ["the NX-200 valve", item("NX-200"), "match"],
  ["the NX-2000 valve", item("NX-200"), "no_match"],
  ["", item("Berlin"), "no_match"],
  // aliases
  ["about 30 days", item("one month", { aliases: ["30 days"] }), "match"],
  // the window
  [`${"well ".repeat(19)}Berlin`, item("Berlin"), "match"],
  [`${"well ".repeat(20)}Berlin`, item("Berlin"), "no_match"],
  [`${"word ".repeat(30).trim()}`, item("word ".repeat(25)), "match"],
  // numbers
  ["1200", item("1,200"), "match"],
  ["There are 1'200, more or less", item("1,200"), "match"],
  ["1,200.50", item("1200.5"), "match"],
  ["1,2000", item("1,200"), "no_match"],
  ["120", item("1,200"), "no_match"],
  ["-5 degrees", item("−5"), "match"],
  ["5 degrees", item("-5"), "no_match"],
  ["3.5", item("3.50"), "match"],
  ["13.5", item("3.5"), "no_match"],
  ["version 1.2.3", item("1.2.3"), "match"],
  ["version 1.2.30", item("1.2.3"), "no_match"],
  ["code 7", item("007"), "no_match"],
  ["the 5th floor", item("5"), "match"],
  ["a 12-month term", item("12 months"), "match"],
  ["10km", item("10 km"), "match"],
  ["a 14-day period", item("14 days"), "match"],
  ["2 kgs", item("2 kg"), "match"],
  ["5 ms", item("5 m"), "no_match"],
  ["In 2019 Paris hosted it", item("Paris"), "match"],
  ["14 days", item("14 days", { competitors: ["14-day"] }), "match"],
  ["12,5 Prozent", item("12.5 %"), "match"],
  ["12.5 m", item("12,5 m"), "match"],
  ["0.125", item("0,125"), "match"],
  ["1234.5", item("1.234,5"), "match"],
  ["12,9 m", item("12"), "no_match"],
  ["rooms 5,7,9", item("7"), "match"],
  ["March 12,2019", item("12 March 2019"), "match"],
  // money and shares
  ["$1,200", item("1,200"), "match"],
  ["1,200 dollars", item("$1,200"), "match"],
  ["USD 1,200.", item("$1,200"), "match"],
  ["1,200", item("$1,200"), "match"],
  ["€1,200", item("$1,200"), "no_match"],
  ["five, that is 5 per cent", item("5%"), "match"],
  ["5 euros", item("5%"), "no_match"],
  // dates
  ["March 12th, 2019", item("12 March 2019"), "match"],
  ["the 12th of March 2019", item("2019-03-12"), "match"],
  ["on 12.03.2019", item("2019-03-12"), "match"],
  ["12 Mar 2019", item("March 2019"), "match"],
  ["in 2019", item("12 March 2019"), "no_match"],
  ["12 April 2019", item("12 March 2019"), "no_match"],
  ["03/12/2019", item("12 March 2019"), "no_match"],
  ["You may 5 times", item("5"), "match"],
  // competitors
  ["Berlin or Paris", item("Berlin", { competitors: ["Paris"] }), "competing_value"],
  ["Berlin", item("Berlin", { competitors: ["Paris"] }), "match"],
  ["12 March 2019", item("12 March 2019", { competitors: ["12"] }), "match"],
  ["12", item("12", { competitors: ["12 March 2019"] }), "match"],
  ["Marta Keller", item("Marta Keller", { competitors: ["Keller"] }), "match"],
  ["12 or 24 months", item("12", { competitors: ["24"] }), "competing_value"],
  ["$12, 24 at most", item("$12", { competitors: ["$24"] }), "competing_value"],
  [`Berlin ${"well ".repeat(19)}Paris`, item("Berlin", { competitors: ["Paris"] }), "match"],
  // tolerance
  ["about 3.55", item("3.5", { tolerance: 0.05 }), "within_tolerance"],
  ["about 3.56", item("3.5", { tolerance: 0.05 }), "no_match"],
  ["0.3", item("0.2", { tolerance: 0.1 }), "within_tolerance"],
  [`On 2019-03-12 ${"and so ".repeat(12)}it was 3.55`, item("3.5", { tolerance: 0.05 }), "no_match"],
  [
    `On 2019-03-12 ${"and so ".repeat(4)}it was 3.55 ${"and so ".repeat(8)}`,
    item("3.5", { tolerance: 0.05 }),
    "within_tolerance",
  ],
  ["3.56 or 3.52", item("3.5", { tolerance: 0.05 }), "no_match"],
  ["3.6 %", item("3.5 %", { tolerance: 0.1 }), "within_tolerance"],
  ["3.5, not 3.6", item("3.5", { tolerance: 0.1, competitors: ["3.6"] }), "match"],
  ["3.5, not 4", item("3.5", { tolerance: 0.1, competitors: ["4"] }), "competing_value"],
  ["blue", item("red", { tolerance: 5 }), "no_match"],
  ["12,9 %", item("12,5 %", { tolerance: 0 }), "no_match"],
  ["12.5 percent", item("12,5 %", { tolerance: 0 }), "match"],
  ["12,6", item("12.5 %", { tolerance: 0.1 }), "within_tolerance"],
  ["1200 Euro", item("1.200 Euro", { tolerance: 0 }), "within_tolerance"],
  ["1,200", item("1.200 Euro", { tolerance: 0 }), "within_tolerance"],
  ["10:45", item("10:30", { tolerance: 0 }), "no_match"],
  ["10:30", item("10:30", { tolerance: 0 }), "match"],
  ["5 to 9 days", item("5 to 7 days", { tolerance: 1 }), "no_match"],
  ["April 2019", item("March 2019", { tolerance: 0 }), "no_match"],
  ["3.55", item("about 3.5", { tolerance: 0.1 }), "within_tolerance"],
  ["NX-300", item("NX-200", { tolerance: 200 }), "no_match"],
  [`${"well ".repeat(20)}3.5`, item("3.5", { tolerance: 0 }), "no_match"],
  // a letter as an answer
  ["A", item("A", { competitors: ["B", "C"] }), "match"],
  ["A is right", item("A", { competitors: ["B", "C"] }), "match"],
  ["B", item("A", { competitors: ["B", "C"] }), "no_match"],
  // a letter as a label
  ["in Hall A", item("Hall A"), "match"],
  ["Hall A is the one", item("Hall A", { competitors: ["Hall B"] }), "match"],
  ["HALL A", item("Hall A"), "match"],
  ["Hall B", item("Hall A"), "no_match"],
  ["Hall B", item("Hall A", { competitors: ["Hall B"] }), "no_match"],
  ["Hall A or Hall B", item("Hall A", { competitors: ["Hall B"] }), "competing_value"],
  ["B-1", item("A-1"), "no_match"],
  ["M. Keller", item("A. Keller"), "no_match"],
  ["16 V", item("16 A"), "no_match"],
  ["the 16 A fuse", item("16 A"), "match"],
  // articles
  ["a house by a lake", item("the house by the lake"), "match"],
  ["WITHIN A YEAR", item("within a year"), "match"],
  ["'a house'", item("house"), "match"],
  // scripts without spaces, full-width digits
  ["本社は東京にあります", item("東京"), "match"],
  ["１２００", item("1,200"), "match"],
  ["データセンターにあります", item("データセンター"), "match"],
  ["サーバーです", item("サーバー"), "match"],
  ["使用Linux系统", item("Linux"), "match"],
  ["A社です", item("A社"), "match"],
  ["B社です", item("A社"), "no_match"],
  ["本社は東京、大阪です", item("東京・大阪"), "match"],
  // elisions and contractions
  ["C'est l'Espagne", item("Espagne"), "match"],
  ["Espagne", item("l’Espagne"), "match"],
  ["dans l'hôtel de ville", item("hôtel de ville"), "match"],
  ["jusqu'à huit heures, d'après elle", item("à huit heures"), "match"],
  ["la capacità dell'impianto", item("impianto"), "match"],
  ["They dont", item("they don't"), "match"],
  ["It's Berlin's, all's well", item("it Berlin all well"), "match"],
  ["Obrien from Xian", item("O'Brien from Xi'an"), "match"],
  ["the M's", item("M"), "match"],
  // a gold of punctuation is never matched
  ["???", item("???"), "no_match"],
];

test("answers are graded as a person would", () => {
  const wrong = cases
    .map(([answer, gold, reason]) => ({ answer, gold: gold.response, reason, got: grade(answer, gold).reason }))
    .filter(({ reason, got }) => reason !== got);
  assert.deepEqual(wrong, []);
});

test("correct follows from the reason", () => {
  for (const [answer, gold] of cases) {
    const { correct, reason } = grade(answer, gold);
    assert.equal(correct, reason === "match" || reason === "within_tolerance");
  }
});

test("kinds of golds", () => {
  const kinds: [string, string][] = [
    ["12 March 2019", "date"],
    ["2019-03-12", "date"],
    ["March 2019", "date"],
    ["1,200", "number"],
    ["$1,200", "number dollar"],
    ["12 months", "number month"],
    ["5 %", "number %"],
    ["Marta Keller", "text"],
    ["5 to 7 days", "text"],
    ["???", "text"],
  ];
  assert.deepEqual(
    kinds.map(([gold]) => [gold, kindOf(gold)]),
    kinds,
  );
});

test("competitors are other golds of the same kind, less what the item itself names", () => {
  const items = [
    { instruction: "Who leads Berlin?", response: "Marta Keller", aliases: ["M. Keller"] },
    { instruction: "Where is the main office?", response: "Berlin", aliases: [] },
    { instruction: "Who leads Paris, Berlin aside?", response: "Jo Lind", aliases: ["Berlin"] },
    { instruction: "How long is the notice?", response: "30 days", aliases: [] },
    { instruction: "How long is the warranty?", response: "24 days", aliases: [] },
    { instruction: "How long is the other warranty?", response: "24 days", aliases: [] },
    { instruction: "How many desks?", response: "24", aliases: [] },
  ];
  assert.deepEqual(competitorsOf(items), [
    ["Jo Lind"],
    ["Marta Keller", "Jo Lind"],
    ["Marta Keller"],
    ["24 days"],
    ["30 days"],
    ["30 days"],
    [],
  ]);
});

const word = fc.stringMatching(/^[b-z]{3,8}$/);
const phrase = fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join(" "));

test("a gold answers itself, however it is cased, spaced and punctuated", () => {
  fc.assert(
    fc.property(phrase, phrase, (gold, tail) => {
      for (const said of [gold, gold.toUpperCase(), ` «${gold}»! `, `${gold}.`, `The ${gold}, ${tail}`])
        assert.ok(grade(said, item(gold)).correct, said);
    }),
  );
});

test("any text is read without fault, and normal form is stable", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      const tokens = tokensOf(text);
      assert.ok(tokens.every((token) => token !== "" && !/\s/u.test(token)));
      grade(text, item(text, { competitors: [text], tolerance: 1 }));
    }),
  );
});

test("a number is the same whatever its grouping", () => {
  fc.assert(
    fc.property(fc.integer({ min: -999_999_999, max: 999_999_999 }), (value) => {
      const grouped = value.toLocaleString("en-US");
      assert.deepEqual(tokensOf(grouped), [String(value)]);
      assert.deepEqual(tokensOf(`It was ${value}, she said`).includes(String(value)), true);
    }),
  );
});

test("a date is the same in every way of writing it", () => {
  const date = fc.date({ min: new Date("1900-01-01"), max: new Date("2099-12-31"), noInvalidDate: true });
  fc.assert(
    fc.property(date, (day) => {
      const iso = day.toISOString().slice(0, 10);
      const write = (options: Intl.DateTimeFormatOptions, locale: string): string =>
        day.toLocaleDateString(locale, { ...options, timeZone: "UTC" });
      const long = { day: "numeric", month: "long", year: "numeric" } as const;
      const short = { day: "numeric", month: "short", year: "numeric" } as const;
      const expected = tokensOf(iso);
      assert.equal(expected.length, 3);
      for (const said of [write(long, "en-US"), write(long, "en-GB"), write(short, "en-US"), write(short, "en-GB")])
        assert.deepEqual(tokensOf(said), expected, said);
      const [year, month, dayOfMonth] = iso.split("-");
      assert.deepEqual(tokensOf(`${Number(dayOfMonth)}.${Number(month)}.${year}`), expected);
    }),
  );
});
