// The study reads any document in any language only if nothing in it was made for the documents that it is tried on, and if it has no
// words of a language of its own: those stand in config/study.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { test } from "node:test";
import { eld } from "eld/small";
import { ngramsOf, wordsOf } from "../../src/base/text.ts";
import { makeCompany } from "../company/company.ts";

const root = join(import.meta.dirname, "../..");
const filesIn = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
const read = (file: string): string => readFileSync(join(root, file), "utf8");

// ---- What code says: its literals, without comments

interface Literal {
  kind: "string" | "template" | "regex";
  text: string;
}

/** A small scanner: comments, strings, templates (their own text) and regular expressions; a slash divides after a value. */
const token =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?<double>(?:\\.|[^"\\\n])*)"|'(?<single>(?:\\.|[^'\\\n])*)'|`(?<template>(?:\\[\s\S]|[^`\\])*)`|(?<=[(,=:?!&|[{;+]\s*|^\s*|return\s|=>\s*)\/(?<regex>(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+)\/[a-z]*/gm;

const literalsOf = (code: string): Literal[] =>
  [...code.matchAll(token)].flatMap(({ groups = {} }): Literal[] => {
    const { double, single, template, regex } = groups;
    if (regex !== undefined) return [{ kind: "regex", text: regex }];
    if (template !== undefined) return [{ kind: "template", text: template.replace(/\$\{[^}]*\}/g, "\n") }];
    const text = double ?? single;
    return text === undefined ? [] : [{ kind: "string", text }];
  });

test("the scanner of this test finds literals, and nothing in comments", () => {
  const code = [
    "// «not this one»",
    'const a = "one"; /* "nor this" */ const b = x / y / z;',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code to be scanned.
    'const c = /fo+\\/[/"]/gu.exec(`two ${a} three`);',
    "if (!/bar/.test('four')) return 1 / 2;",
  ].join("\n");
  assert.deepEqual(
    literalsOf(code).map(({ kind, text }) => [kind, text]),
    [
      ["string", "one"],
      ["regex", 'fo+\\/[/"]'],
      ["template", "two \n three"],
      ["regex", "bar"],
      ["string", "four"],
    ],
  );
});

const study = filesIn("src/study").filter((file) => file.endsWith(".ts"));

test("no regular expression of the study has a word in it", () => {
  const broken = study.flatMap((file) => {
    const code = read(file);
    // Those that are put together from pieces, too.
    const pieces = /RegExp\(|String\.raw/.test(code);
    return literalsOf(code)
      .filter(({ kind }) => kind === "regex" || (pieces && kind === "template"))
      .filter(({ text }) => /[A-Za-z]{3}/.test(text.replace(/\\[pP]\{[^}]*\}|\\[A-Za-z]|\(\?<\w+>/g, " ")))
      .map(({ text }) => `${file}: ${text}`);
  });
  assert.deepEqual(broken, []);
});

test("no list of words stands in the study", () => {
  const broken = study.flatMap((file) => {
    const code = read(file);
    const arrays = [...code.matchAll(/\[\s*(?:"[^"\n]*"\s*,?\s*){5,}\]/g)].filter(([list]) => {
      const words = [...list.matchAll(/"(\p{Ll}+)"/gu)].map(([, word]) => word);
      return new Set(words).size >= 5;
    });
    const split = literalsOf(code).filter(({ text }) => /^\p{Ll}+(?: \p{Ll}+){4,}$/u.test(text));
    return [...arrays.map(([list]) => list), ...split.map(({ text }) => text)].map((found) => `${file}: ${found}`);
  });
  assert.deepEqual(broken, []);
});

// ---- Nothing of the documents that the study is tried on

const withoutMarkup = (text: string): string => text.replace(/<style>[\s\S]*?<\/style>|<[^>]*>/g, " ");

const documents = [
  ...filesIn("test/foreign")
    .filter((file) => !/README\.md$|benchmark\.jsonl$/.test(file))
    .map(read),
  ...makeCompany({ seed: 1, facts: 300 }).documents.map(({ text }) => text),
].map(withoutMarkup);

/** What anybody may say: the words of some hours of ordinary prose. */
const ordinary = new Set(wordsOf(read("config/guards/prose.txt")));

const said = [
  ...filesIn("src")
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) =>
      literalsOf(read(file))
        .filter(({ kind }) => kind !== "regex")
        .map(({ text }) => ({ file, text })),
    ),
  // Weights are no words; read as text they hold any four short ones.
  ...filesIn("config")
    .filter((file) => !/^config\/(?:demo|writer|guards)\/|\.gguf$/.test(file))
    .map((file) => ({ file, text: read(file) })),
];

/** Where one of these stands as whole words. */
function foundOf(of: (text: string) => Iterable<string>, wanted: ReadonlySet<string>): string[] {
  return said.flatMap(({ file, text }) =>
    [...new Set(of(text))].filter((one) => wanted.has(one)).map((one) => `${file}: ${one}`),
  );
}

test("no number of four digits and more of those documents stands in the code or its configuration", () => {
  // But for years and thousands, which anybody may write.
  const isOwn = (number: string): boolean => !/^(?:19|20)\d\d$|000$/.test(number);
  const numbers = (text: string): string[] => (text.match(/(?<![\w.])\d{4,}(?![\w.])/g) ?? []).filter(isOwn);
  assert.deepEqual(foundOf(numbers, new Set(documents.flatMap(numbers))), []);
});

test("no name of those documents does", () => {
  const capitals = /(?<![\p{L}\p{N}])\p{Lu}\p{Ll}{2,}(?![\p{L}\p{N}])/gu;
  const pairs = /(?<=\p{Ll},?\s)\p{Lu}\p{Ll}{2,}\s\p{Lu}\p{Ll}{2,}/gu;
  // Words with a capital within a sentence that nowhere have none; in German, where every noun has one, two of them in a row.
  const lower = new Set(
    [...documents, ...said.map(({ text }) => text)].flatMap((text) => text.match(/\p{Ll}{3,}/gu) ?? []),
  );
  const days = new Set(
    Array.from({ length: 400 }, (_, day) =>
      new Date(86_400_000 * day).toLocaleDateString("en", { weekday: "long", month: "long" }).split(" "),
    ).flat(),
  );
  const single = documents
    .filter((text) => eld.detect(text).language === "en")
    .flatMap((text) => text.match(/(?<=\p{Ll},?\s)\p{Lu}\p{Ll}{2,}(?![\p{L}\p{N}])/gu) ?? [])
    .filter((word) => !ordinary.has(word.toLowerCase()) && !lower.has(word.toLowerCase()))
    .filter((word) => !days.has(word) && !days.has(word.replace(/s$/, "")));
  assert.ok(new Set(single).size > 100);
  assert.deepEqual(
    foundOf((text) => text.match(capitals) ?? [], new Set(single)),
    [],
  );
  const double = documents.flatMap((text) => text.match(pairs) ?? []);
  assert.ok(new Set(double).size > 100);
  assert.deepEqual(
    foundOf((text) => text.match(pairs) ?? [], new Set(double)),
    [],
  );
});

test("no four words in a row of those documents do, but what anybody may say", () => {
  const grams = (text: string): Set<string> => {
    const all = ngramsOf(wordsOf(text), 4);
    return new Set([...all].filter((gram) => gram.split(" ").some((word) => !ordinary.has(word))));
  };
  assert.deepEqual(foundOf(grams, new Set(documents.flatMap((text) => [...grams(text)]))), []);
});
