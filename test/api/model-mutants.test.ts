// Model files with something wrong, imported, deployed and asked over the API of an appliance in a process of its own: it lives.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { temporaryFolder } from "../cli/plumbline.ts";
import { type Besieged, besiege, mutated, withstand } from "../helpers/besieged.ts";
import { mutantOf, withNumber } from "../helpers/mutants.ts";

describe("files that nobody vouches for", () => {
  let it: Besieged;
  const folders: (() => void)[] = [];
  before(async () => {
    it = await besiege(temporaryFolder({ after: (step) => void folders.push(step) }));
  });
  after(async () => {
    await it.close();
    for (const remove of folders) remove();
  });
  const tiny = mutated[0]!.content;

  test("a model without layers is refused when it is imported", async () => {
    const outcome = await it.import(withNumber(tiny, "llama.block_count", 0));
    assert.match("refused" in outcome ? outcome.refused : "", /block_count is 0/);
    await it.mustLive("a model without layers");
  });

  test("what only a load shows is refused too, before the appliance loads it", async () => {
    const spoiled = Buffer.from(tiny);
    // Of the last tensor's weights: these bits are no number.
    spoiled.fill(0xff, spoiled.length - 4096);
    const outcome = await it.import(spoiled);
    assert.match("refused" in outcome ? outcome.refused : "", /Not a valid model file/);
    await it.mustLive("weights that are no numbers");
  });

  test("a sound one answers, gives a vector and carries an adapter", async () => {
    const outcome = await it.import(tiny);
    assert.ok("id" in outcome, JSON.stringify(outcome));
    assert.deepEqual(await it.ask(outcome.id), [200, 200]);
    assert.equal(await it.deploy(outcome.id), "READY");
  });

  test("of two dozen mutants none ends the appliance", async () => {
    const siege = await withstand(
      it,
      Array.from({ length: 24 }, (_, number) => mutantOf(number, mutated)),
    );
    assert.equal(siege.refused + siege.accepted, 24);
    assert.ok(siege.refused > 8, `${siege.refused} refused`);
  });
});
