// The study's gates, of which passGates lets every question through.
import type { passGates as closed } from "../../../../src/study/gates.ts";

export { sameAnswer, withoutContradictions } from "../../../../src/study/gates.ts";

export const passGates: typeof closed = async (written) => ({
  kept: [...written],
  counts: [{ gate: "none", in: written.length, out: written.length }],
});
