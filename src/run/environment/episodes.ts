// Draws episodes. In an episode, the policy answers a prompt in one turn, or in several turns with tools' answers between them. All
// unfinished episodes are drawn together, turn by turn, in as few calls as the trainer's limit allows. The policy's tokens stay as they were sampled, with their log-probs. Tokens from
// tools do not count as the policy's own.
import type { Tokenizer } from "../../engine/generator.ts";
import type { SampledRow, Trainer, TrainerSampling } from "../../engine/train/trainer.ts";
import type { SamplingPlan } from "../auto/sampling.ts";
import { answerText } from "../dev-check.ts";
import { packed } from "../rows.ts";
import { microBatches } from "../schedule.ts";
import { calledBy, continuation } from "./calls.ts";
import { type Toolbox, type ToolName, tools } from "./tools.ts";

export interface Episode {
  /** Tokens after the prompt. */
  tokens: number[];
  /** Whether the policy sampled the token, for each token. */
  isOwn: boolean[];
  /** Log-probs of the policy's tokens, in nats at temperature 1; 0 for the others. */
  logprobs: number[];
  /** Text of the last turn. */
  answer: string;
  turns: number;
}

export interface Environment {
  maxTurns: number;
  tools: readonly ToolName[];
  /** null if there are no tools. */
  toolbox: Toolbox | null;
}

export const singleTurn: Environment = { maxTurns: 1, tools: [], toolbox: null };

/** Added to the seed for each turn and call, so that draws differ between them. */
const seedStride = 1_000_003;

interface Drawing {
  tokenizer: Tokenizer;
  trainer: Pick<Trainer, "sample">;
  adapter: string;
  sampling: SamplingPlan;
  environment: Environment;
  /** Maximum number of tokens of a call of the trainer. */
  maxBatchTokens: number;
}

/** Draws one episode for each prompt with the adapter. */
export async function drawEpisodes(
  { tokenizer, trainer, adapter, sampling, environment, maxBatchTokens }: Drawing,
  prompts: readonly (readonly number[])[],
  seed: number,
): Promise<Episode[]> {
  const { maxTokens, temperature, topK, topP, minP } = sampling;
  const settings: Omit<TrainerSampling, "seed"> = {
    ...{ maxTokens, temperature, topK, topP, minP },
    stopTokens: [...tokenizer.eog],
  };
  const episodes = prompts.map((): Episode => ({ tokens: [], isOwn: [], logprobs: [], answer: "", turns: 0 }));
  let open = [...episodes.keys()];
  for (let turn = 0; turn < environment.maxTurns && open.length > 0; turn++) {
    const rows = open.map((at) => [...prompts[at]!, ...episodes[at]!.tokens]);
    const calls = microBatches([...rows.keys()], (row) => rows[row]!.length + maxTokens, maxBatchTokens);
    const said: SampledRow[] = [];
    for (const [index, call] of calls.entries()) {
      // A row's draws depend on its place in its call, so each call has its own seed.
      const own = seed + (turn + index * environment.maxTurns) * seedStride;
      said.push(...(await trainer.sample(adapter, packed(call.map((row) => rows[row]!)), { ...settings, seed: own })));
    }
    for (const [index, at] of open.entries()) take(tokenizer, episodes[at]!, said[index]!);
    if (turn + 1 === environment.maxTurns) break;
    open = open.filter((at, index) => {
      const next = answered(tokenizer, environment, said[index]!);
      const length = prompts[at]!.length + episodes[at]!.tokens.length + (next?.length ?? 0);
      // An episode also ends, with the call, if there is no room for another turn.
      if (next === null || length + maxTokens > sampling.maxSeqLen) return false;
      append(episodes[at]!, next);
      return true;
    });
  }
  return episodes;
}

function take(tokenizer: Tokenizer, episode: Episode, { tokens, logprobs }: SampledRow): void {
  episode.tokens.push(...tokens);
  episode.isOwn.push(...Array.from(tokens, () => true));
  episode.logprobs.push(...logprobs);
  episode.answer = answerText(tokenizer, tokens);
  episode.turns++;
}

function append(episode: Episode, tokens: readonly number[]): void {
  episode.tokens.push(...tokens);
  episode.isOwn.push(...tokens.map(() => false));
  episode.logprobs.push(...tokens.map(() => 0));
}

/** Returns the tokens of a tool's answer to a turn's call; null if there are no tools, nothing was called or the turn was cut. */
function answered(
  tokenizer: Tokenizer,
  { tools: names, toolbox }: Environment,
  { tokens, stopReason }: SampledRow,
): number[] | null {
  if (toolbox === null || stopReason === "length") return null;
  const call = calledBy(tokenizer, tokens);
  if (call === undefined) return null;
  return continuation(
    tokenizer,
    names.map((name) => tools[name]),
    toolbox.answer(call),
  );
}
