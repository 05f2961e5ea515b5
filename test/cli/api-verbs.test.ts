// The verbs that ask the API: each says in the same way what is wrong, and together they do what a client does.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { places } from "../../src/base/config.ts";
import { startProcess } from "../../src/base/processes.ts";
import { grammarOf } from "../../src/cli/completion.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { createProgram } from "../../src/cli/verbs.ts";
import { openStore } from "../../src/store/open.ts";
import { eventually, type TestHouse, testHouse } from "../helpers/house.ts";
import { type Served, servedHouse, withoutModel } from "../helpers/served.ts";
import { insertModels } from "../helpers/unloadable.ts";
import { calls } from "./api-calls.ts";
import { many, type Spoken } from "./many.ts";
import { launcher, plumbline, type Settings, temporaryFolder } from "./plumbline.ts";

/** The others work at the machine. */
const atTheMachine =
  /^(serve|demo|install|upgrade|uninstall|doctor|model (import|ls|rm|export)|evaluation stop|key .+|backup|restore|verify|bundle .+|support|bench .+|run|fit-prior|train-writer|train-warm-start|completion)$/;

const wordsOf = (name: string): string[] => [...name.split(" "), ...calls[name]!.words];
const errorOf = (spoken: Spoken) => (JSON.parse(spoken.stdout) as { error: { code: string; hint: string } }).error;

test("the table has every verb that asks the API", async () => {
  const leaves = grammarOf(await createProgram()).filter(({ path, words }) => path.length > 0 && words.length === 0);
  const names = leaves.map(({ path }) => path.join(" ")).filter((name) => !atTheMachine.test(name));
  assert.deepEqual(names.sort(), Object.keys(calls).sort());
});

test("without an appliance each says where it was looked for, and ends with 1", async () => {
  const names = Object.keys(calls).filter((name) => !name.includes("watch"));
  const settings = { PLUMBLINE_KEY: "pl_x", PLUMBLINE_ADDRESS: "http://127.0.0.1:9" };
  const spoken = await many(
    names.flatMap((name) => [[...wordsOf(name), "--json"], wordsOf(name)]),
    settings,
  );
  for (const [index, name] of names.entries()) {
    const [json, said] = spoken.slice(index * 2) as [Spoken, Spoken];
    assert.equal(json.code, exitCodes.failure.code, name);
    assert.equal(errorOf(json).code, "api_unreachable", name);
    assert.equal(said.code, exitCodes.failure.code, name);
    assert.match(
      said.stderr,
      /plumbline: No appliance answers at http:\/\/127\.0\.0\.1:9 .+PLUMBLINE_ADDRESS.*\.\n$/,
      name,
    );
  }
});

test("what was uploaded is told when the appliance refuses the rest", async (context) => {
  const folder = temporaryFolder(context);
  const paths = ["a", "b", "c", "d"].map((name) => join(folder, `${name}.md`));
  for (const path of paths) writeFileSync(path, path);
  let asked = 0;
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const record = { document_id: `document_${++asked}`, name: "a.md", format: "markdown", bytes: 1, characters: 1 };
      response.writeHead(asked <= 2 ? 200 : 429);
      response.end(
        JSON.stringify(
          asked <= 2
            ? { documents: [{ ...record, report: null, created_at: "" }] }
            : { detail: "Too many requests", error: { code: "too_many_requests" } },
        ),
      );
    });
  }).listen(0, "127.0.0.1");
  context.after(() => server.close());
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const [added] = await many([["document", "add", ...paths, "--json"]], {
    PLUMBLINE_KEY: "pl_x",
    PLUMBLINE_ADDRESS: address,
  });
  assert.equal(added!.code, exitCodes.failure.code);
  const told = JSON.parse(added!.stdout) as {
    documents: { document_id: string }[];
    failed: { path: string; code: string }[];
    untried: string[];
  };
  assert.deepEqual(
    told.documents?.map(({ document_id }) => document_id),
    ["document_1", "document_2"],
  );
  assert.deepEqual([told.failed[0]!.path, told.failed[0]!.code], [paths[2], "too_many_requests"]);
  assert.deepEqual([told.untried, asked], [[paths[3]], 3]);
});

