// Shows the policy an answer that declines, where the policy draws none. A reward may pay for saying that one does not
// know, but a policy that never draws such an answer cannot learn to give it. So where declining earns more than every
// drawn answer of a group, it replaces the group's last answer. "Learning to Reason under Off-Policy Guidance" (Yan et
// al., 2025) adds answers of another policy in the same way.
import { formatTrainingRow } from "../../engine/format/chat-format.ts";
import type { Trainer } from "../../engine/train/trainer.ts";
import { ownOrEnglish } from "../../study/languages.ts";
import type { Run } from "../context.ts";
import type { DevAnswer } from "../dev-check.ts";
import type { Episode } from "../environment/episodes.ts";
import type { EnvironmentPlan } from "../environment/plan.ts";
import { isRight } from "../plan/deficits.ts";
import { plainItem } from "../rewards/item.ts";
import { rewardsOf, type Sampled } from "../rewards/pay.ts";
import type { Means, RewardPlan } from "../rewards/plan.ts";
import { packed } from "../rows.ts";
import { adapterName } from "../training.ts";
import type { Prompt } from "./prompts.ts";
import type { SamplingPlan } from "./sampling.ts";

/** The answer that is shown. It is in English, the language in which evaluations recognise declining. */
export const declining = (): string => ownOrEnglish(null, "not_stated");

/** Returns what declining would earn as the answer to a question of dev. */
export function scoreOfDeclining({ parts, points }: Run, item: DevAnswer["item"]): number {
  const answer = declining();
  return points({ item, answer, correct: parts.grade(answer, item).correct });
}

/** Whether an answer is right, and not only paid for declining. */
export const isRightAnswer = (run: Run, answer: DevAnswer): boolean =>
  isRight(run.points(answer), scoreOfDeclining(run, answer.item));

interface Plan {
  reward: RewardPlan;
  sampling: Pick<SamplingPlan, "groupSize" | "maxTokens">;
  environment: Pick<EnvironmentPlan, "tools">;
}

interface Asking {
  plan: Plan;
  means: Means;
  signal: AbortSignal;
}

/** Rewards of the answers in [0, 1], before normalisation. An unknown reward counts as 0. */
async function earnedBy(answers: readonly Sampled[], { plan, means, signal }: Asking): Promise<number[]> {
  const { rewards } = await rewardsOf({ ...plan.reward, normalize: "none" }, answers, { means, signal });
  return rewards.map((reward) => reward ?? 0);
}

/**
 * Whether declining may be shown to groups. It may not if a model or a program judges part of the reward, because that
 * would have to judge one more answer per group. It may not with tools either, because looking an answer up is better
 * than declining.
 */
const mayBeShown = ({ reward, environment }: Plan): boolean =>
  environment.tools.length === 0 && reward.parts.every(({ scorer }) => scorer.kind === "builtin");

/**
 * Whether declining may be shown to groups, and the reward pays for it even where the material answers the question.
 */
export async function paysForDeclining(asking: Asking): Promise<boolean> {
  if (!mayBeShown(asking.plan)) return false;
  const item = plainItem({ prompt: "?", reference: "1" });
  const [earned] = await earnedBy([{ group: 0, item, answer: declining() }], asking);
  return earned! > 0;
}

/**
 * Returns the answers `said` that were drawn for `asked`, group after group, with declining in place of a group's last
 * answer where that earns more. `shown` is the number of such groups.
 */
export async function withDeclining(
  { tokenizer }: Pick<Run, "tokenizer">,
  trainer: Pick<Trainer, "score">,
  asking: Asking,
  { asked, said }: { asked: readonly Prompt[]; said: readonly Episode[] },
): Promise<{ said: Episode[]; shown: number }> {
  const all = [...said];
  if (!mayBeShown(asking.plan)) return { said: all, shown: 0 };
  const { groupSize, maxTokens } = asking.plan.sampling;
  const answer = declining();
  const sampled = asked.map(({ item }, at) => ({ group: Math.floor(at / groupSize), item, answer: said[at]!.answer }));
  const lasts = Array.from({ length: asked.length / groupSize }, (_, group) => (group + 1) * groupSize - 1);
  const declined = await earnedBy(
    lasts.map((last) => ({ ...sampled[last]!, answer })),
    asking,
  );
  if (declined.every((earned) => earned <= 0)) return { said: all, shown: 0 };
  const drawn = await earnedBy(sampled, asking);
  const shown = lasts.flatMap((place, group) => {
    if (declined[group]! <= Math.max(...drawn.slice(place + 1 - groupSize, place + 1))) return [];
    const prompt = asked[place]!;
    const messages = [
      { role: "user", content: prompt.item.prompt },
      { role: "assistant", content: answer },
    ];
    const tokens = [...formatTrainingRow(tokenizer, messages).tokens].slice(prompt.tokens.length);
    return tokens.length > maxTokens ? [] : [{ place, prompt: prompt.tokens, tokens }];
  });
  if (shown.length === 0) return { said: all, shown: 0 };
  const rows = shown.map(({ prompt, tokens }) => [...prompt, ...tokens]);
  const from = Int32Array.from(shown, ({ prompt }) => prompt.length);
  const logprobs = await trainer.score(adapterName, packed(rows), from);
  let start = 0;
  for (const [at, { place, prompt, tokens }] of shown.entries()) {
    const end = start + rows[at]!.length;
    const own = [...logprobs.subarray(start + prompt.length, end)];
    all[place] = { tokens, isOwn: tokens.map(() => true), logprobs: own, answer, turns: 1 };
    start = end;
  }
  return { said: all, shown: shown.length };
}
