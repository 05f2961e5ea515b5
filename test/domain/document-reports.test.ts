// Languages, quality, personal data, duplicates: what is reported of a text.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { leastValues } from "../../src/base/minhash.ts";
import { duplicatesOf, signaturesOf } from "../../src/domain/documents/duplicates.ts";
import { languagesOf } from "../../src/domain/documents/language.ts";
import { cleanOriginal } from "../../src/domain/documents/normalise.ts";
import { countKinds, findPersonalData, mask } from "../../src/domain/documents/personal.ts";
import { qualityOf } from "../../src/domain/documents/quality.ts";
import { placeOf } from "../../src/domain/documents/source-map.ts";
import { blocksOfText } from "../../src/domain/documents/text-blocks.ts";

const blocks = (text: string) => blocksOfText(text, "text/plain", "a");

test("languages by their share of the text", () => {
  const english = "The harbour master keeps the register of all vessels that enter or leave the outer basin.";
  const german = "Der Hafenmeister führt das Verzeichnis aller Schiffe, die den äußeren Hafen verlassen oder anlaufen.";
  const french = "Le capitaine du port tient le registre de tous les navires qui entrent dans le bassin extérieur.";
  const text = [english, german, english, english, french].join("\n\n");
  const found = languagesOf(text, blocks(text));
  assert.deepEqual([found.main, found.others.map(({ language }) => language).sort()], ["en", ["de", "fr"]]);
  assert.ok(Math.abs(found.share - (3 * english.length) / (text.length - 8)) < 0.01);
  assert.deepEqual(languagesOf("12 34", blocks("12 34")), { main: null, share: 0, others: [] });
});

describe("quality", () => {
  const prose = Array.from(
    { length: 30 },
    (_, i) =>
      `The clerk of berth no${i} is in the office p${i} with the list q${i} of the ships that wait for pilot r${i}.`,
  );
  const of = (text: string) => qualityOf(text, blocks(text), "en");
  const codes = (text: string) => of(text).warnings.map(({ code }) => code);

  test("of prose is not warned of", () => {
    const { quality, warnings } = of(prose.join("\n\n"));
    assert.deepEqual(warnings, []);
    assert.equal(quality.words, 30 * 22);
    assert.ok(quality.stop_words! > 0.3);
  });
  test("of very little text is warned of, in words or in characters", () => {
    assert.deepEqual(codes("The harbour opens at six."), ["little_text"]);
    assert.match(of("The harbour opens at six.").warnings[0]!.message, /5 words/);
    assert.ok(!codes(prose.slice(0, 2).join("\n\n")).includes("little_text"));
    assert.ok(!codes("港口六点开放。".repeat(40)).includes("little_text"));
  });

  const cases: [string, string, string][] = [
    [
      "lines that repeat",
      prose.flatMap((line) => [line, "Imprint and privacy of the harbour office are found here."]).join("\n\n"),
      "repeated_lines",
    ],
    ["letters strewn about", "a b c d e f g h i j k l m n o p ".repeat(20), "odd_words"],
    ["numbers", "12 345 6,78 90 the 11 12 13 ".repeat(20), "few_letters"],
    ["marks", "#one #two #three the of and in is ".repeat(20), "many_symbols"],
    ["lists of names", Array.from({ length: 200 }, (_, i) => `Name${i}x`).join(" "), "few_stop_words"],
  ];
  for (const [what, text, code] of cases)
    test(`of ${what}: ${code}`, () => assert.ok(codes(text).includes(code), codes(text).join()));
});

describe("personal data", () => {
  // Numbers that banks, card networks and standards publish as examples.
  const real: [string, string][] = [
    ["email", "ada.lund+ships@harbour.example.org"],
    ["iban", "DE89 3704 0044 0532 0130 00"],
    ["iban", "GB82WEST12345698765432"],
    ["iban", "NO9386011117947"],
    ["payment_card", "4111 1111 1111 1111"],
    ["payment_card", "5555-5555-5555-4444"],
    ["payment_card", "378282246310005"],
    ["phone", "+49 30 901820"],
    ["phone", "+1 (202) 456-1111"],
    ["phone", "202-456-1111"],
    ["phone", "030/901820-11"],
    ["us_ssn", "219-09-9999"],
    ["ip_address", "192.0.2.17"],
    ["ip_address", "2001:db8:0:0:1:0:0:1"],
    ["secret", "AKIAIOSFODNN7EXAMPLE"],
  ];
  for (const [kind, value] of real)
    test(`${kind}: ${value}`, () => {
      const text = `It says ${value}, in the list.`;
      assert.deepEqual(findPersonalData(text), [{ kind, start: 8, end: 8 + value.length }]);
    });
  const none = [
    "DE89 3704 0044 0532 0130 01",
    "4111 1111 1111 1112",
    "version 1.2.3, section 4.2.1.7.3, RFC 2119",
    "999.1.2.3",
    "2026-05-04 12:00:09",
    "000-12-3456",
    "at 12:30:45 we left",
    "1234567890123456",
    "password: see below",
    "@mention and a@b",
  ];
  for (const text of none) test(`none in ${text}`, () => assert.deepEqual(findPersonalData(text), []));

  test("a value has one stand-in everywhere, another key another one; blocks and places stay true", () => {
    const original =
      "Write to Ada@example.org.\r\n\r\nOr to bo@example.org, or call +49 30 901820.\r\n\r\nada@example.org answers.";
    const { text, map } = cleanOriginal(original);
    const clean = { text, map, blocks: blocks(text) };
    const found = findPersonalData(text);
    assert.deepEqual(countKinds(found), { email: 3, phone: 1 });
    const masked = mask(clean, found, "key");
    const standIns = masked.text.match(/\[email [0-9a-f]{8}\]/g)!;
    assert.equal(standIns.length, 3);
    assert.equal(standIns[0], standIns[2]);
    assert.notEqual(standIns[0], standIns[1]);
    assert.doesNotMatch(masked.text, /@|901820/);
    assert.notEqual(mask(clean, found, "other").text, masked.text);
    assert.deepEqual(
      masked.blocks.map(({ start, end }) => masked.text.slice(start, end).replace(/\[(\w+) \w+\]/g, "<$1>")),
      ["Write to <email>.", "Or to <email>, or call <phone>.", "<email> answers."],
    );
    const places = masked.blocks.map(({ start, end }) => placeOf(masked.map, start, end, false));
    assert.deepEqual(
      places.map((place) => original.slice(place.start, place.end)),
      ["Write to Ada@example.org.", "Or to bo@example.org, or call +49 30 901820.", "ada@example.org answers."],
    );
  });
});