describe("with an appliance", () => {
  let it: TestHouse;
  let settings: Settings;
  before(async () => {
    it = await testHouse();
    settings = { PLUMBLINE_KEY: it.key, PLUMBLINE_ADDRESS: it.url };
  });
  after(() => it.close());

  test("what is not there is the API's own 404, and status 1", async () => {
    const names = Object.keys(calls).filter((name) => calls[name]!.missing);
    const spoken = await many(
      names.flatMap((name) => [[...wordsOf(name), "--json"], wordsOf(name)]),
      settings,
    );
    for (const [index, name] of names.entries()) {
      const [json, said] = spoken.slice(index * 2) as [Spoken, Spoken];
      assert.equal(json.code, exitCodes.failure.code, `${name}: ${json.stdout}`);
      assert.equal(errorOf(json).code, "not_found", name);
      assert.match(said.stderr, /plumbline: .*not found.*\. .+\n$/i, name);
      assert.equal(said.stdout, "", name);
    }
  });

  test("lists of nothing are no failure", async () => {
    const names = Object.keys(calls).filter((name) => / (ls|aligned)$/.test(name) && !calls[name]!.missing);
    for (const [index, { code, stdout }] of (await many(names.map(wordsOf), settings)).entries()) {
      assert.equal(code, exitCodes.ok.code, names[index]);
      assert.match(stdout, /^id +.+\n$/, names[index]);
    }
  });

  test("what the contract refuses is status 2, with the field", async () => {
    const wrong = [
      ["document", "ls", "--limit", "1000"],
      ["align", "ls", "--status", "HAPPY"],
      ["chat", "model_x", "--temperature", "7", "Hello"],
    ];
    for (const { code, stderr } of await many(wrong, settings)) {
      assert.equal(code, exitCodes.usage.code, stderr);
      assert.match(stderr, /plumbline: (limit|status|temperature): .+`detail` lists each field/);
    }
  });

  test("what is no number, no file and no JSON is status 2 before anything is asked", async (context) => {
    const file = join(temporaryFolder(context), "config.json");
    writeFileSync(file, "{");
    const wrong = [
      ["document", "ls", "--limit", "many"],
      ["document", "add", join(file, "none.md")],
      ["benchmark", "add", `${file}.none`],
      ["auto-align", "create", "alignment_x", "--target", "high"],
      ["auto-align", "create", "alignment_x", "--target", "80", "--config", file],
      ["chat", "model_x", "--max-tokens", "-1", "Hello"],
    ];
    for (const [index, { code, stderr }] of (await many(wrong, settings)).entries())
      assert.equal(code, exitCodes.usage.code, `${wrong[index]!.join(" ")}: ${stderr}`);
  });

  test("a wrong key is refused as such", async () => {
    const [json] = await many([["document", "ls", "--json"]], { ...settings, PLUMBLINE_KEY: "pl_wrong" });
    assert.deepEqual([json!.code, errorOf(json!).code], [exitCodes.failure.code, "unauthorized"]);
  });

  test("documents and a benchmark are added, listed, read and deleted", async (context) => {
    const folder = temporaryFolder(context);
    mkdirSync(join(folder, "more"));
    mkdirSync(join(folder, ".hidden"));
    writeFileSync(join(folder, "a.md"), "# A\n\nThe pump\tof hall A was inspected by Ada Brook.\n");
    writeFileSync(join(folder, "more/b.md"), "# B\n\nThe pump of hall B was inspected by Bo Lind.\n");
    writeFileSync(join(folder, "more/c.exe"), Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 0, 1, 2]));
    writeFileSync(join(folder, ".hidden/d.md"), "# D\n\nNobody should read this.\n");
    writeFileSync(join(folder, ".hidden/e.md"), "# E\n\nThe pump of hall E was inspected by Ed Rowe.\n");
    symlinkSync("../.hidden/e.md", join(folder, "more/e.md"));
    symlinkSync("..", join(folder, "more/up"));
    symlinkSync("nowhere", join(folder, "more/gone.md"));
    mkdirSync(join(folder, "empty"));
    const [nothing] = await many([["document", "add", join(folder, "empty"), "--json"]], settings);
    assert.deepEqual([nothing!.code, errorOf(nothing!).code], [exitCodes.usage.code, "usage"]);
    const questions = Array.from({ length: 6 }, (_, n) =>
      JSON.stringify({
        instruction: `Who inspected hall ${n}?`,
        response: `Person ${n}`,
        split: n < 3 ? "dev" : "sealed",
      }),
    );
    writeFileSync(join(folder, "questions.jsonl"), questions.join("\n"));

    const [added] = await many([["document", "add", join(folder, "a.md"), join(folder, "more"), "--json"]], settings);
    assert.equal(added!.code, exitCodes.usage.code, "one of the files cannot be read");
    const { documents, failed } = JSON.parse(added!.stdout) as {
      documents: { document_id: string; name: string }[];
      failed: { path: string; code: string }[];
    };
    assert.deepEqual(
      documents.map(({ name }) => name),
      ["a.md", "b.md", "e.md"],
    );
    assert.deepEqual(
      failed.map(({ path, code }) => [path, code]),
      [[join(folder, "more/c.exe"), "document_type"]],
    );
    const [id, other] = documents.map(({ document_id }) => document_id) as [string, string];

    const [made, listed, shown, text] = (await many(
      [
        ["benchmark", "add", join(folder, "questions.jsonl"), "--json"],
        ["document", "ls"],
        ["document", "show", id],
        ["document", "text", id],
      ],
      settings,
    )) as [Spoken, Spoken, Spoken, Spoken];
    const { benchmark_id: benchmark } = JSON.parse(made.stdout) as { benchmark_id: string };
    assert.match(listed.stdout, new RegExp(`^${other} +b\\.md +markdown .+\\n${id} +a\\.md`, "m"));
    assert.match(shown.stdout, new RegExp(`^${id} +a\\.md`, "m"));
    const words = await (await it.get(`/api/v3/documents/${id}/text`)).text();
    assert.equal(text.stdout, words, "piped, a content is what it is");

    const rest = await many(
      [
        ["benchmark", "ls"],
        ["benchmark", "data", benchmark],
        ["benchmark", "strike", benchmark, "--items", "1", "--reason", "unclear", "--json"],
        ["benchmark", "rm", benchmark, "--json"],
        ["benchmark", "show", benchmark],
        ["document", "rm", id],
        ["document", "show", id],
      ],
      settings,
    );
    assert.deepEqual(
      rest.map(({ code }) => code),
      [0, 0, 0, 0, exitCodes.failure.code, 0, exitCodes.failure.code],
      JSON.stringify(rest),
    );
    assert.match(rest[0]!.stdout, new RegExp(`^${benchmark} .* READY +6 +3/3/0`, "m"));
    assert.match(rest[1]!.stdout, /^1 +dev +short +Who inspected hall 0\? +Person 0$/m);
    assert.equal((JSON.parse(rest[2]!.stdout) as { version: number }).version, 2);
  });

  test("a finished alignment is shown, watched again, listed and reported", async (context) => {
    const folder = temporaryFolder(context);
    const { alignmentId: id, modelId } = insertModels(it.data, folder);
    const store = openStore(places(it.data).database);
    const fell = [{ name: "common knowledge", base: 60, aligned: 55, beyond_chance: true }];
    const verdict = { outcome: "gain", headline: "Worth it", why: ["more right"], help: ["more documents"], fell };
    store
      .prepare<string[]>("UPDATE alignment SET report_json = ?, metrics_json = ?, progress = 100 WHERE id = ?")
      .run(JSON.stringify({ verdict }), JSON.stringify({ rows: 42 }), id);
    store.close();
    const artefact = join(places(it.data).runs, id, "artefact");
    mkdirSync(artefact, { recursive: true });
    writeFileSync(join(artefact, "report.html"), "<!doctype html><title>Report</title>");
    writeFileSync(join(artefact, "../events.jsonl"), "");
    const page = join(folder, "report.html");
    const nowhere = [folder, join(folder, "none/report.html"), join(artefact, "report.html/report.html")];
    const refused = await many(
      nowhere.map((path) => ["report", id, "--html", path, "--json"]),
      settings,
    );
    for (const one of refused)
      assert.deepEqual([one.code, errorOf(one).code], [exitCodes.usage.code, "usage"], one.stdout);
    const [shown, followed, listed, json, html, stopped, removed] = (await many(
      [
        ["align", "show", id],
        ["align", "watch", id],
        ["align", "ls"],
        ["report", id, "--json"],
        ["report", id, "--html", page],
        ["align", "stop", id, "--json"],
        ["align", "rm", id],
      ],
      settings,
    )) as [Spoken, Spoken, Spoken, Spoken, Spoken, Spoken, Spoken];
    for (const { stdout, stderr } of [shown, followed]) {
      assert.match(stdout, /^status +COMPLETED, ended, 100\.0 %$/m, stderr);
      assert.match(
        stdout,
        new RegExp(`^verdict +Worth it\nbecause +more right\nwould help +more documents\nmodel +${modelId}$`, "m"),
      );
    }
    assert.match(listed.stdout, new RegExp(`^${id} +it +COMPLETED +100 %`, "m"));
    assert.deepEqual((JSON.parse(json.stdout) as { verdict: object }).verdict, verdict);
    assert.equal(html.stdout, `${page}\n`);
    assert.equal(readFileSync(page, "utf8"), "<!doctype html><title>Report</title>");
    assert.deepEqual([stopped.code, errorOf(stopped).code], [exitCodes.usage.code, "already_terminal"]);
    assert.match(removed.stdout, /Deleted\. Its model .+ is kept\./);
    const [reported] = await many([["report", id]], settings);
    assert.equal(reported!.code, exitCodes.failure.code);
  });

  test("the key is kept where only its user reads it, and asked with", async (context) => {
    const HOME = temporaryFolder(context);
    const path = join(HOME, ".config/plumbline/key");
    const data = join(HOME, "data");
    const create = ["key", "create", "--user", "ada", "--save", "--json"];
    const made = await plumbline(create, { HOME, PLUMBLINE_DATA: data });
    const { key } = JSON.parse(made.stdout) as { key: string };
    assert.equal(readFileSync(path, "utf8"), `${key}\n`);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const again = await plumbline(create, { HOME, PLUMBLINE_DATA: data });
    assert.equal(again.code, exitCodes.usage.code);
    const { keys } = JSON.parse((await plumbline(["key", "ls", "--json"], { PLUMBLINE_DATA: data })).stdout);
    assert.equal(keys.length, 1, "no key is made that cannot be kept");

    const address = { PLUMBLINE_ADDRESS: it.url, HOME };
    const ask = (env: Settings = {}) =>
      many([["document", "ls", "--json"]], { ...address, ...env }).then(([one]) => one!);
    assert.equal(errorOf(await ask()).code, "unauthorized", "it is another appliance's");
    writeFileSync(path, it.key, { mode: 0o600 });
    assert.equal((await ask()).code, exitCodes.ok.code);
    mkdirSync(join(HOME, "other/.config/plumbline"), { recursive: true });
    writeFileSync(join(HOME, "other/.config/plumbline/key"), it.key, { mode: 0o644 });
    assert.equal(errorOf(await ask({ HOME: join(HOME, "other") })).code, "config_invalid");
    assert.equal(errorOf(await ask({ HOME: join(HOME, "none") })).code, "key_missing");
    assert.equal(errorOf(await ask({ PLUMBLINE_KEY: `${it.key.slice(0, 11)}…` })).code, "config_invalid");
  });
});

