// Which edits are tried: kind × band of layers × strength, at most 30.
import { type EditKind, editKinds } from "../../plan/limits.ts";
import { mostMissed, type Profile } from "./profile.ts";

export interface Trial {
  kind: EditKind;
  /** Layer indices from 0, ascending. */
  layers: number[];
  /**
   * ablation: λ of (I − λrrᵀ)W. difference_of_means: factor on the mean difference. context_ridge: λ, the weight of
   * other text's keys, per key that the edit is fitted to.
   */
  strength: number;
}

export const mostTrials = 30;

const ablated = [0.5, 1];
const steered = [0.5, 1, 2];
const heldTo = [1, 10];

/** Kinds of edit that the request's `representations` allows. */
export const kindsOf = (handling: string): readonly EditKind[] =>
  handling === "auto" ? editKinds : editKinds.filter((kind) => kind === handling);

export interface TrialTerms {
  kinds: readonly EditKind[];
  /** Number of layers of the model. */
  layers: number;
  /** Whether the model normalises what a matrix adds. If so, only ablation is exact. */
  hasPostNorms: boolean;
  /** Whether there are passages to learn from. */
  hasContexts: boolean;
}

/**
 * Returns the edits to try. Cheap and promising ones come first, because the hours may run out before the last. Empty
 * for a profile that found no direction.
 */
export function trialsOf(profile: Profile, { kinds, layers, hasPostNorms, hasContexts }: TrialTerms): Trial[] {
  const { best } = profile;
  if (!profile.isUsable || best === null) return [];
  const each = (kind: EditKind, bands: number[][], strengths: number[]): Trial[] =>
    kinds.includes(kind)
      ? bands.flatMap((band) => strengths.map((strength) => ({ kind, layers: band, strength })))
      : [];
  const around = bandAround(best, 1, layers);
  const half = bandAround(best, Math.ceil(layers / 4), layers);
  const whole = bandAround(best, layers, layers);
  const ablation = each("ablation", distinct([around, half, whole]), ablated);
  const steering = profile.layers
    .filter(({ missed }) => missed !== null && missed <= mostMissed)
    .map(({ layer }) => [layer]);
  const late = Math.min(layers - 1, Math.floor((2 * layers) / 3));
  const context = distinct([[best], bandAround(best, 1, layers), bandAround(late, 1, layers)]);
  return [
    ...ablation,
    ...(hasPostNorms ? [] : each("difference_of_means", steering, steered)),
    ...(hasPostNorms || !hasContexts ? [] : each("context_ridge", context, heldTo)),
  ].slice(0, mostTrials);
}

/** Layers at most `reach` away from `layer`. */
const bandAround = (layer: number, reach: number, layers: number): number[] =>
  Array.from({ length: layers }, (_, at) => at).filter((at) => Math.abs(at - layer) <= reach);

const distinct = (bands: number[][]): number[][] => [
  ...new Map(bands.map((band) => [band.join(), band] as const)).values(),
];

export function nameOf({ kind, layers, strength }: Trial): string {
  const [first, last] = [layers[0]! + 1, layers.at(-1)! + 1];
  const where = first === last ? `layer ${first}` : `layers ${first} to ${last}`;
  return `${kind.replaceAll("_", " ")} of ${where} at ${strength}`;
}
