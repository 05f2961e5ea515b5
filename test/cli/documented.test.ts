// Every command of the README and of /help: typed as it stands there into a shell beside an appliance that is served, or named in a list
// of those that cannot be typed here, with the reason. What stands in them for the user's own (ids, the key, files) is put in.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { installation } from "../../src/base/config.ts";
import { encoder, makeReleaseTree } from "../helpers/bundle.ts";
import { docx, pdf } from "../helpers/document-files.ts";
import { freePort } from "../helpers/free-port.ts";
import { withChatTemplate } from "../helpers/mutants.ts";
import { template } from "../run/run-harness.ts";
import { documented, indentedBlocks, openShell, shellBlocks, type Typed } from "./documented.ts";
import { launcher, temporaryFolder } from "./plumbline.ts";

/** Its adapters are verified as on the bases that users have, which are quantised. */
const tinyModel = join(installation, "build/fixtures/tiny-q4_1.gguf");

const conformance = "installs Python packages; npm run test:conformance is the test of this section";
const service = "changes this machine's users, /etc and systemd";

/** By command, why it cannot be typed here, and where it is tested. */
const cannot: Record<string, string> = {
  "./install.sh && bin/plumbline demo":
    "installs this machine's packages; test/release/demo.test.ts runs the demo, test/cli/documented.test.ts its steps in `try`",
  "./install.sh && npm test": "installs this machine's packages, and would run this test again",
  "npm run test:conformance": conformance,
  "lm_eval --model local-completions --tasks TASK --model_args model=MODEL,base_url=http://127.0.0.1:8642/api/v3/inference/v1/completions,tokenizer_backend=remote,auth_token=$KEY":
    conformance,
  "sudo bin/plumbline install --dry-run": `${service}; test/cli/install.test.ts runs it on a machine of its own`,
  "sudo bin/plumbline install": `${service}; test/cli/install.test.ts runs it on a machine of its own`,
  "sudo plumbline upgrade FILE": `${service}; test/cli/upgrade.test.ts runs it on an installation of its own`,
  "sudo systemctl stop plumbline": service,
  "sudo mv /var/lib/plumbline /var/lib/plumbline.old": service,
  "sudo install -d -m 700 -o plumbline -g plumbline /var/lib/plumbline": service,
  "sudo plumbline restore /mnt/backup/plumbline --to /var/lib/plumbline": `${service}; test/cli/install.test.ts restores for a service`,
  "sudo systemctl start plumbline": service,
  "sudo plumbline uninstall": `${service}; test/cli/install.test.ts runs it on a machine of its own`,
  "npm run release": "compresses for minutes; the tests of test/release run what it has made",
  "scp build/release/plumbline-0.1.0-linux-x64 host:/opt/plumbline/plumbline && ssh host /opt/plumbline/plumbline serve":
    "needs another host; test/release/executable.test.ts does it in a root folder of its own",
  "npm run types && npx node --test test/house.test.ts":
    "checks all types, which takes a minute; npm test begins with it",
};

/** What the typed commands have made so far. */
interface Made {
  key: string;
  /** What bundles are signed with: the public key. */
  bundleKey: string;
  document: string;
  benchmark: string;
  alignment: string;
  /** Aligned models, newest first. */
  models: string[];
  base: string;
}

interface Step {
  line: string;
  /** What is typed in its place; without it, the line with the user's own put in. */
  as?: (line: string, made: Made) => string;
  /** Looks at what it said, and waits for the work that it has begun. */
  after?: (typed: Typed, made: Made) => void | Promise<void>;
}

/** A table, of which fixed forms make questions: the tests' model could write none. */
const title = ["Place", "Opens at", "Led by", "Number", "Colour"];
const table = ["Harbour", "Quay", "Crane", "Pilot", "Lighthouse", "Ferry"].map((place, at) => [
  place,
  `${at + 5}:30`,
  ["Ada Brook", "Bo Lind", "Cy Moss", "Di Penn", "Ed Rowe", "Flo Quill"][at]!,
  String(4711 + 13 * at),
  ["red", "green", "blue", "white", "yellow", "black"][at]!,
]);
const lines = [title, ...table];
const markdown = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

const questions = table.flatMap(([place, opens, leader]) => [
  { instruction: `When may one enter ${place}?`, response: opens, split: "dev" },
  { instruction: `Who is the head of ${place}?`, response: leader, split: "sealed" },
]);

