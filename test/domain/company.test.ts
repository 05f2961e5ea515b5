// The fictional company is worth something as material only if its truth is exact, its questions stand in no document, and no
// row that a study makes of the documents asks one of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { containsWords, normalised } from "../../src/base/text.ts";
import { readBenchmark } from "../../src/domain/benchmarks/read.ts";
import { findOverlap } from "../../src/study/leakage.ts";
import { benchmarkOf, type Company, makeCompany } from "../company/company.ts";
import { judge } from "../company/truth.ts";
import { companyMaterial } from "../e2e/prove/material.ts";
import { studied } from "../helpers/study.ts";

const seeds = [1, 2, 3];
const companies = seeds.map((seed) => makeCompany({ seed, facts: 300 }));
const textOf = (company: Company, name: string): string =>
  company.documents
    .find((document) => document.name === name)!
    .text.replace(/<[^>]+>/g, " ")
    .replaceAll("&amp;", "&")
    .replace(/\s+/g, " ");

test("the same seed is the same company, another seed another one", () => {
  assert.deepEqual(makeCompany({ seed: 1, facts: 300 }), companies[0]);
  assert.notEqual(companies[0]!.name, companies[1]!.name);
});

for (const size of [20, 100, 300, 400])
  test(`${size} facts are ${size} facts`, () => {
    const company = makeCompany({ seed: 5, facts: size });
    assert.equal(company.facts.length, size);
    assert.equal(new Set(company.facts.map(({ id }) => id)).size, size);
    assert.ok(company.facts.every((fact) => fact.document !== "" && fact.questions.length >= 2));
  });

test("300 facts fill forty documents and more, of five formats", () => {
  for (const { documents } of companies) {
    assert.ok(documents.length >= 40, `${documents.length}`);
    assert.equal(new Set(documents.map(({ media_type }) => media_type)).size, 5);
    assert.equal(new Set(documents.map(({ name }) => name)).size, documents.length);
  }
});

for (const [at, company] of companies.entries()) {
  const questions = [
    ...company.facts.flatMap((fact) => fact.questions),
    ...company.multiHop.map(({ question }) => question),
    ...company.unanswerable,
  ];

  test(`seed ${seeds[at]}: each fact stands in its document, in the words noted`, () => {
    for (const fact of company.facts) {
      const text = textOf(company, fact.document);
      assert.ok(text.includes(fact.statement) || containsWords(text, fact.statement), `${fact.id}: ${fact.statement}`);
      const forms = [fact.value, ...fact.aliases];
      assert.ok(
        forms.some((form) => text.includes(form)),
        `${fact.id}: ${forms}`,
      );
    }
  });

  test(`seed ${seeds[at]}: no question comes twice, stands in a document or gives its answer away`, () => {
    assert.equal(new Set(questions.map(normalised)).size, questions.length);
    const all = company.documents.map(({ text }) => normalised(text)).join(" ");
    for (const question of questions) assert.ok(!all.includes(normalised(question)), question);
    for (const fact of company.facts)
      for (const question of fact.questions) {
        assert.ok(!containsWords(question, fact.value), `${question} ${fact.value}`);
        assert.match(question.replace(fact.entity, ""), fact.about, fact.id);
      }
  });

  test(`seed ${seeds[at]}: no row made of the documents asks a question of the benchmark`, async () => {
    const { documents } = await companyMaterial(company.facts.length, seeds[at]!);
    const { rows } = await studied(documents, { phrasings: 40, stages: 1, seed: 1 });
    assert.ok(rows.length > 3000);
    const { items } = findOverlap(questions, rows);
    assert.deepEqual(
      items.map(({ question, row }) => [questions[question], rows[row]!.messages]),
      [],
    );
  });

  test(`seed ${seeds[at]}: what nothing answers is about things or matters of which no document speaks`, () => {
    assert.ok(company.unanswerable.length >= 40);
    assert.ok(company.multiHop.length >= 40);
    for (const { facts } of company.multiHop) assert.equal(facts[0].value, facts[1].entity);
  });
}

test("what is true of a company is told from what is not", () => {
  const [company] = companies;
  const single = company!.facts.filter(({ kind }) => kind !== "policy");
  const item = { type: "short", choices: [], cited: [] as string[] };
  for (const [at, fact] of single.entries())
    for (const instruction of fact.questions) {
      const asked = { ...item, instruction, cited: [fact.document] };
      assert.equal(judge(company!, { ...asked, response: fact.value }), "right", instruction);
      const other = single.find(
        (one, index) => index > at && one.attribute === fact.attribute && one.value !== fact.value,
      );
      if (other) assert.equal(judge(company!, { ...asked, response: other.value }), "no such fact", instruction);
      assert.equal(judge(company!, { ...asked, cited: [], response: fact.value }), "no such fact", instruction);
      assert.equal(judge(company!, { ...asked, type: "refusal", response: "" }), "answerable after all");
    }
  for (const instruction of company!.unanswerable.slice(-5))
    assert.equal(judge(company!, { ...item, instruction, type: "refusal", response: "" }), "right", instruction);
  const [weight] = single.filter(({ attribute }) => attribute === "weight");
  const choices = [weight!.value, weight!.value.replace(" kg", ""), "1 kg"];
  const asked = {
    instruction: weight!.questions[0]!,
    type: "choice",
    response: weight!.value,
    cited: [weight!.document],
  };
  assert.equal(judge(company!, { ...asked, choices }), "two right choices");
});

test("the benchmark is one that an upload accepts, each fact on one side of the split", () => {
  const [company] = companies;
  const items = readBenchmark(benchmarkOf(company!, { wordings: 2, multiHop: true, unanswerable: true }));
  assert.equal(items.filter(({ type }) => type === "refusal").length, company!.unanswerable.length);
  const sealed = items.filter(({ split }) => split === "sealed").length / items.length;
  assert.ok(sealed > 0.5 && sealed < 0.7, `${sealed}`);
  assert.equal(readBenchmark(benchmarkOf(company!)).length, 600);
});
