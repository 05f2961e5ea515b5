// The console's files as the appliance serves them: to anyone, of a fixed list, with a strict policy; and what they hold.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { transformSync } from "esbuild";
import { installation } from "../../src/base/config.ts";
import { failures } from "../../src/base/errors.ts";
import { contract, interfaceVersion } from "../../src/contract/index.ts";
import { renderClientModule } from "../../src/http/client-module.ts";
import { renderOpenApi } from "../../src/http/openapi.ts";
import { type TestHouse, testHouse } from "../helpers/house.ts";
import { rawGet } from "../helpers/raw.ts";

const folder = join(installation, "src/console");

let it: TestHouse;
before(async () => {
  it = await testHouse();
});
after(() => it.close());

test("each file has its type, an ETag, and a policy without inline scripts or other origins", async () => {
  const types: Record<string, RegExp> = {
    "/": /^text\/html/,
    "/first-key": /^text\/html/,
    "/console/main.js": /^text\/javascript/,
    "/console/style.css": /^text\/css/,
    "/console/icon.svg": /^image\/svg\+xml/,
    "/console/uplot.js": /^text\/javascript/,
    "/console/texts/de.js": /^text\/javascript/,
  };
  for (const [path, type] of Object.entries(types)) {
    const response = await fetch(it.url + path);
    assert.equal(response.status, 200, path);
    assert.match(response.headers.get("content-type")!, type, path);
    const policy = response.headers.get("content-security-policy")!;
    assert.match(policy, /^default-src 'self';/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    const etag = response.headers.get("etag")!;
    const again = await fetch(it.url + path, { headers: { "if-none-match": etag } });
    assert.deepEqual([again.status, await again.text()], [304, ""], path);
    const head = await fetch(it.url + path, { method: "HEAD" });
    assert.deepEqual([head.status, head.headers.get("etag"), await head.text()], [200, etag, ""], path);
  }
});

test("no other file is served, however its path is written", async () => {
  const host = `Host: ${new URL(it.url).host}`;
  const paths = [
    "/console/",
    "/console/tsconfig.json",
    "/console/api/types.d.ts",
    "/console/../main.ts",
    "/console/%2e%2e/main.ts",
    "/console/..%2fmain.ts",
    "/console//main.js",
    "/console/main.js%00",
    "/console/MAIN.js",
    "//console/main.js",
    "/console/__proto__",
    "/index.html",
  ];
  for (const path of paths) {
    const { status, body } = await rawGet(it.url, path, [host]);
    assert.equal(status, 404, path);
    assert.equal(JSON.parse(body).error.code, "unknown_path", path);
  }
  const posted = await fetch(it.url, { method: "POST", body: "{}" });
  assert.deepEqual([posted.status, posted.headers.get("allow")], [405, "GET, HEAD"]);
});

test("the scripts and styles are at most 250 kB for a browser, in either language; help is loaded by who asks for it", async () => {
  const own = [...served(".js"), ...served(".css")].filter((name) => !name.startsWith("help/"));
  const sizeOf = async (name: string): Promise<number> =>
    (await (await fetch(`${it.url}/console/${name}`)).bytes()).length;
  const sizes = await Promise.all([...own, "uplot.js", "uplot.css"].map(sizeOf));
  const bytes = sizes.reduce((sum, one) => sum + one, 0);
  for (const other of ["texts/en.js", "texts/de.js"])
    assert.ok(bytes - (await sizeOf(other)) <= 250_000, `${bytes} bytes with both languages`);
});

test("scripts and styles are served as their sources are, but for what only readers need", async () => {
  const bare = (text: string, loader: "js" | "css"): string =>
    transformSync(text, { loader, minifyWhitespace: true }).code.replace(loader === "css" ? /(?<=[:,]) /g : "", "");
  for (const loader of ["js", "css"] as const)
    for (const name of served(`.${loader}`)) {
      const sent = await (await fetch(`${it.url}/console/${name}`)).text();
      assert.equal(bare(sent, loader), bare(readFileSync(join(folder, name), "utf8"), loader), name);
    }
});

test("the client is the one that the OpenAPI document makes", () => {
  const made = renderClientModule(renderOpenApi(contract, interfaceVersion), folder);
  assert.equal(readFileSync(join(folder, "api/operations.js"), "utf8"), made, "npm run client writes it anew");
});

async function groupsOf(language: "en" | "de"): Promise<Record<string, Record<string, string>>> {
  return (await import(`../../src/console/texts/${language}.js`))[language];
}

/** Texts of a language by group and key, without those for what the appliance says in English. */
async function textsOf(language: "en" | "de"): Promise<Record<string, string>> {
  const groups = await groupsOf(language);
  return Object.fromEntries(
    Object.entries(groups)
      .filter(([group]) => group !== "said")
      .flatMap(([group, texts]) => Object.entries(texts).map(([key, text]) => [`${group}.${key}`, text])),
  );
}

test("both languages have the same texts, with the same values in them", async () => {
  const [en, de] = await Promise.all([textsOf("en"), textsOf("de")]);
  assert.deepEqual(Object.keys(de).sort(), Object.keys(en).sort());
  const valuesIn = (text: string): string[] => [...new Set(text.match(/\{\w+\}/g) ?? [])].sort();
  for (const [key, text] of Object.entries(en)) assert.deepEqual(valuesIn(de[key]!), valuesIn(text), key);
});

test("what is said in German for failures is of codes that the appliance has", async () => {
  for (const name of Object.keys((await groupsOf("de")).said!)) {
    const [kind, code] = name.split(".");
    if (kind === "failure" || kind === "hint") assert.ok(code! in failures, name);
  }
});

test("every text that is asked for is there, and every one that is there is asked for", async () => {
  const en = await textsOf("en");
  const code = served(".js")
    .filter((name) => !name.startsWith("texts/"))
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n");
  const found = (form: RegExp): string[] => [...code.matchAll(form)].map(([, text]) => text!);
  const asked = new Set(found(/\bt\(\s*"([^"]+)"/g));
  assert.deepEqual(
    [...asked].filter((key) => !(key in en)),
    [],
  );
  // A screen of a list asks for these of its own.
  for (const list of found(/\blistScreen\(\s*view,\s*"(\w+)"/g))
    for (const key of ["lead", "all", "none", "none.hint"]) asked.add(`${list}.${key}`);
  // Words of the API, and texts whose key is put together or handed on.
  const forms = [/\bword\("(\w+)"/g, /`([\w.]+)\.\$\{/g, /\boptionsOf\([^"]*?"(\w+)"\)/g, /\bgroup: "(\w+)"/g];
  const groups = forms.flatMap(found);
  const handedOn = new Set(found(/"(\w+\.[\w.]+)"/g));
  const unasked = Object.keys(en).filter(
    (key) => !asked.has(key) && !handedOn.has(key) && !groups.some((group) => key.startsWith(`${group}.`)),
  );
  assert.deepEqual(unasked, []);
});

test("every unit of progress has a word", async () => {
  const said = ["run", "study", "domain/alignments", "domain/benchmarks", "domain/evaluations"].flatMap((room) => {
    const at = join(installation, "src", room);
    return readdirSync(at, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".ts"))
      .flatMap((name) => unitsIn(readFileSync(join(at, name), "utf8")));
  });
  const { unit } = await groupsOf("en");
  for (const one of ["passages shown to the teacher", "candidates", "items to retain"])
    assert.ok(said.includes(one), one);
  assert.deepEqual(
    [...new Set(said)].filter((one) => !(one in unit!)),
    [],
  );
});

/** The units that code gives to progress: as a property or a variable, which may be one of two, or as the last argument. */
function unitsIn(code: string): string[] {
  const given = [...code.matchAll(/\bunit(?::| =) ([^,;{\n]*)/g)].flatMap(([, value]) =>
    [...value!.matchAll(/(?:^|[?:] )"([^"]+)"/g)].map(([, unit]) => unit!),
  );
  const passed = [...code.matchAll(/\b(?:progress|turn)\((?:[^()"]|\([^()]*\))*"([^"]+)"\)/g)].map(([, unit]) => unit!);
  return [...given, ...passed];
}

test("every module that one imports is there, and a module for every screen", () => {
  for (const name of served(".js"))
    for (const [, target] of readFileSync(join(folder, name), "utf8").matchAll(/(?:from |import\()"(\.[^"]+\.js)"/g))
      assert.ok(existsSync(join(folder, name, "..", target!)), `${name} imports ${target}`);
  const main = readFileSync(join(folder, "main.js"), "utf8");
  const screens = [...main.matchAll(/^\t\w+: \{ (.*) \},$/gm)].flatMap(
    ([, group]) => group!.match(/[\w-]+(?="?: ")/g)!,
  );
  assert.equal(screens.length, 11);
  for (const screen of screens) assert.ok(existsSync(join(folder, "screens", `${screen}.js`)), screen);
});

function served(extension: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(extension));
}
