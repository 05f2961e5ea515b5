// Help: in both languages, without a key, from this origin alone; every link leads somewhere, every command is one of the command line,
// every field and path is the API's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Argument, Command } from "commander";
import { createProgram } from "../../src/cli/verbs.ts";
import { contract } from "../../src/contract/index.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";

const pages = { en: "/help", de: "/help/de" } as const;

let it: TestHouse;
before(async () => {
  it = await testHouse();
});
after(() => it.close());

const pageOf = async (path: string): Promise<string> => {
  const response = await fetch(it.url + path);
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type")!, /^text\/html/);
  assert.doesNotMatch(response.headers.get("content-security-policy")!, /unsafe|https?:/);
  return response.text();
};
const all = (text: string, form: RegExp): string[] => [...text.matchAll(form)].map(([, found]) => found!);
const idsIn = (html: string): string[] => all(html, / id="([^"]+)"/g);

test("both languages have the same sections, words, links and commands", async () => {
  const [en, de] = [await pageOf(pages.en), await pageOf(pages.de)];
  const shape = (html: string): object => ({
    ids: idsIn(html),
    links: all(html, / href="([^"]+)"/g).filter((href) => !href.startsWith("/help")),
    commands: all(html, /<code class="command">([^<]+)</g),
    steps: all(html, /<(ol|li|dt|dd)\b/g),
  });
  assert.deepEqual(shape(de), shape(en));
  assert.ok(all(en, /<(dt)\b/g).length > 30);
});

for (const [language, path] of Object.entries(pages)) {
  test(`every link leads somewhere: ${language}`, async () => {
    const html = await pageOf(path);
    for (const href of all(html, / href="([^"]+)"/g)) {
      const [place = "", hash = ""] = href.split("#");
      if (place === "") assert.ok(idsIn(html).includes(hash), href);
      else if (place === "/")
        assert.equal((await fetch(`${it.url}/console/screens/${hash.split("/")[1]}.js`)).status, 200, href);
      else assert.equal((await fetch(it.url + place)).status, 200, href);
    }
  });

  test(`every command is one of the command line, with options that it has: ${language}`, async () => {
    const commands = [
      ...all(await pageOf(path), /<code class="command">([^<]+)</g),
      ...all(await pageOf(path), /<code>(plumbline [^<]+)</g),
    ];
    assert.ok(commands.length > 8);
    for (const line of commands) {
      const words = [...line.matchAll(/"[^"]*"|\S+/g)].map(([word]) => word);
      assert.equal(words.shift(), "plumbline", line);
      let command: Command = await createProgram(words[0]);
      for (;;) {
        const next = command.commands.find((one) => one.name() === words[0]);
        if (!next) break;
        command = next;
        words.shift();
      }
      assert.equal(command.commands.length, 0, `${line}: which of ${command.commands.map((one) => one.name())}?`);
      const given = new Set<string>();
      const rest: string[] = [];
      while (words.length > 0) {
        const word = words.shift()!;
        if (!word.startsWith("--")) rest.push(word);
        else {
          const option = command.options.find(({ long }) => long === word);
          assert.ok(option, `${line}: ${word}`);
          given.add(word);
          if (option.required) assert.ok(words.shift(), `${line}: ${word} has no value`);
        }
      }
      for (const { long, mandatory } of command.options)
        if (mandatory) assert.ok(given.has(long!), `${line}: ${long} is missing`);
      const wanted: readonly Argument[] = command.registeredArguments;
      assert.ok(rest.length >= wanted.filter(({ required }) => required).length, `${line}: too few`);
      assert.ok(wanted.some(({ variadic }) => variadic) || rest.length <= wanted.length, `${line}: too many`);
    }
  });

  test(`every field that it names is the API's: ${language}`, async () => {
    const fields = all(await pageOf(path), /<code>([a-z_]+)</g);
    const api = JSON.stringify(contract);
    assert.deepEqual(
      fields.filter((field) => !api.includes(`"${field}":`)),
      [],
    );
  });
}
