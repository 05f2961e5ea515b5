// Measures how far a question is from the documents. The distance is measured in the space of a sentence encoder, to the nearest
// exemplars, which are passages of the documents and questions about them. It does not depend on the adapter or its quantisation.
//
//   d = 1 − mean cosine of the 3 nearest exemplars
//   p = (1 + number of held-out questions at least as far) / (1 + their number)       (conformal: Vovk et al. 2005)
//   π = σ(a · d + b)      the probability that a question is out of domain, if such questions are as common as others;
//                         fitted on held-out questions against general ones
//
// A held-out question is never compared with itself or with another question about its fact.
import { remembered } from "../base/remembered.ts";
import { spread } from "../base/spread.ts";
import { fitLogistic, sigmoid } from "../base/statistics/logistic.ts";
import { cosine, packVectors, unpackVectors } from "./unit-vectors.ts";

export interface DriftReference {
  encoder_sha256: string;
  dimensions: number;
  /** Packed vectors [n][dimensions]. */
  exemplars: string;
  /** d of the held-out questions, ascending. */
  distances: number[];
  /** Coefficients of π. */
  out_of_domain: { a: number; b: number };
  /** Number of general questions that π was fitted on. */
  background: number;
}

export interface DriftSpace {
  measure(vector: Float32Array): { distance: number; pValue: number; outOfDomain: number };
}

/** Minimum number of held-out questions for a fit. Fewer questions do not show how far such questions usually are. */
export const leastQuestions = 20;
/**
 * Maximum number of passages, and of questions, that are kept as exemplars. It is limited because each question is compared with all
 * exemplars. If there are more, an even sample is kept.
 */
export const mostExemplars = 256;
const nearest = 3;

export interface DriftMaterial {
  encoderSha256: string;
  /** Unit vectors of pieces of the documents. */
  passages: readonly Float32Array[];
  /** Unit vectors of questions about the documents that were not used in training. */
  questions: readonly { vector: Float32Array; cluster: string }[];
  /** Unit vectors of general questions. */
  background: readonly Float32Array[];
}

/**
 * Fits the measure to a set of documents. `outOfDomain` is π of each of the material's questions. Throws RangeError if there are fewer
 * than `leastQuestions`.
 */
export function fitDrift(material: DriftMaterial): { reference: DriftReference; outOfDomain: number[] } {
  const { encoderSha256, questions } = material;
  if (questions.length < leastQuestions) throw new RangeError("Too few questions");
  const exemplars: { vector: Float32Array; cluster: string | null }[] = [
    ...spread(material.passages, mostExemplars).map((vector) => ({ vector, cluster: null })),
    ...spread(questions, mostExemplars),
  ];
  const dimensions = questions[0]!.vector.length;
  // Distances are measured to the packed vectors, as in serving.
  const packed = packVectors(exemplars.map(({ vector }) => vector));
  const vectors = unpackVectors(packed, dimensions);
  const own = questions.map(({ vector, cluster }) =>
    distance(
      vector,
      vectors.filter((_, at) => exemplars[at]!.cluster !== cluster),
    ),
  );
  const general = material.background.map((vector) => distance(vector, vectors));
  const { a, b } = outOfDomainOf(own, general);
  return {
    reference: {
      encoder_sha256: encoderSha256,
      dimensions,
      exemplars: packed,
      distances: own.toSorted((x, y) => x - y),
      out_of_domain: { a, b },
      background: general.length,
    },
    outOfDomain: own.map((d) => sigmoid(a * d + b)),
  };
}

/** Fits the coefficients of π. Without general questions, π is 0 for every question. */
function outOfDomainOf(own: readonly number[], general: readonly number[]): { a: number; b: number } {
  if (general.length === 0) return { a: 0, b: Number.MIN_SAFE_INTEGER };
  const labels = [...own.map(() => false), ...general.map(() => true)];
  const { means, scales, weights, bias } = fitLogistic(
    [...own, ...general].map((d) => [d]),
    labels,
    1,
  );
  const a = weights[0]! / scales[0]!;
  // Logistic regression treats the sample sizes as the frequencies of the two kinds. The last term corrects this to equal
  // frequencies.
  return { a, b: bias - a * means[0]! + Math.log(own.length / general.length) };
}

/** The space of a reference, decoded once per reference object. */
export const driftSpace = remembered(decode);

function decode({ dimensions, exemplars, distances, out_of_domain: { a, b } }: DriftReference): DriftSpace {
  const vectors = unpackVectors(exemplars, dimensions);
  return {
    measure(vector) {
      const d = distance(vector, vectors);
      return {
        distance: d,
        pValue: (1 + distances.length - below(distances, d)) / (1 + distances.length),
        outOfDomain: sigmoid(a * d + b),
      };
    },
  };
}

/** Number of values less than x; `values` are ascending. */
function below(values: readonly number[], x: number): number {
  const at = values.findIndex((value) => value >= x);
  return at < 0 ? values.length : at;
}

function distance(vector: Float32Array, exemplars: readonly Float32Array[]): number {
  const cosines = exemplars.map((exemplar) => cosine(vector, exemplar)).sort((x, y) => y - x);
  const near = cosines.slice(0, nearest);
  return 1 - near.reduce((sum, value) => sum + value, 0) / near.length;
}
