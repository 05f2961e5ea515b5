// The verbs that work at the machine: what each says and ends with where there is nothing to work on, and where another process holds
// the data. Those that ask the API have a table of their own (api-verbs.test.ts).
import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { places } from "../../src/base/config.ts";
import { type FailureCode, failures } from "../../src/base/errors.ts";
import { tryLock } from "../../src/base/lock.ts";
import { finish, startProcess } from "../../src/base/processes.ts";
import { grammarOf } from "../../src/cli/completion.ts";
import { type Exit, exitCodes } from "../../src/cli/exit-codes.ts";
import { createProgram } from "../../src/cli/verbs.ts";
import { many } from "./many.ts";
import { isOpen, launcher, plumbline, temporaryFolder } from "./plumbline.ts";

/** How a command ends: with a failure's code, or with an answer. */
type End = [FailureCode | "answer", Exit];

/** Of each verb at least one command; `@` stands for an empty folder. */
const commands: [words: string[], end: End][] = [
  [
    ["serve", "--attached", "extra"],
    ["usage", "usage"],
  ],
  [
    ["demo", "--workflow", "none"],
    ["usage", "usage"],
  ],
  [["doctor"], ["answer", "failure"]],
  [
    ["doctor", "--fix"],
    ["answer", "failure"],
  ],
  [
    ["install", "--dry-run", "--prefix", "@/usr", "--data", "@/data"],
    ["answer", "ok"],
  ],
  [
    ["install", "--dry-run", "--prefix", "usr"],
    ["usage", "usage"],
  ],
  [
    ["upgrade", "@/none", "--prefix", "@/usr"],
    ["not_installed", "failure"],
  ],
  [
    ["upgrade", "--prefix", "@/usr"],
    ["usage", "usage"],
  ],
  [
    ["uninstall", "--dry-run", "--prefix", "@/usr"],
    ["not_installed", "failure"],
  ],
  [
    ["model", "ls"],
    ["answer", "ok"],
  ],
  [
    ["model", "import", "@/none.gguf"],
    ["file_missing", "failure"],
  ],
  [
    ["model", "import", "@/text"],
    ["model_file_type", "usage"],
  ],
  [
    ["model", "import", "hf://organisation/name"],
    ["hub_unavailable", "usage"],
  ],
  [
    ["model", "rm", "model_x"],
    ["not_found", "failure"],
  ],
  [
    ["model", "export", "model_x", "--out", "@/a.gguf", "--format", "gguf"],
    ["not_found", "failure"],
  ],
  [
    ["evaluation", "stop", "evaluation_x"],
    ["not_found", "failure"],
  ],
  [
    ["key", "create", "--user", "ada"],
    ["answer", "ok"],
  ],
  [
    ["key", "create", "--user", "ada", "--scopes", "fly"],
    ["bad_request", "usage"],
  ],
  [
    ["key", "create", "--user", "ada", "--requests-per-minute", "many"],
    ["usage", "usage"],
  ],
  [
    ["key", "ls"],
    ["answer", "ok"],
  ],
  [
    ["key", "rotate", "key_x"],
    ["not_found", "failure"],
  ],
  [
    ["key", "revoke", "key_x"],
    ["not_found", "failure"],
  ],
  [["verify"], ["answer", "ok"]],
  [
    ["verify", "@/none"],
    ["data_missing", "failure"],
  ],
  [
    ["verify", "@/text"],
    ["backup_invalid", "usage"],
  ],
  [
    ["backup", "@/data/inside"],
    ["usage", "usage"],
  ],
  [
    ["backup", "@/text"],
    ["usage", "usage"],
  ],
  [
    ["backup", "@/backup"],
    ["answer", "ok"],
  ],
  [
    ["restore", "@/none", "--to", "@/restored"],
    ["data_missing", "failure"],
  ],
  [
    ["restore", "@/backup", "--to", "@/data"],
    ["folder_not_empty", "usage"],
  ],
  [
    ["restore", "@/backup", "--to", "@/restored"],
    ["answer", "ok"],
  ],
  [
    ["bundle", "key", "@/key.pem"],
    ["answer", "ok"],
  ],
  [
    ["bundle", "key", "@/key.pem"],
    ["usage", "usage"],
  ],
  [
    ["bundle", "create", "@/bundle", "--sign-with", "@/key.pem"],
    ["not_a_release", "failure"],
  ],
  [
    ["bundle", "apply", "@/bundle", "--prefix", "@/usr"],
    ["bundle_key_missing", "usage"],
  ],
  [
    ["bundle", "apply", "@/bundle", "--prefix", "@/usr", "--trust", `ed25519:${"A".repeat(43)}`],
    ["file_missing", "failure"],
  ],
  [
    ["support", "@/support.json"],
    ["answer", "ok"],
  ],
  [
    ["support", "@/support.json"],
    ["usage", "usage"],
  ],
  [
    ["bench", "train"],
    ["usage", "usage"],
  ],
  [
    ["bench", "serve", "--url", "http://127.0.0.1:9", "--key", "pl_x", "--model", "model_x"],
    ["api_unreachable", "failure"],
  ],
  [
    ["run", "@/none"],
    ["run_folder_invalid", "usage"],
  ],
  [
    ["fit-prior", "--none"],
    ["usage", "usage"],
  ],
  [
    ["train-writer", "--none"],
    ["usage", "usage"],
  ],
  [
    ["train-warm-start", "--work", "@/warm-start", "--dev", "0"],
    ["bad_request", "usage"],
  ],
  [
    ["completion", "bash"],
    ["answer", "ok"],
  ],
  [
    ["completion", "tcsh"],
    ["usage", "usage"],
  ],
];

