// kill -9 of serve while it carries out an auto-align, and two ordinary clients beside it: a receiver of webhooks that drops some of
// them, and a reader of the event stream that connects again with the last id it saw. Each is told every transition once, in order.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { places } from "../../src/base/config.ts";
import { openStore } from "../../src/store/open.ts";
import { plumbline } from "../cli/plumbline.ts";
import { insertEndedProject } from "../helpers/ended-project.ts";
import { freePort } from "../helpers/free-port.ts";
import { withChatTemplate } from "../helpers/mutants.ts";
import { documentOf } from "../helpers/study.ts";
import { type Receiver, secret, startReceiver } from "../helpers/webhooks.ts";
import { recipeOf, template, tinyModel } from "../run/run-harness.ts";
import { Killed, randomFrom } from "./killed.ts";

const lamps = ["Orla", "Brim", "Cusk", "Dell", "Ember", "Fathom", "Grove", "Heath", "Isle", "Jetty", "Knoll", "Loch"];
const colours = ["red", "blue", "green"];
const stock = documentOf(
  [
    "# Stock",
    "",
    "| Lamp | Colour |",
    "|---|---|",
    ...lamps.map((lamp, at) => `| ${lamp} | ${colours[at % 3]} |`),
    "",
  ].join("\n"),
  "text/markdown",
  "stock.md",
);
const benchmark = lamps
  .flatMap((lamp, at) =>
    (["dev", "sealed"] as const).map((split) => ({
      instruction: split === "dev" ? `Please name the hue that ${lamp} has.` : `So ${lamp} shines in which tone?`,
      response: colours[at % 3],
      cluster: `${split} ${lamp}`,
      split,
    })),
  )
  .map((item) => JSON.stringify(item))
  .join("\n");

