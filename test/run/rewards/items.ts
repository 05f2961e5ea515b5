import { plainItem, type RewardItem } from "../../../src/run/rewards/item.ts";
import { makeBuiltin, parseVerifier } from "../../../src/run/rewards/verifiers.ts";

export const itemOf = (more: Partial<RewardItem> = {}): RewardItem =>
  plainItem({ prompt: "?", reference: null, ...more });

/** What a built-in verifier pays. */
export function paid(reference: string, answer: string, more: Partial<RewardItem> = {}): number | null {
  const parsed = parseVerifier(reference);
  if (parsed.kind !== "builtin") throw new Error(`${reference} is no built-in verifier`);
  return makeBuiltin(parsed, (text) => /do not know/.test(text))(answer, itemOf(more));
}

/** Runs it and says how many milliseconds it took. */
export function timed(work: () => void): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}