/** They end the process, or answer in no JSON. */
const inProcess = ([verb]: string[]): boolean => verb !== "run";

test("each verb at the machine ends as it should: status, code, message and hint", async (context) => {
  const folder = temporaryFolder(context);
  mkdirSync(join(folder, "data"), { mode: 0o700 });
  writeFileSync(join(folder, "text"), "text\n");
  const settings = {
    ...{ PLUMBLINE_DATA: join(folder, "data"), PLUMBLINE_FREE_DISK: "0", PLUMBLINE_PORT: "0", HOME: folder },
    ...{ PLUMBLINE_TRAINER: join(folder, "none"), PLUMBLINE_STARTER_MODEL: join(folder, "none.gguf") },
  };
  const wordsOf = (words: string[]): string[] => words.map((word) => word.replace("@", folder));
  const rows = commands.filter(([words]) => inProcess(words));
  const spoken = await many(
    rows.map(([words]) => [...wordsOf(words), "--json"]),
    settings,
  );
  for (const [index, [words, [code, exit]]] of rows.entries()) {
    const said = spoken[index]!;
    const what = `${words.join(" ")}: ${said.stdout}${said.stderr}`;
    const answer = JSON.parse(said.stdout) as { error?: Record<string, string>; exit?: number };
    assert.equal(answer.error?.code ?? "answer", code, what);
    assert.equal(said.code, exitCodes[exit].code, what);
    if (answer.error === undefined) continue;
    assert.equal(answer.exit, said.code, what);
    assert.equal(answer.error.hint, failures[code as FailureCode].hint, what);
    assert.match(answer.error.message!, /^\S.*[^.\s]$/, what);
  }
  for (const [words, [code, exit]] of commands.filter(([words]) => !inProcess(words))) {
    // A run ends at once when its standard input closes: whoever started it is gone.
    const child = startProcess(launcher, wordsOf(words), { env: settings });
    const [said, ended] = await Promise.all([text(child.stderr), child.ended]);
    assert.equal(ended.code, exitCodes[exit].code, `${words.join(" ")}: ${said}`);
    assert.ok(said.includes(failures[code as FailureCode].hint), said);
  }
});