describe("duplicates", () => {
  const runs = (words: string[]) => new Set(words.slice(4).map((_, i) => words.slice(i, i + 5).join(" ")));
  /** Exactly, of the sets of runs of five words. */
  const jaccard = (a: string[], b: string[]): number => {
    const [x, y] = [runs(a), runs(b)];
    return [...x].filter((run) => y.has(run)).length / new Set([...x, ...y]).size;
  };

  test("MinHash estimates the Jaccard similarity within its standard error", () => {
    // sqrt(J (1 − J) / 128) is at most 0.0442; over many pairs the mean must come much closer.
    const errors: number[] = [];
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 500 }), { minLength: 60, maxLength: 200 }),
        fc.integer({ min: 0, max: 59 }),
        fc.integer({ min: 0, max: 40 }),
        (numbers, at, length) => {
          const words = numbers.map((n, i) => `w${n}-${i % 7}`);
          const other = words.toSpliced(at, length, ...Array.from({ length: 5 }, (_, i) => `x${i}`));
          const [a, b] = [leastValues(runs(words)), leastValues(runs(other))];
          const estimate = a.filter((value, p) => value === b[p]).length / a.length;
          const error = estimate - jaccard(words, other);
          assert.ok(Math.abs(error) < 5 * 0.0442, `${error}`);
          errors.push(error);
        },
      ),
      { numRuns: 300 },
    );
    const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length;
    assert.ok(Math.abs(mean) < 0.01, `${mean}`);
  });

  const paragraph = (seed: number, length = 60) =>
    Array.from({ length }, (_, i) => `word${(seed * 7919 + i * i * 31) % 997}`).join(" ");
  const of = (text: string) => signaturesOf(text, blocks(text));

  test("the same words are exact, a changed word near, others none", () => {
    const shared = paragraph(1);
    const changed = shared.replace(/^word\d+/, "another");
    const older = `${paragraph(2)}\n\n${shared}\n\n${paragraph(3)}`;
    const newer = `${paragraph(4)}\n\n${shared.toUpperCase()}!\n\n${changed}\n\nshort words`;
    const found = duplicatesOf(of(newer), [{ id: "older", signatures: of(older) }]);
    assert.deepEqual(
      found.map(({ start, other_start, other_end, similarity, document_id }) => [
        newer.slice(start, start + 7).toLowerCase(),
        older.slice(other_start, other_end) === shared,
        similarity === 1,
        document_id,
      ]),
      [
        [shared.slice(0, 7), true, true, "older"],
        ["another", true, false, "older"],
      ],
    );
    assert.ok(found[1]!.similarity >= 0.8);
  });

  test("a paragraph that both documents repeat has its first twenty duplicates, and a log is not compared line by line", () => {
    const log = (lines: number): string => Array.from({ length: lines }, () => paragraph(1, 12)).join("\n\n");
    const older = of(log(60_000));
    const one = older.length / 60_000;
    const found = duplicatesOf(older.subarray(0, 3 * one), [{ id: "older", signatures: older.subarray(0, 50 * one) }]);
    const places = (signatures: Uint8Array): number[] =>
      duplicatesOf(signatures, [{ id: "older", signatures: older }]).map(({ other_start }) => other_start);
    assert.equal(found.length, 3 * 20);
    assert.deepEqual([...new Set(found.map(({ start }) => start))].length, 3);
    assert.deepEqual(places(older.subarray(0, one)), places(older).slice(0, 20));
    // Compared pair by pair, these would be 3.6 thousand million.
    assert.equal(places(older).length, 60_000 * 20);
  });

  test("the bands miss one in twenty at 0.8, and pass less than one in ten at half", () => {
    // 1 − (1 − s^8)^16 is 0.947 at s = 0.8 and 0.061 at s = 0.5.
    const rate = (keep: number): number => {
      let found = 0;
      for (let seed = 0; seed < 150; seed++) {
        const words = paragraph(seed + 10, 205)
          .split(" ")
          .map((word, i) => `${word}-${i}`);
        // Runs kept over all runs is the similarity: k of 201 in common of 201 + 201 − k.
        const common = Math.round((2 * 201 * keep) / (1 + keep));
        const other = words.map((word, i) => (i < common + 4 ? word : `${word}x`));
        const bandsOf = (text: string) =>
          Array.from({ length: 16 }, (_, i) => Buffer.from(of(text)).readUInt32LE(16 + i * 4));
        const [a, b] = [bandsOf(words.join(" ")), bandsOf(other.join(" "))];
        if (a.some((band, i) => band === b[i])) found++;
      }
      return found / 150;
    };
    const [near, half] = [rate(0.8), rate(0.5)];
    assert.ok(near > 0.89 && near < 0.99, `${near}`);
    assert.ok(half < 0.12, `${half}`);
  });
});