/** The files that the commands name, and `bin/plumbline`, `plumbline` and `sudo`. */
function prepare(folder: string): void {
  const page = lines.flatMap((cells, row) => cells.map((text, at) => ({ text, x: 72 + 100 * at, y: 760 - 20 * row })));
  const write = (name: string, content: string | Buffer): void => writeFileSync(join(folder, name), content);
  for (const name of ["bin", "path", "policies", "mnt/backup"]) mkdirSync(join(folder, name), { recursive: true });
  write("handbook.pdf", pdf([page]));
  const rule = (cells: string[]): string => `<w:p><w:r><w:t>${cells[2]} keeps the ${cells[0]}.</w:t></w:r></w:p>`;
  write("rules.docx", docx(table.map(rule).join("")));
  const visits = [markdown(title), markdown(title.map(() => "---")), ...table.map(markdown)];
  write("policies/visits.md", `# Visits\n\n${visits.join("\n")}\n`);
  write("questions.jsonl", questions.map((one) => JSON.stringify(one)).join("\n"));
  write("tiny.gguf", withChatTemplate(readFileSync(tinyModel), template));
  symlinkSync(join(folder, "tiny.gguf"), join(folder, "model.gguf"));
  symlinkSync(encoder, join(folder, "all-minilm-l6-v2"));
  symlinkSync(launcher, join(folder, "bin/plumbline"));
  symlinkSync(launcher, join(folder, "path/plumbline"));
  writeFileSync(join(folder, "path/sudo"), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
}

interface Place {
  folder: string;
  address: string;
  /** Words that start a release, which is what makes bundles. */
  release: string;
}

/** A line with the user's own put in. `models` are taken in turn. */
function filled({ folder, address }: Place, line: string, made: Made, models: readonly string[] = []): string {
  const left = [...models];
  return line
    .replaceAll("http://127.0.0.1:8642", address)
    .replaceAll("pl_…", made.key)
    .replaceAll("/mnt/backup", join(folder, "mnt/backup"))
    .replaceAll(/\b(document|benchmark|alignment)_(?:…|\w{24})/g, (_, kind: "document") => made[kind])
    .replaceAll(/\bmodel_(?:…|\w{24})/g, () => left.shift()!);
}

const ends = ["READY", "FAILED", "COMPLETED", "STOPPED", "REACHED", "BUDGET_SPENT", "PAUSED"];

/** Asks until something has come to its end; returns its record. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
async function ended({ address }: Place, path: string, { key }: Made): Promise<any> {
  for (;;) {
    const answer = await fetch(`${address}/api/v3/${path}`, { headers: { Authorization: `Bearer ${key}` } });
    const record = (await answer.json()) as { status: string };
    assert.ok(answer.ok, `${path}: ${JSON.stringify(record)}`);
    if (ends.includes(record.status)) return record;
    await pause(500);
  }
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await pause(500);
}

/** In the order in which they are typed. */
function steps(at: Place): Step[] {
  const { folder, address, release } = at;
  const asked = (path: string, key: string) =>
    fetch(`${address}/api/v3/${path}`, { headers: { Authorization: `Bearer ${key}` } });
  /** The newest alignment's model, deployed or not, when its evaluation is over. */
  const aligned = async (made: Made): Promise<void> => {
    const record = await ended(at, `alignment-projects/${made.alignment}/status`, made);
    assert.equal(record.status, "COMPLETED", JSON.stringify(record.error));
    made.models.unshift(record.model_id);
    await ended(at, `evaluations/${record.evaluation_id}`, made);
  };
  const idIn = (kind: string, { stdout }: Typed): string => {
    const [id] = new RegExp(`\\b${kind}_\\w{24}\\b`).exec(stdout) ?? [];
    assert.ok(id, stdout);
    return id;
  };
  const settle = (path: (made: Made) => string) => async (_: Typed, made: Made) =>
    void (await ended(at, path(made), made));
  const answered = ({ stdout }: Typed): void => assert.match(stdout, /\S/);
  const ofBenchmark = settle(({ benchmark }) => `benchmarks/${benchmark}`);

  return [
    {
      line: "bin/plumbline serve",
      as: (line) => `${line} 2>served.log & serving=$!`,
      after: () =>
        until(() =>
          fetch(`${address}/healthz`).then(
            ({ ok }) => ok,
            () => false,
          ),
        ),
    },
    {
      line: "bin/plumbline key create --user ann",
      after: async ({ stdout }, made) => {
        made.key = stdout.trim();
        const bases = async () => (await (await asked("models/base", made.key)).json()) as { base_models: object[] };
        await until(async () => (await bases()).base_models.length > 0);
      },
    },
    { line: "bin/plumbline try", as: (line, { key }) => `PLUMBLINE_KEY=${key} ${line}`, after: answered },

    // The whole way, with curl.
    { line: "KEY=pl_…" },
    { line: "B=http://127.0.0.1:8642/api/v3" },
    { line: 'get()    { curl -sS -H "Authorization: Bearer $KEY" "$B/$1"; }' },
    {
      line: `post()   { curl -sS -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d "$2" "$B/$1"; }`,
    },
    { line: 'upload() { curl -sS -H "Authorization: Bearer $KEY" -F "file=@$2" "$B/$1"; }' },
    { line: 'delete() { curl -sS -H "Authorization: Bearer $KEY" -X DELETE "$B/$1"; }' },
    { line: "DOCUMENT=$(upload documents/upload handbook.pdf | jq -r '.documents[0].document_id')" },
    {
      line: "get documents/$DOCUMENT/text",
      after: ({ stdout }) =>
        assert.ok(
          table.flat().every((cell) => stdout.includes(cell)),
          stdout,
        ),
    },
    { line: "BASE=$(get models/base | jq -r '[.base_models[] | select(.can_be_aligned)][0].model_id')" },
    {
      line: `BENCHMARK=$(post benchmarks/create '{"document_ids": ["'$DOCUMENT'"], "n_samples": 100}' | jq -r .benchmark_id)`,
      after: ofBenchmark,
    },
    {
      line: "get benchmarks/$BENCHMARK",
      after: ({ stdout }) => assert.equal((JSON.parse(stdout) as { status: string }).status, "READY", stdout),
    },
    { line: "BENCHMARK=$(upload benchmarks/upload questions.jsonl | jq -r .benchmark_id)", after: ofBenchmark },
    {
      line: `RUN='{"alignment_name": "handbook", "base_model_id": "'$BASE'", "document_ids": ["'$DOCUMENT'"], "benchmark_id": "'$BENCHMARK'", "workflow_id": "quick"}'`,
    },
    {
      line: 'post alignment-projects/estimate "$RUN"',
      after: ({ stdout }) => assert.ok((JSON.parse(stdout) as { rows: { likely: number } }).rows.likely > 0, stdout),
    },
    {
      line: 'ALIGNMENT=$(post alignment-projects/create "$RUN" | jq -r .alignment_id)',
      after: (_, made) => aligned(made),
    },
    { line: "get alignment-projects/$ALIGNMENT/status" },
    {
      line: "get alignment-projects/$ALIGNMENT/status | jq .verdict",
      after: ({ stdout }) => assert.match((JSON.parse(stdout) as { headline: string }).headline, /\S/),
    },
    { line: "MODEL=$(get alignment-projects/$ALIGNMENT/status | jq -r .model_id)" },
    { line: "EVALUATION=$(get alignment-projects/$ALIGNMENT/status | jq -r .evaluation_id)" },
    {
      line: "post models/deploy-model/$MODEL '{}'",
      after: settle(({ models }) => `models/deploy-model/${models[0]}/status`),
    },
    {
      line: "get models/deploy-model/$MODEL/status",
      after: ({ stdout }) => assert.equal((JSON.parse(stdout) as { status: string }).status, "READY"),
    },
    {
      line: "get evaluations/$EVALUATION/results",
      after: ({ stdout }) => assert.ok((JSON.parse(stdout) as { n: number }).n > 0, stdout),
    },
    {
      line: `post inference/chat/completions '{"model": "handbook", "messages": [{"role": "user", "content": "When does the harbour open?"}]}'`,
      after: ({ stdout }) =>
        assert.equal(typeof (JSON.parse(stdout) as { confidence_score: number }).confidence_score, "number"),
    },
    {
      line: `AGENT=$(post agents '{"name": "desk", "base_model": "'$MODEL'", "system_prompt": "Answer in one sentence.", "temperature": 0.2}' | jq -r .data.id)`,
    },
    { line: `post agents/$AGENT/run '{"message": "When does the harbour open?"}'`, after: answered },

    // Auto-align, before its project is deleted.
    {
      line: `AUTO=$(post alignment-projects/$ALIGNMENT/auto-align '{"target_score": 70, "max_compute_hours": 2}' | jq -r .auto_align_id)`,
    },
    { line: "get alignment-projects/$ALIGNMENT/auto-align/$AUTO", after: answered },
    {
      line: "post alignment-projects/$ALIGNMENT/auto-align/$AUTO/stop '{}'",
      after: ({ stdout }, made) =>
        ended(
          at,
          `alignment-projects/${made.alignment}/auto-align/${idIn("auto_align", { code: 0, stdout, stderr: "" })}`,
          made,
        ),
    },
    { line: "delete alignment-projects/$ALIGNMENT" },
    { line: "delete agents/$AGENT" },
    { line: "post models/undeploy-model/$MODEL '{}'" },
    { line: "while get models/deploy-model/$MODEL/status | grep -q PROCESSING; do sleep 1; done" },
    { line: "delete models/$MODEL", after: (_, made) => void made.models.shift() },
    { line: 'delete "benchmarks/$BENCHMARK?evaluations=true"' },
    { line: "delete documents/$DOCUMENT" },

    // From the command line.
    { line: "bin/plumbline key create --user ann --save" },
    {
      line: "bin/plumbline document add handbook.pdf policies/",
      after: (typed, made) => {
        made.document = idIn("document", typed);
      },
    },
    { line: "plumbline model ls", after: answered },
    { line: "plumbline document add handbook.pdf rules.docx", after: answered },
    {
      line: "bin/plumbline benchmark create --documents document_… --samples 100",
      after: (typed) => void idIn("benchmark", typed),
    },
    {
      line: "plumbline benchmark add questions.jsonl",
      after: (typed, made) => {
        made.benchmark = idIn("benchmark", typed);
      },
    },
    {
      line: "bin/plumbline align create --name handbook --base model_… --documents document_… --benchmark benchmark_… --preset quick",
      as: (line, made) => filled(at, line, made, [made.base]),
      after: async (typed, made) => {
        made.alignment = idIn("alignment", typed);
        await aligned(made);
      },
    },
    {
      line: "bin/plumbline report alignment_…",
      after: ({ stdout }) => assert.match(stdout, /verdict/),
    },
    { line: "bin/plumbline deploy model_…", as: (line, made) => filled(at, line, made, made.models) },
    { line: "bin/plumbline chat handbook When does the harbour open?", after: answered },
    // While one alignment has that name.
    { line: 'plumbline chat handbook "When does the harbour open?"', after: answered },

    // What /help has besides.
    { line: "plumbline key create --user ann", after: ({ stdout }) => assert.match(stdout, /^pl_/) },
    {
      line: "plumbline benchmark create --documents document_1q5w9r3t7y2z6x0c4v8b3n7m --samples 100",
      after: (typed) => void idIn("benchmark", typed),
    },
    {
      line: "plumbline align create --name handbook --base model_6t2k8n4q0w5x1z7c3v9b5m1p --documents document_1q5w9r3t7y2z6x0c4v8b3n7m --benchmark benchmark_2b6d0f4h8k3m7p1r5t9v2x6z --preset quick",
      as: (line, made) => filled(at, line, made, [made.base]),
      after: async (typed, made) => {
        made.alignment = idIn("alignment", typed);
        await aligned(made);
      },
    },
    { line: "plumbline report alignment_8d3f6h1j5k9m2n7p4q0r8s6t", after: answered },
    {
      line: "plumbline deploy model_3c7e1g5j9m4p8s2v6y0b5d9f",
      as: (line, made) => filled(at, line, made, made.models),
    },
    {
      line: "plumbline evaluate compare model_3c7e1g5j9m4p8s2v6y0b5d9f model_4d8f2h6k0n5q9t3w7z1c6e0g benchmark_2b6d0f4h8k3m7p1r5t9v2x6z",
      as: (line, made) => filled(at, line, made, made.models),
      after: answered,
    },
    {
      line: "plumbline auto-align create alignment_8d3f6h1j5k9m2n7p4q0r8s6t --target 85 --max-hours 4",
      // It would be followed for hours.
      as: (line, made) => `${filled(at, line, made)} --detach`,
      after: (typed) => void idIn("auto_align", typed),
    },

    // Backups, beside the appliance that serves.
    { line: "bin/plumbline backup /mnt/backup/plumbline" },
    { line: "bin/plumbline verify /mnt/backup/plumbline" },
    {
      line: "bin/plumbline restore /mnt/backup/plumbline --to restored",
      after: () => assert.ok(existsSync(join(folder, "restored/plumbline.db"))),
    },
    { line: "bin/plumbline doctor --fix" },
    { line: "bin/plumbline support --log served.log" },

    // Without a network.
    {
      line: "plumbline bundle key bundle.pem",
      after: ({ stdout }, made) => {
        made.bundleKey = /ed25519:\S+/.exec(stdout)![0];
      },
    },
    {
      line: "plumbline bundle create plumbline.bundle --sign-with bundle.pem --model model.gguf --model all-minilm-l6-v2/ --not-after 90d",
      as: (line) => line.replace("plumbline", release),
      after: () => assert.ok(existsSync(join(folder, "plumbline.bundle"))),
    },
    {
      line: "sudo plumbline bundle apply plumbline.bundle --dry-run",
      as: trusted,
      after: ({ stdout }) => assert.match(stdout, /all-minilm-l6-v2/),
    },
    { line: "sudo plumbline bundle apply plumbline.bundle", as: trusted },

    // In the source tree.
    { line: "npx node --test test/domain/grade.test.ts", as: inTree },
    { line: 'npx node --test --test-name-pattern "runner" test/jobs/queue.test.ts', as: inTree },
  ];
}

/** The settings pin the key of whoever makes bundles. */
const trusted = (line: string, { bundleKey }: Made): string => `PLUMBLINE_BUNDLE_KEYS=${bundleKey} ${line}`;
const inTree = (line: string): string => `(cd ${installation} && ${line})`;

test("every command of the README and of /help is typed by this test, or is known not to be", () => {
  const typed = new Set(steps({ folder: "", address: "", release: "" }).map(({ line }) => line));
  const all = Object.entries(documented).flatMap(([place, lines]) => lines.map((line) => ({ place, line })));
  assert.ok(documented.README.length > 60 && documented.help.length > 10);
  for (const { place, line } of all)
    assert.ok(typed.has(line) !== line in cannot, `${line} of ${place} has to be in one of this test's two lists`);
  const known = new Set(all.map(({ line }) => line));
  for (const line of [...typed, ...Object.keys(cannot)])
    assert.ok(known.has(line), `${line} is in no page any more: take it out of this test's list`);
});

test("commands of the README are fenced; what is indented is a drawing", () => {
  assert.ok(shellBlocks.length >= 10);
  assert.deepEqual(
    indentedBlocks.map((line) => line.split(/\s/)[0]),
    ["documents", "src/main.ts", "base"],
  );
});

test("each of them does what it is there for, typed one after the other beside an appliance with the tests' model", {
  skip: existsSync(tinyModel) ? false : `no tiny model at ${tinyModel}`,
  timeout: 3_600_000,
}, async (context: TestContext) => {
  const folder = temporaryFolder(context);
  prepare(folder);
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  const shell = openShell(folder, {
    PATH: `${folder}/path:${process.env.PATH}`,
    HOME: folder,
    PLUMBLINE_DATA: join(folder, "data"),
    PLUMBLINE_ADDRESS: address,
    PLUMBLINE_PORT: String(port),
    PLUMBLINE_STARTER_MODEL: join(folder, "tiny.gguf"),
    ...{ PLUMBLINE_FREE_DISK: "0", PLUMBLINE_SLOTS: "2", PLUMBLINE_SLOT_CONTEXT: "512", PLUMBLINE_THREADS: "1" },
  });
  context.after(async () => {
    await shell.type("kill $serving; wait $serving");
    await shell.close();
  });
  makeReleaseTree(folder, "9.9.9");
  const release = `PLUMBLINE_EXECUTABLE=${folder}/executable-9.9.9 ${folder}/9.9.9/bin/plumbline`;
  const place = { folder, address, release };
  const made: Made = { key: "", bundleKey: "", document: "", benchmark: "", alignment: "", models: [], base: "" };
  for (const { line, as, after } of steps(place)) {
    const typed = await shell.type((as ?? filled.bind(null, place))(line, made));
    const said = `${line}\n${typed.stdout}${typed.stderr}`;
    assert.equal(typed.code, 0, said);
    // curl's status says nothing of the answer's.
    if (/^(get|post|upload|delete) /.test(line) && typed.stdout.startsWith("{"))
      assert.ok(!("detail" in (JSON.parse(typed.stdout) as object)), said);
    const [, variable] = /^([A-Z]+)=\$\(/.exec(line) ?? [];
    if (variable !== undefined) {
      const id = (await shell.type(`echo $${variable}`)).stdout.trim();
      assert.match(id, /^[a-z_]+_\w{24}$/, said);
      const name = variable.toLowerCase();
      if (name in made && name !== "models") made[name as "key"] = id;
    }
    await after?.(typed, made);
  }
});
