// The prompts of a reinforce phase, and how answers to them are drawn.
import { formatChat } from "../../engine/format/chat-format.ts";
import type { Run } from "../context.ts";
import { dataSetKind } from "../data-set.ts";
import { drawEpisodes, type Environment, type Episode, singleTurn } from "../environment/episodes.ts";
import { tools } from "../environment/tools.ts";
import { isReplayed } from "../replay.ts";
import { optionsIn } from "../rewards/choice.ts";
import { plainItem, type RewardItem } from "../rewards/item.ts";
import type { Means, RewardPlan } from "../rewards/plan.ts";
import type { TrainingRow } from "../rows.ts";
import { permutation } from "../schedule.ts";
import { adapterName, type OpenedBase } from "../training.ts";
import { passagesFor } from "./passages.ts";
import type { SamplingPlan } from "./sampling.ts";

/** A prompt that answers are drawn for. */
export interface Prompt {
  item: RewardItem;
  tokens: number[];
}

/**
 * Returns the prompts of the data set if there is one, otherwise the questions of the study, each once and with its
 * answer. Prompts longer than `maxPromptTokens` are left out. Dev and sealed questions are not among them, because rows
 * that overlap one were dropped.
 */
export function promptsOf(
  run: Run,
  rows: readonly TrainingRow[],
  { maxPromptTokens }: Pick<SamplingPlan, "maxPromptTokens">,
  {
    tools: names = [],
    rubrics = new Map(),
  }: { tools?: Environment["tools"]; rubrics?: Means["itemRubrics"] | undefined } = {},
): Prompt[] {
  const prompts = new Map<string, Prompt>();
  const given = rows.filter(({ kind }) => kind === dataSetKind);
  const told = names.map((name) => tools[name]);
  for (const row of given.length > 0 ? given : rows) {
    const [asked, answered] = row.messages;
    if (isReplayed(row) || row.messages.length !== 2 || asked?.role !== "user" || prompts.has(asked.content)) continue;
    const tokens = formatChat(run.tokenizer, [{ role: "user", content: asked.content }], { tools: told });
    if (tokens.length > maxPromptTokens) continue;
    const rubric = rubrics.get(asked.content) ?? [];
    const choices = optionsIn(asked.content);
    const item = plainItem({ prompt: asked.content, reference: answered!.content, choices, rubric });
    prompts.set(asked.content, { item, tokens });
  }
  return [...prompts.values()];
}

/** Adds to each prompt the passage that it is about, if a part of the reward reads passages. */
export async function withPassages(run: Run, { parts }: RewardPlan, prompts: readonly Prompt[]): Promise<Prompt[]> {
  const isRead = parts.some(
    ({ scorer }) => scorer.kind === "program" || (scorer.kind === "builtin" && scorer.verifier === "citation"),
  );
  if (!isRead) return [...prompts];
  const asked = prompts.map(({ item }) => ({ instruction: item.prompt, response: item.reference! }));
  const passages = await passagesFor(run, asked);
  return prompts.map(({ item, tokens }, at) => ({ item: { ...item, passage: passages[at]! }, tokens }));
}

/** Repeats each prompt `size` times, once for each answer. */
export const groupsOf = (prompts: readonly Prompt[], size: number): Prompt[] =>
  prompts.flatMap((prompt) => new Array<Prompt>(size).fill(prompt));

/** The prompt at position `at` of a seeded order, in which all prompts come once before one comes again. */
export function promptAt(prompts: readonly Prompt[], seed: number, at: number): Prompt {
  const round = Math.floor(at / prompts.length);
  return prompts[permutation(seed, round, prompts.length)[at % prompts.length]!]!;
}

/** Draws an answer to each prompt from the current adapter. */
export const drawn = (
  { tokenizer }: Run,
  { trainer, hello }: Pick<OpenedBase, "trainer" | "hello">,
  asked: readonly Prompt[],
  { sampling, environment = singleTurn }: { sampling: SamplingPlan; environment?: Environment },
  seed: number,
): Promise<Episode[]> =>
  drawEpisodes(
    {
      ...{ tokenizer, trainer, adapter: adapterName, sampling, environment },
      maxBatchTokens: hello.limits.maxBatchTokens,
    },
    asked.map(({ tokens }) => tokens),
    seed,
  );
