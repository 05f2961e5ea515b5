// Receives one answer of a chat as it streams in.
import type { Replies } from "../client.ts";
import { type Client, eventOf } from "../client.ts";
import { createWords, type Rendering, type Token } from "./words.ts";

type Whole = Replies["inference.chat"];

export interface Said {
  answer: string;
  finish_reason: string | null;
  confidence_score: number | null;
  confidence: Whole["confidence"];
  usage: Whole["usage"] | null;
  least_certain: { text: string; probability: number }[];
}

interface Chunk {
  choices: {
    delta: { content?: string | null };
    finish_reason: string | null;
    logprobs: { content: Token[] } | null;
  }[];
  usage?: Whole["usage"];
  confidence_score?: number | null;
  confidence?: Whole["confidence"];
}

/** Maximum words reported as least certain. */
const leastCertain = 5;

/** Asks the model and returns its whole answer. Calls `show` with each printable part of the answer as it streams in. */
export async function answer(
  client: Client,
  body: object,
  show: (text: string) => void,
  rendering: Rendering,
  signal: AbortSignal,
): Promise<Said> {
  const words = createWords(rendering);
  const said: Said = {
    ...{ answer: "", finish_reason: null, confidence_score: null, confidence: null, usage: null, least_certain: [] },
  };
  const asked = { ...body, stream: true, logprobs: true, stream_options: { include_usage: true } };
  for await (const data of client.stream("inference.chat", { body: asked, signal })) {
    if (data === "[DONE]") break;
    const chunk = eventOf<Chunk>(data);
    const [choice] = chunk.choices;
    const content = choice?.delta.content ?? "";
    if (content !== "") {
      said.answer += content;
      show(words.add(content, choice?.logprobs?.content ?? []));
    }
    said.finish_reason = choice?.finish_reason ?? said.finish_reason;
    said.usage = chunk.usage ?? said.usage;
    said.confidence_score = chunk.confidence_score ?? said.confidence_score;
    said.confidence = chunk.confidence ?? said.confidence;
  }
  show(words.end());
  return { ...said, least_certain: words.leastCertain(leastCertain) };
}

/** Describes an answer's confidence in one line. Base models have no confidence. The words' probabilities are never calibrated. */
export function confidenceText({ confidence_score: score, confidence, least_certain, finish_reason }: Said): string {
  const calibrated = confidence?.calibrated ? `calibrated on ${confidence.n} answers` : "not calibrated";
  const drift = confidence?.drift.p_value;
  const sources = confidence?.sources?.length ?? 0;
  const unsure = least_certain.map(({ text, probability }) => `${text} ${Math.round(probability * 100)} %`);
  return [
    score === null ? "no confidence: this is a base model" : `confidence ${Math.round(score)} of 100, ${calibrated}`,
    ...(typeof drift === "number" && drift < 0.05 ? ["the question is unlike the documents"] : []),
    ...(sources > 0 ? [sources === 1 ? "one passage supports it" : `${sources} passages support it`] : []),
    ...(unsure.length > 0 ? [`least certain: ${unsure.join(", ")}`] : []),
    ...(finish_reason === "length" ? ["cut off at the maximum length"] : []),
  ].join("; ");
}
