// Has a model check drafts, one group at a time, until the benchmark has as many items as wanted.
import { formatChat } from "../../../engine/format/chat-format.ts";
import { contextOf, type Generator, type ModelRef } from "../../../engine/generator.ts";
import type { Claim } from "../../../jobs/queue.ts";
import type { BenchmarkRows } from "../store.ts";
import { type Checked, checkDrafts, choose, type Scored, uncoveredFirst, type Verdict } from "./checks.ts";
import type { Draft } from "./gates.ts";
import { isStopping, type MakeParts, markOf, settingsOf, takenOver } from "./parts.ts";

/** Number of drafts that are checked before their verdicts are written. */
const groupSize = 8;
/** Token limit of a closed-book answer. */
const answerTokens = 16;

export const checkedOf = (rows: BenchmarkRows, id: string): Checked[] =>
  rows.candidates
    .all(id)
    .filter(({ verdict_json }) => verdict_json !== null)
    .map(({ draft_json, verdict_json }) => ({
      draft: JSON.parse(draft_json) as Draft,
      verdict: JSON.parse(verdict_json!) as Verdict,
    }));

/**
 * Checks drafts until there are as many items as wanted, no draft is left, or a stop is requested. Calls `onDraft` for
 * each draft before its verdict is written.
 */
export async function check(
  parts: MakeParts,
  claim: Claim,
  ref: ModelRef,
  onDraft: () => void,
  signal: AbortSignal,
): Promise<void> {
  const { rows, store, clock, grade } = parts;
  const id = claim.subjectId;
  const { wanted } = settingsOf(rows.draft.get(id)!);
  const checked = checkedOf(rows, id);
  let left = rows.candidates
    .all(id)
    .filter(({ verdict_json }) => verdict_json === null)
    .map(({ position, draft_json }) => ({ position, draft: JSON.parse(draft_json) as Draft }));
  const model = asking(parts.generator, ref, signal);
  while (left.length > 0 && choose(checked, wanted).chosen.length < wanted) {
    signal.throwIfAborted();
    if (isStopping(parts, claim)) return;
    left = uncoveredFirst(left, checked);
    const group = left.splice(0, groupSize);
    const drafts = group.map(({ draft }) => draft);
    const since = clock.monotonicMs();
    const verdicts = await checkDrafts(drafts, { ...model, grade, onDraft });
    const seconds = (clock.monotonicMs() - since) / 1000;
    store.transaction(() => {
      const mark = markOf({ id }, claim);
      const { gates_json, seconds: before } = rows.draft.get(id)!;
      for (const [at, { position }] of group.entries()) {
        const { changes } = rows.setVerdict.run({ ...mark, position, verdict: JSON.stringify(verdicts[at]) });
        if (changes !== 1) throw takenOver();
      }
      rows.setDraft.run({ ...mark, phase: "checking", gates_json, seconds: before + seconds, at: clock.now() });
    });
    drafts.forEach((draft, at) => {
      checked.push({ draft, verdict: verdicts[at]! });
    });
  }
}

/** Returns the functions with which the checks query the model. Each prompt is sent as a chat. */
function asking(generator: Generator, ref: ModelRef, signal: AbortSignal) {
  const tokenizer = generator.tokenizer(ref.baseId);
  const context = contextOf(generator, tokenizer);
  const promptOf = (content: string): number[] => formatChat(tokenizer, [{ role: "user", content }]);
  const tokensOf = ({ prompt, answer }: Scored) => {
    const before = promptOf(prompt);
    return { tokens: [...before, ...tokenizer.encode(answer, false)], promptLength: before.length };
  };
  return {
    fits: (row: Scored): boolean => tokensOf(row).tokens.length <= context,
    score: (rows: readonly Scored[], onRow: (index: number) => void): Promise<Float64Array[]> =>
      generator.score(ref, rows.map(tokensOf), signal, onRow),
    async answer(questions: readonly string[]): Promise<string[]> {
      const answers: string[] = [];
      await generator.evaluate({
        model: ref,
        prompts: questions.map(promptOf),
        maxTokens: answerTokens,
        signal,
        onItem: (index, { text }) => {
          answers[index] = text;
        },
        startAt: 0,
      });
      return answers;
    },
  };
}
