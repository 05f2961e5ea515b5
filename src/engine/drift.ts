// How unlike the documents a question is, in the space of a sentence encoder: its distance from the nearest passages of the
// documents and questions about them. Independent of the adapter and of its quantisation.
//
//   d = 1 − mean cosine of the 3 nearest exemplars
//   p = (1 + number of held-out questions at least as far) / (1 + their number)       (conformal: Vovk et al. 2005)
//   π = σ(a · d + b), fitted on held-out questions against general ones: the chance that a question is a foreign one, were there
//       as many foreign ones as others
//
// A held-out question is never compared with those about its own fact.
import { fitLogistic, sigmoid } from "../base/statistics/logistic.ts";

export interface DriftReference {
  encoder_sha256: string;
  dimensions: number;
  /** Unit vectors [n][dimensions], a signed byte a value, each as large as bytes allow; in base64. */
  exemplars: string;
  /** d of the held-out questions, rising. */
  distances: number[];
  /** Of π. */
  foreign: { a: number; b: number };
  /** General questions behind π. */
  background: number;
}

export interface DriftSpace {
  measure(vector: Float32Array): { distance: number; pValue: number; foreign: number };
}

/** Fewer held-out questions say too little of where such questions lie. */
export const leastQuestions = 20;
/** Of passages, and of questions: each question is compared with all. */
const mostExemplars = 256;
const nearest = 3;

export interface DriftMaterial {
  encoderSha256: string;
  /** Vectors of unit length: of pieces of the documents, */
  passages: readonly Float32Array[];
  /** of questions about them that nothing was trained on, */
  questions: readonly { vector: Float32Array; cluster: string }[];
  /** and of questions about anything. */
  background: readonly Float32Array[];
}

/** `foreign`: π of each question. Throws RangeError below `leastQuestions`. */
export function fitDrift(material: DriftMaterial): { reference: DriftReference; foreign: number[] } {
  const { encoderSha256, questions } = material;
  if (questions.length < leastQuestions) throw new RangeError("Too few questions");
  const kept = spread(questions);
  const exemplars = [
    ...spread(material.passages).map((vector) => ({ vector, cluster: null })),
    ...kept.map(({ vector, cluster }) => ({ vector, cluster: cluster as string | null })),
  ].map(({ vector, cluster }) => ({ bytes: packed(vector), cluster }));
  const dimensions = questions[0]!.vector.length;
  const vectors = exemplars.map(({ bytes }) => unpacked(bytes));
  const own = questions.map(({ vector, cluster }) =>
    distance(
      vector,
      vectors.filter((_, at) => exemplars[at]!.cluster !== cluster),
    ),
  );
  const general = material.background.map((vector) => distance(vector, vectors));
  const { a, b } = foreignOf(own, general);
  return {
    reference: {
      encoder_sha256: encoderSha256,
      dimensions,
      exemplars: Buffer.concat(exemplars.map(({ bytes }) => bytes)).toString("base64"),
      distances: own.toSorted((x, y) => x - y),
      foreign: { a, b },
      background: general.length,
    },
    foreign: own.map((d) => sigmoid(a * d + b)),
  };
}

/** Without general questions nothing is known to be foreign: π is 0. */
function foreignOf(own: readonly number[], general: readonly number[]): { a: number; b: number } {
  if (general.length === 0) return { a: 0, b: Number.MIN_SAFE_INTEGER };
  const labels = [...own.map(() => false), ...general.map(() => true)];
  const { means, scales, weights, bias } = fitLogistic(
    [...own, ...general].map((d) => [d]),
    labels,
    1,
  );
  const a = weights[0]! / scales[0]!;
  // Logistic regression takes the sizes of its samples for how common each kind is.
  return { a, b: bias - a * means[0]! + Math.log(own.length / general.length) };
}

/** Decodes a reference for many questions. */
export function driftSpace({ dimensions, exemplars, distances, foreign }: DriftReference): DriftSpace {
  const bytes = Buffer.from(exemplars, "base64");
  const vectors = Array.from({ length: bytes.length / dimensions }, (_, at) =>
    unpacked(bytes.subarray(at * dimensions, (at + 1) * dimensions)),
  );
  return {
    measure(vector) {
      const d = distance(vector, vectors);
      return {
        distance: d,
        pValue: (1 + distances.length - below(distances, d)) / (1 + distances.length),
        foreign: sigmoid(foreign.a * d + foreign.b),
      };
    },
  };
}

/** How many of the rising values are less than x. */
function below(values: readonly number[], x: number): number {
  const at = values.findIndex((value) => value >= x);
  return at < 0 ? values.length : at;
}

function distance(vector: Float32Array, exemplars: readonly Float32Array[]): number {
  const best: number[] = [];
  for (const exemplar of exemplars) {
    let cosine = 0;
    for (let at = 0; at < vector.length; at++) cosine += vector[at]! * exemplar[at]!;
    best.push(cosine);
  }
  best.sort((x, y) => y - x);
  const near = best.slice(0, nearest);
  return 1 - near.reduce((sum, cosine) => sum + cosine, 0) / near.length;
}

/** Evenly over all, so that every part of the documents has its share. */
function spread<T>(items: readonly T[]): T[] {
  const count = Math.min(items.length, mostExemplars);
  return Array.from({ length: count }, (_, at) => items[Math.floor((at * items.length) / count)]!);
}

function packed(vector: Float32Array): Uint8Array {
  const greatest = Math.max(...vector.map(Math.abs)) || 1;
  return new Uint8Array(Int8Array.from(vector, (value) => Math.round((127 * value) / greatest)).buffer);
}

/** Of unit length again. */
function unpacked(bytes: Uint8Array): Float32Array {
  const values = Float32Array.from(new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length));
  const length = Math.hypot(...values) || 1;
  return values.map((value) => value / length);
}
