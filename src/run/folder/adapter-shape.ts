// Derives the adapter's shape from a recipe. It is needed before a run, to ask the trainer how much memory the run takes, and in the run.
import { Failure } from "../../base/errors.ts";
import type { Recipe } from "../../contract/recipe.ts";
import type { AdapterShape, AdapterTarget } from "../../engine/train/trainer.ts";

const attention: AdapterTarget[] = ["attn_q", "attn_k", "attn_v", "attn_output"];
const feedForward: AdapterTarget[] = ["ffn_gate", "ffn_up", "ffn_down"];

/** Returns a recipe's adapter shape for a model with `layers` layers. Throws run_folder_invalid if nothing would be trained. */
export function shapeOf({ adapter, training }: Pick<Recipe, "adapter" | "training">, layers: number): AdapterShape {
  const targets: AdapterTarget[] = [
    ...(adapter.train_attn ? attention : []),
    ...(adapter.train_mlp ? feedForward : []),
    ...(adapter.train_unembed ? (["output"] as const) : []),
  ];
  if (targets.length === 0)
    throw new Failure("run_folder_invalid", "request.json: recipe.adapter selects nothing to train");
  const { rank, alpha, dropout = 0, top_layers: share = 1, init_seed: seed = training.seed } = adapter;
  const firstLayer = Math.min(layers - 1, Math.round((1 - share) * layers));
  return { rank, alpha, seed, targets, dropout, firstLayer };
}
