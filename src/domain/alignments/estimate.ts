// What an alignment would take, before it starts: rows by the plain forms of its documents, time by what the trainer's arithmetic allows
// on this machine. Figures are ranges; none is a promise.
import type { Recipe } from "../../contract/run-folder.ts";
import type { Trainer } from "../../engine/trainer.ts";
import type { Planned } from "../../study/plain.ts";
import { shapeOf } from "./training.ts";

export interface Range {
  low: number;
  likely: number;
  high: number;
}

/** Of plain rows so many were left: those go that have two answers or meet a question, and a writer's take the place of some. */
const keptShare: Range = { low: 0.85, likely: 0.97, high: 1.1 };
/** Characters of a token, over languages that a tokenizer was and was not made for. */
const charactersPerToken: Range = { low: 4.2, likely: 3.6, high: 2 };
/** Of what the device's matrix products allow, training took so much in measurements; the rest is everything else. */
const reached: Range = { low: 0.9, likely: 0.6, high: 0.4 };
/** Guards, checks, repair and packaging, as a share of the training. */
const besides: Range = { low: 0.2, likely: 0.45, high: 0.9 };

/** Tokens a second that training the base by the recipe may reach on this machine; null where the trainer cannot tell. */
export async function trainingLimit(
  trainer: Trainer,
  { path, recipe, threads }: { path: string; recipe: Recipe; threads: number },
): Promise<number | null> {
  try {
    const { rank, targets, dropout = 0 } = shapeOf(recipe);
    // A GPU that the trainer cannot use is there too, and tells no speed.
    const device = (await trainer.hello()).noGpu === null ? "cuda" : "cpu";
    const { tokensPerSecond } = await trainer.estimate({
      path,
      rank,
      targets,
      dropout,
      longestRow: recipe.rendering.max_seq_len,
      passTokens: recipe.rendering.max_seq_len,
      threads,
      device,
    });
    return tokensPerSecond;
  } finally {
    await trainer.close();
  }
}

const ends = ["low", "likely", "high"] as const;
const range = (of: (end: (typeof ends)[number]) => number): Range => ({
  low: of("low"),
  likely: of("likely"),
  high: of("high"),
});

/** `limit`: tokens a second at most; null where the device's speed is not known, and then the minutes are not either. */
export function estimateOf(planned: Planned, recipe: Recipe, memoryBytes: number, limit: number | null) {
  const { training, dataset } = recipe;
  const replayed = 1 / (1 - dataset.replay_share);
  const rows = range((end) => Math.round(planned.rows * keptShare[end] * replayed));
  const tokens = range((end) =>
    Math.round(((planned.characters * keptShare[end]) / charactersPerToken[end]) * replayed * training.epochs),
  );
  const minutes =
    limit === null
      ? null
      : range((end) => Math.ceil(((tokens[end] / (limit * reached[end])) * (1 + besides[end])) / 60));
  return {
    passages: planned.passages,
    targets: planned.targets,
    rows,
    train_tokens: tokens,
    memory_bytes: memoryBytes,
    minutes,
  };
}
