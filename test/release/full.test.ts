// The release that carries models, alone on a machine without a network: it serves, a model answers, and the encoder can be imported.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type Finished, linesOf } from "../../src/base/processes.ts";
import { peersElsewhere } from "./debian.ts";
import { makeMachine } from "./machine.ts";

const machine = makeMachine({ full: true });
const folder = mkdtempSync(join(tmpdir(), "plumbline-full-"));
after(() => {
  machine.remove();
  rmSync(folder, { recursive: true });
});

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers as they are.
const answerOf = ({ code, stdout, stderr }: Finished): any => {
  assert.equal(code, 0, stdout + stderr);
  return JSON.parse(stdout);
};

test("without a network a first start serves, the starter model answers, and the encoder is there to be imported", async () => {
  const trace = join(folder, "trace");
  const serving = machine.start(["serve", "--json", "--attached"], {
    settings: { PLUMBLINE_PORT: "0" },
    network: "none",
    trace,
  });
  let log = "";
  serving.stderr.on("data", (part) => {
    log += part;
  });
  try {
    let address = "";
    for await (const line of linesOf(serving.stdout)) {
      address = (JSON.parse(line) as { address: string }).address;
      break;
    }
    assert.match(address, /^http:\/\/127\.0\.0\.1:/, log);
    const models = async () =>
      answerOf(await machine.run(["model", "ls", "--json"])).base_models as { model_id: string; model_name: string }[];
    while ((await models()).length === 0) await pause(500);
    const [starter] = await models();

    const { key } = answerOf(await machine.run(["key", "create", "--user", "ann", "--json"]));
    const client = { PLUMBLINE_KEY: key, PLUMBLINE_ADDRESS: address };
    const words = ["chat", starter!.model_id, "--max-tokens", "8", "--json", "Say", "hello"];
    const said = answerOf(await machine.run(words, client, serving));
    assert.match(said.answer, /\S/, log);

    const [unpacked] = readdirSync(machine.runtime);
    const encoder = join("/opt/plumbline/data/runtime", unpacked!, ".cache/all-minilm-l6-v2");
    answerOf(await machine.run(["model", "import", encoder, "--json"]));
    assert.equal((await models()).length, 2);
  } finally {
    serving.stdin.end();
    await serving.ended;
  }
  assert.deepEqual(peersElsewhere(trace), []);
  // The trace has seen it: it listens on the loopback device.
  assert.match(readFileSync(trace, "utf8"), /\bbind\(.*inet_addr\("127\.0\.0\.1"\)/);
});
