// The rules of the house as tests: who may import whom, and where the outside world may be touched.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";

const root = resolve(import.meta.dirname, "..");
const src = join(root, "src");

/** Floors, and the floors under them that each may import. Rooms of one floor are further kept apart below. */
const mayImport: Record<string, string[]> = {
  base: [],
  contract: ["base"],
  store: ["base"],
  engine: ["base"],
  confidence: ["base", "engine"],
  jobs: ["base", "contract", "store"],
  catalog: ["base", "contract", "store", "engine", "confidence", "jobs"],
  study: ["base", "contract", "engine", "confidence"],
  run: ["base", "contract", "engine", "confidence", "study"],
  domain: ["base", "contract", "store", "engine", "confidence", "jobs", "study", "run", "catalog"],
  http: ["base", "contract"],
  // Types only: a browser gets the console's own files and no others.
  console: ["contract"],
  app: ["base", "contract", "store", "engine", "jobs", "catalog", "domain", "http"],
  "main.ts": ["base", "contract", "store", "run", "domain", "http", "app"],
  cli: [
    "base",
    "contract",
    "store",
    "engine",
    "confidence",
    "jobs",
    "study",
    "run",
    "domain",
    "http",
    "app",
    "main.ts",
  ],
  launcher: ["base", "cli"],
};

const files = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => join(src, file));

