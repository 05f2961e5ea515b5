// Where sentences end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sentencesOf, usageOf } from "../../src/study/sentences.ts";

test("sentences end where a language ends them, and not after an abbreviation", () => {
  const cases: [string, string[]][] = [
    ["Dr. Moe signs. No. 7 stays shut.", ["Dr. Moe signs.", "No. 7 stays shut."]],
    ["It weighs 3.5 kg. It is grey.", ["It weighs 3.5 kg.", "It is grey."]],
    ["We open at 8 a.m. on weekdays. Feast days are free.", ["We open at 8 a.m. on weekdays.", "Feast days are free."]],
    [
      "Das gilt z. B. für Brot. Der Laden öffnet am 3. Mai.",
      ["Das gilt z. B. für Brot.", "Der Laden öffnet am 3. Mai."],
    ],
    ["¿Quién abre? La Sra. Vidal abre a las ocho.", ["¿Quién abre?", "La Sra. Vidal abre a las ocho."]],
    ["Halt! Wer dort?", ["Halt!", "Wer dort?"]],
    ["店は八時に開く。休みは月曜だ。", ["店は八時に開く。", "休みは月曜だ。"]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(sentencesOf(text, usageOf("")), expected);
});

test("a document tells by its words whether a full stop ends a sentence", () => {
  const cases: [string, string[]][] = [
    [
      "Tune to channel 8. The others listen too, and the mast is dead.",
      ["Tune to channel 8.", "The others listen too, and the mast is dead."],
    ],
    [
      "Es kostet 48 Euro, für andere 36. Dosen bringt jeder mit.",
      ["Es kostet 48 Euro, für andere 36. Dosen bringt jeder mit."],
    ],
    ["Um 8 Uhr ist es hell. Vor fünf Uhr. Moe kommt.", ["Um 8 Uhr ist es hell.", "Vor fünf Uhr.", "Moe kommt."]],
    ["Er kommt am 3. Mai. Mai ist warm.", ["Er kommt am 3. Mai.", "Mai ist warm."]],
    ["Ask Dr. Moe. He will if Moe can.", ["Ask Dr. Moe.", "He will if Moe can."]],
    ["Ask J. Moe if he is in. I will. No. 7 is mine.", ["Ask J. Moe if he is in.", "I will.", "No. 7 is mine."]],
  ];
  for (const [text, expected] of cases) assert.deepEqual(sentencesOf(text, usageOf(text)), expected);
});
