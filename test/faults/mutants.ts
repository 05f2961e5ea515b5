// Model files with one thing wrong, thousands of them, against one appliance: `npm run test:mutants -- [count] [first]`. Every number
// is a mutant, the same one each time; the one that ends the appliance is named.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { besiege, mutated, withstand } from "../helpers/besieged.ts";
import { mutantOf } from "../helpers/mutants.ts";

const [count = 2000, first = 0] = process.argv.slice(2).map(Number);
const pieceOf = 50;

const folder = mkdtempSync(join(tmpdir(), "plumbline-mutants-"));
const it = await besiege(folder);
const reasons = new Map<string, number>();
const sum = { refused: 0, accepted: 0, deployed: 0, answered: 0 };
try {
  for (let from = first; from < first + count; from += pieceOf) {
    const length = Math.min(pieceOf, first + count - from);
    const mutants = Array.from({ length }, (_, index) => mutantOf(from + index, mutated));
    const siege = await withstand(it, mutants);
    for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += siege[name];
    for (const [reason, times] of siege.reasons) reasons.set(reason, (reasons.get(reason) ?? 0) + times);
    console.log(`${from + length - first} of ${count}: ${JSON.stringify(sum)}`);
  }
} finally {
  await it.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
for (const [reason, times] of [...reasons].sort((a, b) => b[1] - a[1])) console.log(String(times).padStart(5), reason);
