// An organisation's own verifiers as real processes: what they may do, what they say, and what becomes of those that do neither.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Failure } from "../../../src/base/errors.ts";
import { judgeByProgram, openPrograms } from "../../../src/run/rewards/programs.ts";
import { itemOf } from "./items.ts";

const folder = mkdtempSync(join(tmpdir(), "verifiers-"));
after(() => rmSync(folder, { recursive: true }));

const script = (name: string, lines: string): void =>
  writeFileSync(join(folder, name), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
const node = (name: string, code: string): void =>
  writeFileSync(join(folder, name), `#!${process.execPath}\n${code}\n`, { mode: 0o755 });

const never = new AbortController().signal;
const { refusal } = await openPrograms(folder);
const options = { skip: refusal ?? false };
const judge = (name: string, answer = "x", signal = never) =>
  judgeByProgram(folder, name, itemOf({ prompt: "How long?", reference: "30", passage: "30 days" }), answer, signal);

/** Reads the line, then runs `reply`, whose value is the reward. */
const replying = (reply: string): string =>
  `let text = ""; process.stdin.on("data", (part) => { text += part; }).on("end", () => {
     const lines = text.split("\\n"); const asked = JSON.parse(lines[0]);
     Promise.resolve((${reply})(asked, lines)).then((reward) => console.log(JSON.stringify({ reward })));
   });`;

test("a program reads one line and its reward is paid", options, async () => {
  node(
    "equal.js",
    replying(
      "(asked, lines) => asked.answer === 'line\\n\\u2028\\ud800' && lines.length === 2 && Object.keys(asked).join() === 'prompt,answer,reference,passage' ? 0.25 : 0",
    ),
  );
  assert.deepEqual(await judge("equal.js", "line\n\u2028\ud800"), { reward: 0.25, problem: null });
  assert.deepEqual(await judge("equal.js", "other"), { reward: 0, problem: null });
});

test("whatever is no valid line is unknown, and says why", options, async () => {
  const outputs: [string, number | null, RegExp | null][] = [
    ['{"reward": 1}', 1, null],
    ['{"reward": 1, "note": "extra"}', 1, null],
    ['{"reward": null}', null, null],
    ['{"reward": 1.01}', null, /one line/],
    ['{"reward": -0.1}', null, /one line/],
    ['{"reward": "1"}', null, /one line/],
    ['{"reward": NaN}', null, /one line/],
    ['{"score": 1}', null, /one line/],
    ["[1]", null, /one line/],
    ["1", null, /one line/],
    ["null", null, /one line/],
    ['loading\n{"reward": 1}', null, /one line/],
    ['{"reward": 1}\n{"reward": 1}', null, /one line/],
    ["", null, /one line/],
  ];
  for (const [said, reward, problem] of outputs) {
    script("says", `cat >/dev/null\ncat <<'END'\n${said}\nEND`);
    const judged = await judge("says");
    assert.equal(judged.reward, reward, said);
    if (problem === null) assert.equal(judged.problem, null, said);
    else assert.match(judged.problem!, problem, said);
  }
  script("fails", 'echo "{\\"reward\\": 1}"; echo no licence >&2; exit 3');
  assert.deepEqual(await judge("fails"), { reward: null, problem: "it ended with 3: no licence" });
  writeFileSync(join(folder, "broken"), "#!/no/such/program\n", { mode: 0o755 });
  assert.match((await judge("broken")).problem!, /ended with 12[67]/);
});

test("a program that never reads its line is judged by what it says", options, async () => {
  script("deaf", 'echo "{\\"reward\\": 1}"');
  assert.equal((await judge("deaf", "x".repeat(1_000_000))).reward, 1);
});

test("a program has neither our environment nor the network", options, async () => {
  script(
    "env",
    'cat >/dev/null; env | cut -d= -f1 | grep -qvE "^(PATH|LANG|PWD|SHLVL|_|OLDPWD)$" && exit 1; echo "{\\"reward\\": 1}"',
  );
  assert.deepEqual(await judge("env"), { reward: 1, problem: null });
  const server = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  const connects = `() => new Promise((resolve) => require("net").connect(${port}, "127.0.0.1")
    .on("connect", () => resolve(0)).on("error", (error) => resolve(error.code === "ENETUNREACH" ? 1 : 0.5)))`;
  writeFileSync(join(folder, "net.cjs"), `#!${process.execPath}\n${replying(connects)}\n`, { mode: 0o755 });
  assert.equal((await judge("net.cjs")).reward, 1);
  server.close();
});

test("a program that takes too much of time, memory or output is ended, with its children", options, async () => {
  script("flood", "cat >/dev/null; yes");
  assert.deepEqual(await judge("flood"), { reward: null, problem: "it wrote too much output" });
  node(
    "hungry.js",
    replying(
      "() => { const held = []; for (let n = 0; n < 300; n++) held.push(Buffer.alloc(10 << 20, 1)); return 1; }",
    ),
  );
  const hungry = await judge("hungry.js");
  assert.equal(hungry.reward, null);
  assert.match(hungry.problem!, /ended with/);
  // It would hold our end of the pipe open for as long as it lives.
  script("leaves", 'cat >/dev/null; sleep 1000 & echo "{\\"reward\\": 1}"');
  assert.equal((await judge("leaves")).reward, 1);
  script("spins", "while :; do :; done");
  assert.equal((await judge("spins")).reward, null);
});

test("an aborted call ends its program and throws the signal's reason", options, async () => {
  script("sleeps", "sleep 1000 & sleep 1000");
  const abort = new AbortController();
  setTimeout(() => abort.abort(new Error("stopped")), 300);
  const start = performance.now();
  await assert.rejects(judge("sleeps", "x", abort.signal), /stopped/);
  assert.ok(performance.now() - start < 5000);
  await assert.rejects(judge("sleeps", "x", abort.signal), /stopped/);
});

test("programs are the executable files of the folder itself", async () => {
  const other = mkdtempSync(join(tmpdir(), "verifiers-"));
  try {
    writeFileSync(join(other, "units.py"), "", { mode: 0o755 });
    writeFileSync(join(other, "notes.txt"), "", { mode: 0o644 });
    writeFileSync(join(other, ".hidden"), "", { mode: 0o755 });
    writeFileSync(join(other, "-rf"), "", { mode: 0o755 });
    mkdirSync(join(other, "folder"));
    symlinkSync("/bin/true", join(other, "link"));
    assert.deepEqual((await openPrograms(other)).names, ["units.py"]);
  } finally {
    rmSync(other, { recursive: true });
  }
  await assert.rejects(
    openPrograms(join(folder, "absent")),
    (error: Failure) => error.code === "config_invalid" && /PLUMBLINE_VERIFIERS/.test(error.message),
  );
});