const folder = mkdtempSync(join(tmpdir(), "plumbline-served-"));
const random = randomFrom(20_261_126);
let receiver: Receiver;
let it: Killed;
const reader = new AbortController();
after(async () => {
  reader.abort();
  await it.close();
  await receiver.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** What a browser's EventSource does: reads on, and connects again from the last id wherever it is cut off. */
async function readTransitions(url: string, key: string, signal: AbortSignal): Promise<string[]> {
  const told: string[] = [];
  let lastId: string | null = null;
  while (!signal.aborted) {
    try {
      const headers = { authorization: `Bearer ${key}`, ...(lastId !== null && { "last-event-id": lastId }) };
      const response = await fetch(url, { headers, signal });
      assert.equal(response.status, 200);
      let pending = "";
      for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
        pending += part;
        const events = pending.split("\n\n");
        pending = events.pop()!;
        for (const event of events) {
          const fields = new Map(
            event.split("\n").map((line) => /^(\w*): ?(.*)$/.exec(line)?.slice(1, 3) as [string, string]),
          );
          lastId = fields.get("id") ?? lastId;
          if (fields.get("event") === "transition") told.push(transitionOf(JSON.parse(fields.get("data")!)));
        }
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    await delay(200);
  }
  return told;
}

interface Transition {
  from: string;
  to: string;
  phase: string | null;
}

const transitionOf = ({ from, to, phase }: Transition): string => `${from} ${to}${phase === null ? "" : ` ${phase}`}`;

async function furnished(): Promise<{ alignmentId: string; benchmarkId: string }> {
  const path = join(folder, "tiny.gguf");
  writeFileSync(path, withChatTemplate(readFileSync(tinyModel), template));
  const data = join(folder, "data");
  const imported = await plumbline(["model", "import", path, "--name", "tiny"], { PLUMBLINE_DATA: data });
  assert.equal(imported.code, 0, imported.stderr);
  const { base_models } = await it.client.api["models.base"]();
  const base = base_models.find(({ context_length }) => context_length < 2048)!;
  const files = [{ name: "lamps.jsonl", mediaType: "application/jsonl", content: benchmark }];
  const { benchmark_id } = await it.client.api["benchmarks.upload"]({ files });
  await it.kill();
  const store = openStore(places(data).database);
  const recipe = recipeOf((recipe) => ({
    ...recipe,
    optimizer: { ...recipe.optimizer, learning_rate: 0.001 },
    guards: { retained_items: 2, prose_paragraphs: 1, max_loss: 100, max_kl: 100, max_perplexity_rise: 1_000_000 },
  }));
  const project = { user: "ada", base, document: stock, recipe };
  const alignmentId = await insertEndedProject(store, join(data, "runs"), project);
  store.close();
  await it.start();
  return { alignmentId, benchmarkId: benchmark_id };
}

test("every transition reaches a webhook and a stream once, in order, across kills of serve", {
  timeout: 900_000,
}, async () => {
  receiver = await startReceiver();
  const answered = new Set<string>();
  receiver.answer = (response, { id }) => {
    // One in three is refused the first time, as by a receiver that is just being started.
    if (!answered.has(id) && answered.size % 3 === 1) response.statusCode = 503;
    answered.add(id);
    response.end();
  };
  it = new Killed(
    {
      PLUMBLINE_DATA: join(folder, "data"),
      PLUMBLINE_PORT: String(await freePort()),
      PLUMBLINE_LOG: "warn",
      PLUMBLINE_THREADS: "1",
      PLUMBLINE_SLOTS: "2",
      PLUMBLINE_SLOT_CONTEXT: "512",
      PLUMBLINE_WEBHOOKS: receiver.url,
      PLUMBLINE_WEBHOOK_SECRETS: secret,
    },
    random,
  );
  await it.start();
  const { alignmentId, benchmarkId } = await furnished();
  const body = {
    target_score: 99,
    benchmark_id: benchmarkId,
    sequencing: ["supervised", "scale", "supervised"],
    config: { training: { max_steps: 30 } },
  };
  const { auto_align_id } = await it.client.api["alignments.auto_align"]({
    params: { alignment_id: alignmentId },
    body,
  });
  const params = { alignment_id: alignmentId, auto_align_id };
  const url = `${it.serving.address}/api/v3/alignment-projects/${alignmentId}/auto-align/${auto_align_id}/events`;
  const reading = readTransitions(url, it.key, reader.signal);
  const record = async () => {
    const found = await it.client.api["alignments.auto_align_record"]({ params });
    assert.notEqual(found.status, "FAILED", JSON.stringify(found.error));
    return found;
  };

  for (const atLeast of [0, 1, 2]) {
    await it.until(`phase ${atLeast}`, async () => {
      const { status, phases } = await record();
      return status === "PAUSED" || (status === "RUNNING" && phases >= atLeast);
    });
    await delay(random() * 3000);
    await it.kill();
    await delay(random() * 500);
    await it.start();
  }
  await it.until("the end of the sequence", async () => (await record()).status === "PAUSED");
  // It is not stopped besides: packaging refuses what is learned over random weights, which the two engines round differently.
  await it.kill();
  await it.start();
  const sent = (): Received[] => receiver.received.filter(({ body: { type } }) => type === "auto_align.moved");
  await it.until("the last webhook", async () => accepted(sent()).length === moves.length);
  await delay(1000);
  reader.abort();
  assert.deepEqual(accepted(sent()), moves);
  assert.deepEqual(await reading, moves);
  await it.consult();
});

const moves = [
  "RECORDED PLANNING",
  "PLANNING RUNNING supervised",
  "RUNNING RUNNING scale",
  "RUNNING RUNNING supervised",
  "RUNNING PAUSED",
];

type Received = Receiver["received"][number];

/** By the id that a receiver knows a message again by: one that was refused, or whose answer a kill cut off, comes again. */
function accepted(sent: readonly Received[]): string[] {
  const ids = sent.map(({ id }) => id);
  const first = sent.filter(({ id }, at) => ids.indexOf(id) === at);
  // None is sent before the one before it was taken.
  const last = new Map(ids.map((id, at) => [id, at]));
  for (const [at, { id }] of first.slice(1).entries()) assert.ok(last.get(first[at]!.id)! < ids.indexOf(id));
  return first.map(({ body: { data } }) => transitionOf(data));
}
