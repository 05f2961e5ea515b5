// kill -9 of serve around an upload that carries an Idempotency-Key: whatever the moment, the client sends it again until it is
// answered, and there is one document.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay, setImmediate as turn } from "node:timers/promises";
import Database from "better-sqlite3";
import { places } from "../../src/base/config.ts";
import { plumbline, type Serving, startServing, temporaryFolder } from "../cli/plumbline.ts";
import { databaseIsSound } from "./oracle.ts";

interface Answer {
  status: number;
  replayed: boolean;
  text: string;
}

test("an upload that is sent again after kill -9 is there once", async (context) => {
  const data = temporaryFolder(context);
  const settings = { PLUMBLINE_DATA: data, PLUMBLINE_LOG: "warn", PLUMBLINE_STARTER_MODEL: "none.gguf" };
  let serving: Serving = await startServing(settings);
  context.after(() => serving.child.kill("SIGKILL"));
  const key = (await plumbline(["key", "create", "--user", "ann"], settings)).stdout.trim();
  const db = new Database(places(data).database, { readonly: true, timeout: 10_000 });
  context.after(() => db.close());
  const documents = db.prepare<[], { n: number }>("SELECT count(*) AS n FROM document");

  async function upload(round: string): Promise<Answer> {
    const body = new FormData();
    body.append("file", new Blob([`The pump of hall ${round} was inspected.`]), `note-${round}.txt`);
    const headers = { authorization: `Bearer ${key}`, "idempotency-key": round.replaceAll(" ", "-") };
    const response = await fetch(`${serving.address}/api/v3/documents/upload`, { method: "POST", headers, body });
    const replayed = response.headers.get("idempotent-replayed") === "true";
    return { status: response.status, replayed, text: await response.text() };
  }

  const whole = performance.now();
  assert.equal((await upload("warm")).status, 200);
  const usualMs = performance.now() - whole;

  const moments: [string, (made: number) => Promise<unknown>][] = [
    ["at once", () => delay(0)],
    ["while it reads", () => delay(usualMs / 4)],
    ["while it reads on", () => delay(usualMs / 2)],
    ["near its end", () => delay(usualMs * 0.9)],
    // Whatever is committed by then: the document has just come to be seen.
    ...[1, 2, 3, 4].map((time): [string, (made: number) => Promise<unknown>] => [
      `right after the commit, ${time}`,
      async (made) => {
        while (documents.get()!.n === made) await turn();
      },
    ]),
  ];
  for (const [moment, come] of moments) {
    const made = documents.get()!.n;
    const first = upload(moment).catch(() => null);
    await come(made);
    serving.child.kill("SIGKILL");
    await serving.child.ended;
    const answered = await first;
    const isMade = documents.get()!.n > made;
    if (moment.startsWith("right after")) assert.ok(isMade, moment);
    if (answered) assert.ok(isMade, `${moment}: it was acknowledged`);

    serving = await startServing(settings);
    const again = await upload(moment);
    assert.equal(again.status, 200, `${moment}: ${again.text}`);
    assert.equal(again.replayed, isMade, moment);
    if (answered) assert.equal(again.text, answered.text, moment);
    assert.equal(documents.get()!.n, made + 1, moment);
    assert.deepEqual(databaseIsSound(data), [], moment);
  }
});
