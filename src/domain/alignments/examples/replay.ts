// Self-replay: the base's own answers to generic prompts, as rows, so that learning the documents does not cost the chat.
import type { Example } from "../examples.ts";
import type { Generate } from "./proposals.ts";
import { seeded, shuffled } from "./text.ts";

/** Longest answer that is replayed, in tokens: enough for the manner of speaking, and not so long that it drowns the short
 * answers of its batch, where every token counts alike. */
const answerTokens = 32;

/** `count` rows from the prompts, in a seeded order, round again when there are fewer prompts than rows. */
export async function selfReplay(
  generate: Generate,
  options: { prompts: readonly string[]; count: number; seed: number },
): Promise<Example[]> {
  const order = shuffled(options.prompts, seeded(options.seed));
  const rows: Example[] = [];
  const answers = new Map<string, string>();
  for (let i = 0; i < options.count && order.length > 0; i++) {
    const prompt = order[i % order.length]!;
    const answer =
      answers.get(prompt) ??
      wholeSentences(await generate([{ role: "user", content: prompt }], { maxTokens: answerTokens }));
    answers.set(prompt, answer);
    if (answer === "") continue;
    rows.push({
      messages: [
        { role: "user", content: prompt },
        { role: "assistant", content: answer },
      ],
      source: null,
      kind: "replay",
      fact: "replay",
    });
  }
  return rows;
}

/** An answer cut by the limit, back to its last finished sentence: a row must not teach to stop in the middle. */
function wholeSentences(answer: string): string {
  const text = answer.trim().replace(/\n\s*(?:\d+[.)]|[-*])$/, "");
  if (/[.!?)"”`]$/.test(text)) return text;
  const end = Math.max(text.lastIndexOf(". "), text.lastIndexOf("! "), text.lastIndexOf("? "), text.lastIndexOf(".\n"));
  return end > 0 ? text.slice(0, end + 1) : "";
}