describe("with a model", { skip: withoutModel }, () => {
  let it: Served;
  let settings: Settings;
  before(async () => {
    it = await servedHouse();
    settings = { PLUMBLINE_KEY: it.key, PLUMBLINE_ADDRESS: it.url };
  });
  after(() => it.close());

  test("a base and an aligned model answer, with and without confidence; the aligned one is deployed and taken out again", async () => {
    const { modelId } = it.align();
    const short = ["--max-tokens", "8", "When", "does", "the", "harbour", "open?"];
    const [base, refused, deployed, listed, json, said, undeployed] = (await many(
      [
        ["chat", it.baseId, ...short],
        ["chat", modelId, ...short, "--json"],
        ["deploy", modelId],
        ["model", "aligned"],
        ["chat", modelId, ...short, "--json"],
        ["chat", modelId, ...short],
        ["undeploy", modelId, "--json"],
      ],
      settings,
    )) as [Spoken, Spoken, Spoken, Spoken, Spoken, Spoken, Spoken];
    assert.equal(base.code, exitCodes.ok.code, base.stderr);
    assert.ok(base.stdout.trim().length > 0);
    assert.match(base.stderr, /no confidence: this is a base model/);
    assert.equal(errorOf(refused).code, "not_deployed");
    assert.match(deployed.stdout, new RegExp(`^${modelId} is deployed`), deployed.stderr);
    assert.match(listed.stdout, new RegExp(`^${modelId} +mine +DEPLOYED`, "m"));
    const told = JSON.parse(json.stdout) as {
      answer: string;
      confidence_score: number;
      usage: { total_tokens: number };
    };
    assert.equal(`${told.answer}\n`, said.stdout, "asked coldly, it says the same again");
    assert.equal(typeof told.confidence_score, "number");
    assert.ok(told.usage.total_tokens > 8);
    assert.match(said.stderr, /^confidence \d+ of 100, calibrated on 120 answers/m);
    assert.equal((JSON.parse(undeployed.stdout) as { status: string }).status, "READY");
  });

  test("on a terminal a talk goes on until Ctrl-D, and unsure words are underlined", async () => {
    const talk = `${launcher} chat ${it.baseId} --max-tokens 12 --system "Answer in rhyme"`;
    // A terminal of its own, which script(1) makes; what is typed into it comes by its standard input.
    const child = startProcess("script", ["-qec", talk, "/dev/null"], {
      env: { ...settings, TERM: "xterm", FORCE_COLOR: "1" },
    });
    let screen = "";
    child.stdout.on("data", (part: Buffer) => {
      screen += part.toString("utf8");
    });
    const shows = (what: RegExp): Promise<void> => eventually(() => what.test(screen), 30_000);
    await shows(/> /);
    child.stdin.write("Tell me a tale\r");
    await shows(/no confidence: this is a base model/);
    screen = "";
    child.stdin.write("And another\r");
    await shows(/no confidence: this is a base model/);
    assert.ok(screen.includes("\u001b[4m"), JSON.stringify(screen));
    child.stdin.write("\x04");
    assert.equal((await child.ended).code, exitCodes.ok.code);
  });

  test("an evaluation is followed to its scores, and followed again when it is over", async (context) => {
    const path = join(temporaryFolder(context), "questions.jsonl");
    const item = (n: number) => ({
      instruction: `What is ${n} plus ${n}?`,
      response: String(n + n),
      split: n % 2 ? "dev" : "sealed",
    });
    writeFileSync(path, [1, 2, 3, 4].map((n) => JSON.stringify(item(n))).join("\n"));
    const [made] = await many([["benchmark", "add", path, "--json"]], settings);
    const { benchmark_id } = JSON.parse(made!.stdout) as { benchmark_id: string };
    const [ended] = await many([["evaluate", "create", it.baseId, benchmark_id, "--json"]], settings);
    assert.equal(ended!.code, exitCodes.ok.code, ended!.stdout);
    const { evaluation_id, n } = JSON.parse(ended!.stdout) as { evaluation_id: string; n: number };
    assert.equal(n, 2);
    const [watched, listed] = await many(
      [
        ["evaluate", "watch", evaluation_id],
        ["evaluate", "ls"],
      ],
      settings,
    );
    assert.match(watched!.stdout, /^sealed +\d+\.\d +.+ +2$/m);
    assert.match(listed!.stdout, new RegExp(`^${evaluation_id} .* READY +4/4`, "m"));
  });
});