const importsOf = (file: string): string[] =>
  [...readFileSync(file, "utf8").matchAll(/(?:from\s+|import\s*\(\s*|import\s+)"([^"]+)"/g)].map((match) => match[1]!);

const floorOf = (file: string): string => relative(src, file).split("/")[0]!;
const roomOf = (file: string): string => relative(src, file).split("/").slice(0, 2).join("/");

test("imports go down only, and rooms of the domain have no doors between them", () => {
  const broken: string[] = [];
  for (const file of files)
    for (const target of importsOf(file).filter((name) => name.startsWith("."))) {
      const to = resolve(dirname(file), target);
      if (!to.startsWith(src)) {
        if (!/package\.json$/.test(to)) broken.push(`${relative(root, file)} leaves src: ${target}`);
        continue;
      }
      const [a, b] = [floorOf(file), floorOf(to)];
      if (a !== b && !mayImport[a]?.includes(b)) broken.push(`${relative(root, file)} → ${relative(root, to)}`);
      if (a === "domain" && b === "domain" && roomOf(file) !== roomOf(to))
        broken.push(`${relative(root, file)} → ${relative(root, to)}: rooms meet only in main.ts`);
    }
  assert.deepEqual(broken, []);
});

/** Rooms of the engine, and those that each may import; all may import generator.ts, the seam. */
const engineRooms: Record<string, string[]> = {
  "generator.ts": ["gguf"],
  gguf: [],
  grammar: [],
  train: [],
  format: ["gguf"],
  serve: ["gguf", "format"],
};

test("rooms of the engine import in one direction", () => {
  const broken = files
    .filter((file) => floorOf(file) === "engine")
    .flatMap((file) =>
      importsOf(file)
        .filter((name) => name.startsWith("."))
        .map((name) => resolve(dirname(file), name))
        .filter((to) => floorOf(to) === "engine" && roomOf(to) !== roomOf(file))
        .filter((to) => roomOf(to) !== "engine/generator.ts")
        .filter((to) => !engineRooms[roomOf(file).split("/")[1]!]?.includes(roomOf(to).split("/")[1]!))
        .map((to) => `${relative(src, file)} → ${relative(src, to)}`),
    );
  assert.deepEqual(broken, []);
});

test("README's picture of the floors is what the files import", () => {
  const floors =
    "base contract store engine confidence jobs catalog study run domain http console app main.ts cli launcher".split(
      " ",
    );
  assert.deepEqual(new Set(files.map(floorOf)), new Set(floors), "every floor is in the picture");
  const imported = new Set(
    files.flatMap((file) =>
      importsOf(file)
        .filter((name) => name.startsWith("."))
        .map((name) => `${floorOf(file)} ${floorOf(resolve(dirname(file), name))}`),
    ),
  );
  // A dot right of the diagonal would be an import upwards.
  const above = floors.slice(0, -1);
  const rows = floors.map((from, at) => {
    const cells = above.map((to, column) =>
      (imported.has(`${from} ${to}`) && column !== at ? "●" : "").padEnd(to.length),
    );
    return `    ${from.padEnd(11)}${cells.join(" ")}`.trimEnd();
  });
  const picture = [`    ${"".padEnd(11)}${above.join(" ")}`, ...rows.slice(1)].join("\n");
  assert.ok(readFileSync(join(root, "README.md"), "utf8").includes(picture), `README should show:\n${picture}`);
});

test("the files that README names for a change are there", () => {
  const [, changing] = readFileSync(join(root, "README.md"), "utf8").split("\n## Changing it\n");
  const named = [...changing!.matchAll(/\b(?:src|test|native|config)\/[\w./<>-]+/g)].map(([path]) =>
    path.replace(/\.$/, ""),
  );
  const isThere = (path: string): boolean =>
    existsSync(join(root, path.replace(/<(?:resource|room)>/g, "agents").replace("<code>", "de")));
  assert.ok(named.length > 20, String(named.length));
  assert.deepEqual(
    named.filter((path) => !isThere(path)),
    [],
  );
});

test("no file imports itself through others, not for a type either", () => {
  const imported = new Map(
    files.map((file) => [
      file,
      importsOf(file)
        .filter((name) => name.startsWith("."))
        .map((name) => resolve(dirname(file), name)),
    ]),
  );
  const done = new Set<string>();
  const circles: string[] = [];
  const walk = (file: string, path: readonly string[]): void => {
    if (path.includes(file))
      circles.push([...path.slice(path.indexOf(file)), file].map((one) => relative(src, one)).join(" → "));
    else if (!done.has(file)) for (const next of imported.get(file) ?? []) walk(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) walk(file, []);
  assert.deepEqual(circles, []);
});

test("main.ts builds and does nothing else: one page, and each thing that it names is made above", () => {
  const main = readFileSync(join(src, "main.ts"), "utf8");
  const lines = main.split("\n");
  assert.ok(lines.length - 1 <= 150, `main.ts has ${lines.length - 1} lines`);
  // A closure could name a room that is not built yet; the compiler sees only names that are used at once.
  const build = lines.slice(lines.findIndex((line) => /^async function build/.test(line)));
  const madeAt = new Map<string, number>();
  for (const [at, line] of build.entries()) {
    const [, one, several] = /^ {2}(?:const|let) (?:(\w+)|\{(.+)\}) = /.exec(line) ?? [];
    for (const name of one ? [one] : (several ?? "").split(",")) madeAt.set(name.split(":").at(-1)!.trim(), at);
  }
  madeAt.delete("");
  const early = build.flatMap((line, at) =>
    [...line.replace(/\/\/.*|"[^"]*"/g, "").matchAll(/(?<!\.|\w)(\w+)\b(?!:)/g)]
      .map(([, name]) => name!)
      .filter((name) => (madeAt.get(name) ?? 0) > at),
  );
  assert.deepEqual(early, []);
});

test("the catalog reads and never writes", () => {
  const writes = /\b(INSERT|UPDATE|DELETE|REPLACE)\s|\.run\(|\.transaction\(|nextSeq|node:fs(\/promises)?"/;
  const broken = files
    .filter((file) => floorOf(file) === "catalog")
    .filter((file) => {
      const code = readFileSync(file, "utf8").replaceAll(/^import \{ readFile \} .*$/gm, "");
      return writes.test(code);
    });
  assert.deepEqual(broken, []);
});

const consoleFiles = readdirSync(join(src, "console"), { recursive: true, encoding: "utf8" }).filter((file) =>
  /\.(js|html|css)$/.test(file),
);

test("the console's modules import each other alone", () => {
  const broken = consoleFiles.flatMap((file) => {
    const path = join(src, "console", file);
    const code = readFileSync(path, "utf8");
    const imported = [...code.matchAll(/^(?:import|\}) .*"([^"]+)";$|=> import\("([^"]+)"\)/gm)].map(
      ([, one, other]) => (one ?? other)!,
    );
    return imported
      .filter((target) => !target.startsWith(".") || floorOf(resolve(dirname(path), target)) !== "console")
      .map((target) => `${file}: ${target}`);
  });
  assert.deepEqual(broken, []);
});

test("the console makes nothing of text but text, and keeps the key out of addresses", () => {
  const unsafe =
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|javascript:|style="|https?:\/\/(?!www\.w3\.org)|localStorage\.setItem\("plumbline\.key|[?&]key=/;
  const broken = consoleFiles.flatMap((file) => {
    const found = readFileSync(join(src, "console", file), "utf8").match(unsafe);
    return found ? [`${file}: ${found[0]}`] : [];
  });
  assert.deepEqual(broken, []);
});

test("no text in the console's modules spans lines or has a type in it, and comments have lines of their own: they are taken off with the indentation when they are served", () => {
  const typesIn = (code: string): number => code.match(/\/\*\* @type/g)?.length ?? 0;
  const typed = consoleFiles.filter((file) => {
    const code = readFileSync(join(src, "console", file), "utf8");
    return typesIn(code) !== typesIn(code.replace(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`/g, ""));
  });
  assert.deepEqual(typed, []);
  const behindCode = consoleFiles.filter((file) =>
    readFileSync(join(src, "console", file), "utf8")
      .split("\n")
      .some(
        (line) =>
          file.endsWith(".js") && /^\s*[^\s/*].*\/\//.test(line.replace(/"(?:[^"\\]|\\.)*"|'[^']*'|`[^`]*`|\\\//g, "")),
      ),
  );
  assert.deepEqual(behindCode, []);
  const broken = consoleFiles.flatMap((file) =>
    readFileSync(join(src, "console", file), "utf8")
      .split("\n")
      .filter(
        (line) => file.endsWith(".js") && (line.replace(/^\s*(\/\/|\/?\*).*/, "").match(/`/g)?.length ?? 0) % 2 === 1,
      )
      .map((line) => `${file}: ${line.trim()}`),
  );
  assert.deepEqual(broken, []);
});

/** Packages and builtins that only one place may use. */
const onlyIn: [RegExp, RegExp][] = [
  [/^(koa|@koa\/.*|busboy)$/, /^http\//],
  [/^node-llama-cpp/, /^engine\/serve\//],
  [/^(node:)?child_process$/, /^base\/processes\.ts$/],
  [/^better-sqlite3$/, /^(store\/|base\/lock\.ts$)/],
  [/^@huggingface\/jinja$/, /^engine\/format\/chat-format\.ts$/],
  [/^commander$/, /^cli\//],
  [/^prom-client$/, /^base\/metrics\.ts$/],
  [/^@opentelemetry\//, /^base\/collector\.ts$/],
];

test("of a run the appliance knows its folder alone, and the folder nothing of the run", () => {
  const broken: string[] = [];
  for (const file of files)
    for (const target of importsOf(file).filter((name) => name.startsWith("."))) {
      const [from, to] = [relative(src, file), relative(src, resolve(dirname(file), target))];
      const isOutside = to.startsWith("run/") && !to.startsWith("run/folder/");
      if (isOutside && (from.startsWith("domain/") || from.startsWith("run/folder/"))) broken.push(`${from} → ${to}`);
    }
  assert.deepEqual(broken, []);
});

test("each part of the outside world is touched in one place", () => {
  const broken: string[] = [];
  for (const file of files)
    for (const name of importsOf(file))
      for (const [what, where] of onlyIn)
        if (what.test(name) && !where.test(relative(src, file))) broken.push(`${relative(root, file)}: ${name}`);
  assert.deepEqual(broken, []);
});

test("SQL stands in store.ts files and in store/ only", () => {
  const sql = /\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b/;
  const broken = files
    .filter((file) => sql.test(readFileSync(file, "utf8")))
    .map((file) => relative(src, file))
    .filter((file) => !file.startsWith("store/") && !file.endsWith("/store.ts") && !/^jobs\/queue\.ts$/.test(file));
  assert.deepEqual(broken, []);
});

test("no file is called by what it is not", () => {
  const broken = [...files.map((file) => relative(src, file)), ...consoleFiles].filter((file) =>
    /(^|\/)(utils?|helpers?|misc|common-utils)(\.[jt]s|\/)|[-_.]v\d+\.[jt]s$/.test(file),
  );
  assert.deepEqual(broken, []);
});

test("the environment is read in base/config.ts only", () => {
  const broken = files
    .filter((file) => /process\.env\b/.test(readFileSync(file, "utf8")))
    .map((file) => relative(src, file))
    .filter((file) => file !== "base/config.ts" && file !== "base/processes.ts");
  assert.deepEqual(broken, []);
});

test("the lock names the packages of every platform, without which npm ci refuses it where one is not published", () => {
  type Package = { optionalDependencies?: Record<string, string> };
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, Package>;
  };
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies }]) =>
    Object.keys(optionalDependencies ?? {}).filter(
      (name) => !packages[`node_modules/${name}`] && !packages[`${path}/node_modules/${name}`],
    ),
  );
  assert.deepEqual(missing, []);
});