test("the tables have every verb", async () => {
  const leaves = grammarOf(await createProgram(), { hidden: true });
  const names = leaves.filter(({ path, words }) => path.length > 0 && words.length === 0).map(({ path }) => path);
  const { calls } = await import("./api-calls.ts");
  const known = (path: string[]): boolean =>
    path.join(" ") in calls || commands.some(([words]) => path.every((word, at) => words[at] === word));
  assert.deepEqual(
    names.filter((path) => !known(path)).map((path) => path.join(" ")),
    [],
  );
  const isVerb = (words: string[]): boolean => names.some((path) => path.every((word, at) => words[at] === word));
  assert.deepEqual(
    commands.map(([words]) => words).filter((words) => !isVerb(words)),
    [],
  );
});

test("where another process holds the data folder or the backup, the status is 75", async (context) => {
  const folder = temporaryFolder(context);
  const data = join(folder, "data");
  const settings = { PLUMBLINE_DATA: data, PLUMBLINE_FREE_DISK: "0", PLUMBLINE_STARTER_MODEL: "none.gguf" };
  assert.equal((await plumbline(["backup", join(folder, "backup")], settings)).code, exitCodes.failure.code);
  assert.equal((await plumbline(["key", "ls"], settings)).code, 0);
  assert.equal((await plumbline(["backup", join(folder, "backup")], settings)).code, 0);
  mkdirSync(join(folder, "into"), { mode: 0o700 });
  const locks = [places(data).lock, join(folder, "backup/lock"), join(folder, "into/lock")].map(tryLock);
  assert.ok(locks.every((lock) => lock !== null));
  try {
    const held: [string[], FailureCode][] = [
      [["key", "ls"], "data_locked"],
      [["serve"], "data_locked"],
      [["backup", join(folder, "backup")], "backup_locked"],
      [["restore", join(folder, "backup"), "--to", join(folder, "into")], "data_locked"],
    ];
    for (const [words, code] of held) {
      const { code: status, stdout } = await plumbline([...words, "--json"], settings);
      assert.deepEqual(
        [status, (JSON.parse(stdout) as { error: { code: string } }).error.code],
        [exitCodes.locked.code, code],
      );
    }
  } finally {
    for (const lock of locks) lock?.release();
  }
});

const isRoot = process.getuid?.() === 0;

test("a user who may not write the folder, or read the backup, is told who can restore", {
  skip: isRoot && !isOpen(launcher) && "needs a tree that every user can enter",
}, async (context) => {
  const folder = temporaryFolder(context);
  chmodSync(folder, 0o711);
  const [own, closed] = [join(folder, "own"), join(folder, "closed")];
  mkdirSync(own, { mode: 0o700 });
  mkdirSync(closed, { mode: 0o555 });
  const as = { uid: 65_534, gid: 65_534 };
  if (isRoot) chownSync(own, as.uid, as.gid);
  const env = { PLUMBLINE_DATA: join(own, "data"), PLUMBLINE_STARTER_MODEL: "none.gguf", HOME: own };
  const run = (...words: string[]) =>
    finish(startProcess(launcher, words, { env, cwd: "/", as }), { timeoutMs: 60_000, maxBytes: 1 << 20 });
  for (const words of [
    ["key", "ls"],
    ["backup", join(own, "backup")],
  ])
    assert.equal((await run(...words)).code, 0, words.join(" "));
  const unreadable = join(folder, "unreadable.tar");
  writeFileSync(unreadable, "", { mode: 0o000 });
  for (const [place, to] of [
    [join(own, "backup"), closed],
    [join(own, "backup"), join(closed, "restored")],
    [unreadable, join(own, "restored")],
  ] as const) {
    const { code, stdout } = await run("restore", place, "--to", to, "--json");
    const { error } = JSON.parse(stdout) as { error: { code: FailureCode; message: string } };
    assert.deepEqual([code, error.code], [exitCodes.failure.code, "restore_denied"], stdout);
    assert.ok(error.message.includes(place === unreadable ? unreadable : closed), error.message);
  }
});
