// What a shell completes by is made of the definitions of the verbs, so that it knows each of them.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { finish, startProcess } from "../../src/base/processes.ts";
import { renderers } from "../../src/cli/completion/scripts.ts";
import { grammarOf } from "../../src/cli/completion.ts";
import { createProgram } from "../../src/cli/verbs.ts";
import { plumbline, temporaryFolder } from "./plumbline.ts";

const grammar = grammarOf(await createProgram());

/** What bash offers for the last word. */
async function offered(script: string, ...words: string[]): Promise<string[]> {
  const ask = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _plumbline; printf "%s\\n" "\${COMPREPLY[@]}"`;
  const child = startProcess("bash", ["-c", ask, "bash", script, "plumbline", ...words]);
  const { stdout, stderr } = await finish(child, { timeoutMs: 10_000, maxBytes: 1 << 20 });
  assert.equal(stderr, "");
  return stdout.split("\n").filter((line) => line !== "");
}

test("bash completes verbs, their commands, options, and what these take", async (context) => {
  const folder = temporaryFolder(context);
  const script = join(folder, "completion");
  writeFileSync(script, (await plumbline(["completion", "bash"])).stdout);
  writeFileSync(join(folder, "a file.md"), "");
  assert.deepEqual(await offered(script, "docu"), ["document"]);
  assert.deepEqual(await offered(script, "document", ""), ["add", "ls", "show", "text", "rm"]);
  assert.deepEqual(await offered(script, "document", "add", "--pers"), ["--personal-data"]);
  assert.deepEqual(await offered(script, "document", "add", "--personal-data", ""), ["off", "flag", "mask"]);
  assert.deepEqual(await offered(script, "document", "add", join(folder, "a f")), [join(folder, "a file.md")]);
  assert.deepEqual(await offered(script, "--json", "completion", "z"), ["zsh"]);
  assert.deepEqual(await offered(script, "document", "show", ""), []);
});

for (const shell of ["bash", "zsh", "fish"] as const)
  test(`${shell}'s script has every command and every option of it`, () => {
    const lines = renderers[shell](grammar).split("\n");
    for (const { path, options } of grammar) {
      const command = path.join(" ");
      // bash and zsh have a case for each command; fish has a line for each of its options.
      const own = lines.filter((line) =>
        shell === "fish"
          ? line.includes(String.raw`'__plumbline_at '\''${command}'\'''`)
          : line.trimStart().startsWith(`'${command}') if [[`),
      );
      assert.ok(own.length > 0, command);
      for (const { word } of options) {
        const form = shell === "fish" ? new RegExp(`-l ${word.slice(2)} `) : new RegExp(`${word}(?![a-z-])`);
        assert.ok(
          own.some((line) => form.test(line)),
          `${command} ${word}`,
        );
      }
    }
  });

test("what is said of a command cannot break out of its quotes", () => {
  const tricky = [{ path: [], words: [{ word: "a", about: "the owner's; $(touch x)" }], options: [], takes: [] }];
  assert.match(renderers.fish(tricky), /-d 'the owner'\\''s; \$\(touch x\)'/);
});
