// Webhooks of the house as it stands: what the settings take, that it delivers while it serves, and that nothing leaves without them.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { environmentOf, places, readConfig } from "../../src/base/config.ts";
import { Failure } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { systemClock } from "../../src/base/time.ts";
import { createWebhooks, targetsOf } from "../../src/domain/webhooks/index.ts";
import { openStore } from "../../src/store/open.ts";
import { plumbline, temporaryFolder } from "../cli/plumbline.ts";
import { eventually, type TestHouse, testHouse } from "../helpers/house.ts";
import { type Receiver, secret, startReceiver } from "../helpers/webhooks.ts";

const secretOf = (bytes: number): string => `whsec_${Buffer.alloc(bytes, 1).toString("base64")}`;
const read = (webhooks: string, secrets: string) =>
  readConfig({ PLUMBLINE_WEBHOOKS: webhooks, PLUMBLINE_WEBHOOK_SECRETS: secrets });

describe("the settings", () => {
  const two = "https://a.example/hook,http://b.example/?from=plumbline%2C1";

  test("name targets with one secret for all, or one each in their order", () => {
    const urls = ["https://a.example/hook", "http://b.example/?from=plumbline%2C1"];
    const [a, b] = [secretOf(24), secretOf(64)];
    const keysOf = (secrets: string): number[] => {
      const { webhooks, webhookSecrets } = read(two, secrets);
      assert.deepEqual(webhooks, urls);
      return targetsOf(webhooks, webhookSecrets).map(({ key }) => key.length);
    };
    assert.deepEqual(keysOf(a), [24, 24]);
    assert.deepEqual(keysOf(` ${a} , ${b} `), [24, 64]);
  });

  for (const [what, webhooks, secrets, words] of [
    ["a target without a secret", "https://a.example", "", /^PLUMBLINE_WEBHOOK_SECRETS: must be one secret for PLUMB/],
    [
      "too few secrets",
      `${two},http://c`,
      `${secret},${secret}`,
      /^PLUMBLINE_WEBHOOK_SECRETS: .* or 3 \(one per URL\)/,
    ],
    ["too many secrets", "https://a.example", `${secret},${secret}`, /^PLUMBLINE_WEBHOOK_SECRETS: /],
    [
      "another protocol",
      `https://a.example,ftp://b.example`,
      secret,
      /^PLUMBLINE_WEBHOOKS: number 2 is not an http or https URL/,
    ],
    ["what is no URL", "a.example/hook", secret, /^PLUMBLINE_WEBHOOKS: number 1 is not an http or https URL/],
    [
      "a password in a URL",
      "https://a:b@c.example",
      secret,
      /^PLUMBLINE_WEBHOOKS: number 1 contains a user name or password/,
    ],
    ["a URL twice", "https://a.example,https://a.example/", secret, /^PLUMBLINE_WEBHOOKS: contains the same URL twice/],
    [
      "a secret of another form",
      "https://a.example",
      "hunter2hunter2hunter2hunter2",
      /SECRETS: number 1 is not "whsec_"/,
    ],
    ["a secret that is too short", "https://a.example", secretOf(23), /SECRETS: number 1 is not "whsec_"/],
    ["a secret that is too long", "https://a.example", secretOf(65), /SECRETS: number 1 is not "whsec_"/],
  ] as const)
    test(`refuse ${what}, naming the field and telling no secret`, () => {
      assert.throws(
        () => read(webhooks, secrets),
        (error) =>
          error instanceof Failure &&
          error.code === "config_invalid" &&
          words.test(error.message) &&
          !secrets.split(",").some((one) => one !== "" && error.message.includes(one)),
      );
    });

  test("that are wrong end the start", async (context) => {
    const settings = { PLUMBLINE_DATA: temporaryFolder(context), PLUMBLINE_WEBHOOKS: "https://a.example" };
    const { code, stderr } = await plumbline(["serve"], settings);
    assert.equal(code, 2);
    assert.match(stderr, /PLUMBLINE_WEBHOOK_SECRETS/);
  });

  test("are no business of a run", () => {
    const environment = environmentOf(read("https://a.example", secret));
    assert.deepEqual(
      Object.keys(environment).filter((name) => name.includes("WEBHOOK")),
      [],
    );
    assert.doesNotThrow(() => readConfig(environment));
  });
});

/** As a room of the house does, from beside it. */
function enqueue(it: TestHouse, url: string): void {
  const store = openStore(places(it.data).database);
  const parts = { store, clock: systemClock, log: createLog("error"), targets: targetsOf([url], [secret]) };
  const ownerId = store.prepare<[], { id: string }>("SELECT id FROM user WHERE name = 'ada'").get()!.id;
  createWebhooks(parts).enqueue({ ownerId, kind: "thing.moved", subjectId: "s", body: {} });
  store.close();
}

describe("the house", () => {
  let receiver: Receiver;
  before(async () => {
    receiver = await startReceiver();
  });
  after(() => receiver.close());

  const metric = async (it: TestHouse): Promise<string[]> =>
    (await (await it.get("/metrics")).text()).split("\n").filter((line) => line.startsWith("plumbline_webhooks{"));

  test("sends nothing without the setting", async () => {
    const it = await testHouse();
    try {
      enqueue(it, receiver.url);
      await it.restart();
      assert.deepEqual(await metric(it), ['plumbline_webhooks{state="failed"} 1']);
      assert.deepEqual(receiver.received, []);
      assert(it.log.some(({ event }) => event === "webhook.given_up"));
    } finally {
      await it.close();
    }
  });

  test("delivers what is pending when it starts, and tells so in its metrics", async () => {
    const it = await testHouse({ PLUMBLINE_WEBHOOKS: receiver.url, PLUMBLINE_WEBHOOK_SECRETS: secret });
    try {
      enqueue(it, receiver.url);
      await it.restart();
      await eventually(async () => (await metric(it)).join() === 'plumbline_webhooks{state="delivered"} 1');
      assert.deepEqual(
        receiver.received.map(({ body }) => body.type),
        ["thing.moved"],
      );
      const lines = JSON.stringify(it.log);
      for (const hidden of [secret, secret.slice("whsec_".length)]) assert(!lines.includes(hidden));
    } finally {
      await it.close();
    }
  });
});
