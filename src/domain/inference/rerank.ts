// POST rerank and v2/rerank. A cross-encoder is made to score pairs of texts; for models of another kind, another method
// is used. The response names the method. The methods by kind of model, with their scores:
//
//   rerank      cross_encoder   σ(log-odds)                    raw: log-odds
//   embedding   embedding       (1 + cosine) / 2               raw: cosine
//   text        likelihood      exp(mean ln p of the query)    raw: mean ln p, in nats (Sachan et al., 2022)
import { Failure } from "../../base/errors.ts";
import { givingWay } from "../../base/time.ts";
import type { Caller, Handler } from "../../contract/endpoint.ts";
import type { rerankMethods, vectors } from "../../contract/vectors.ts";
import { formatLongChat } from "../../engine/format/chat-format.ts";
import { encodeInParts } from "../../engine/format/in-parts.ts";
import { contextOf, type Tokenizer } from "../../engine/generator.ts";
import { type Held, withModel } from "./held.ts";
import { refuseHuge } from "./prompts.ts";
import { type Asked, type SessionParts, tellTruncation } from "./session.ts";

type Method = (typeof rerankMethods)[number];

interface Scored {
  score: number;
  raw: number;
}

interface Ranking {
  modelId: string;
  method: Method;
  /** Scores in the order of the documents. */
  scores: Scored[];
  tokens: number;
  truncated: number;
}

type Documents = readonly (string | { text: string })[];

export const createRerank =
  (parts: SessionParts): Handler<(typeof vectors)["inference.rerank"]> =>
  async ({ body, ...input }, caller) => {
    const asked = body.texts ?? body.documents!;
    const ranking = await rank(parts, input, caller, body, asked);
    const texts = asked.map(textOf);
    const order = ordered(ranking, body.top_n ?? texts.length);
    if (body.texts !== undefined)
      return order.map((index) => ({
        index,
        score: body.raw_scores ? ranking.scores[index]!.raw : ranking.scores[index]!.score,
        ...(body.return_text ? { text: texts[index]! } : {}),
      }));
    return {
      model: ranking.modelId,
      method: ranking.method,
      results: order.map((index) => ({
        index,
        relevance_score: ranking.scores[index]!.score,
        ...(body.return_documents ? { document: { text: texts[index]! } } : {}),
      })),
      usage: {
        prompt_tokens: ranking.tokens,
        total_tokens: ranking.tokens,
        truncated_tokens: ranking.truncated,
      },
    };
  };

export const createRerankCohere =
  (parts: SessionParts): Handler<(typeof vectors)["inference.rerank_cohere"]> =>
  async ({ body, ...input }, caller) => {
    const ranking = await rank(parts, input, caller, body, body.documents);
    return {
      id: `rerank-${input.requestId}`,
      results: ordered(ranking, body.top_n ?? body.documents.length).map((index) => ({
        index,
        relevance_score: ranking.scores[index]!.score,
      })),
      meta: {
        api_version: { version: "2" },
        billed_units: { search_units: 1 },
        tokens: { input_tokens: ranking.tokens },
        method: ranking.method,
        truncated_tokens: ranking.truncated,
      },
    };
  };

const textOf = (document: string | { text: string }): string =>
  typeof document === "string" ? document : document.text;

/** Indexes of the best documents, the most relevant first. Documents with equal scores stay in their original order. */
const ordered = ({ scores }: Ranking, most: number): number[] =>
  [...scores.keys()].sort((a, b) => scores[b]!.raw - scores[a]!.raw || a - b).slice(0, most);

async function rank(
  parts: SessionParts,
  asked: Asked,
  caller: Caller,
  body: { model?: string; query: string; truncate?: boolean | null },
  documents: Documents,
): Promise<Ranking> {
  return withModel(parts, asked, caller, body.model, ["rerank", "embedding", "text"], async (held) => {
    const texts = documents.map(textOf);
    for (const text of [body.query, ...texts]) refuseHuge(text.length, parts.generator.slotContext);
    const options = { truncate: body.truncate ?? false, signal: asked.signal };
    const method = methods[held.kind];
    const read = await scorers[method](parts, held, body.query, texts, options);
    held.count(read.tokens);
    asked.setHeader("x-plumbline-rerank-method", method);
    tellTruncation(parts, asked, read.truncated);
    return { modelId: held.model.modelId, method, ...read };
  });
}

const methods = { rerank: "cross_encoder", embedding: "embedding", text: "likelihood" } as const;

type Read = Pick<Ranking, "scores" | "tokens" | "truncated">;
type Scorer = (
  parts: SessionParts,
  held: Held,
  query: string,
  texts: readonly string[],
  options: { truncate: boolean; signal: AbortSignal },
) => Promise<Read>;

const sum = (values: readonly { tokens: number; truncated: number }[], key: "tokens" | "truncated"): number =>
  values.reduce((total, one) => total + one[key], 0);

const byCrossEncoder: Scorer = async ({ generator }, { model }, query, texts, options) => {
  const ranked = await generator.rank(model.ref, query, texts, options);
  return {
    scores: ranked.map(({ logit }) => ({ raw: logit, score: 1 / (1 + Math.exp(-logit)) })),
    tokens: sum(ranked, "tokens"),
    truncated: sum(ranked, "truncated"),
  };
};

const byEmbedding: Scorer = async ({ generator }, { model }, query, texts, options) => {
  const embedded = await generator.embed(
    model.ref,
    // An empty text has no embedding; a space stands in for it.
    [query, ...texts].map((text) => (text === "" ? " " : text)),
    options,
  );
  const [asked, ...documents] = embedded.map((one) => one.vector);
  return {
    scores: documents.map((vector) => {
      const cosine = vector.reduce((total, value, index) => total + value * asked![index]!, 0);
      return { raw: cosine, score: (1 + cosine) / 2 };
    }),
    tokens: sum(embedded, "tokens"),
    truncated: sum(embedded, "truncated"),
  };
};

/** Scores each document by the likelihood of the query as a question about it. */
const byLikelihood: Scorer = async ({ generator }, { model, tokenizer }, query, texts, options) => {
  const asked = await encodeInParts(tokenizer, query, false);
  const context = contextOf(generator, tokenizer);
  const rows: { tokens: number[]; promptLength: number; truncated: number }[] = [];
  const giveWay = givingWay();
  for (const [index, text] of texts.entries()) {
    const made = await promptFor(tokenizer, text, asked.length, context, options.truncate, index);
    rows.push({ tokens: [...made.prompt, ...asked], promptLength: made.prompt.length, truncated: made.truncated });
    await giveWay();
    options.signal.throwIfAborted();
  }
  const scored = await generator.score(model.ref, rows, options.signal);
  return {
    scores: scored.map((logprobs) => {
      const mean = logprobs.reduce((total, value) => total + value, 0) / logprobs.length;
      return { raw: mean, score: Math.exp(mean) };
    }),
    tokens: rows.reduce((total, row) => total + row.tokens.length, 0),
    truncated: sum(
      rows.map(({ tokens, truncated }) => ({ tokens: tokens.length, truncated })),
      "truncated",
    ),
  };
};

const scorers: Record<Method, Scorer> = {
  cross_encoder: byCrossEncoder,
  embedding: byEmbedding,
  likelihood: byLikelihood,
};

async function promptFor(
  tokenizer: Tokenizer,
  text: string,
  queryTokens: number,
  context: number,
  truncate: boolean,
  index: number,
): Promise<{ prompt: number[]; truncated: number }> {
  const render = async (passage: string): Promise<number[]> => {
    const content = `Passage: ${passage}\n\nPlease write a question based on this passage.`;
    if (tokenizer.chatTemplate !== null) return formatLongChat(tokenizer, [{ role: "user", content }]);
    const start = tokenizer.addBos && tokenizer.bos !== null ? [tokenizer.bos] : [];
    return [...start, ...(await encodeInParts(tokenizer, `${content}\nQuestion: `, false))];
  };
  const room = context - queryTokens;
  const prompt = await render(text);
  if (prompt.length <= room) return { prompt, truncated: 0 };
  if (!truncate)
    throw new Failure(
      "prompt_too_long",
      `documents[${index}] and the query make ${prompt.length + queryTokens} tokens; the limit is ${context}. Set \`truncate\` to cut it`,
    );
  const tokens = await encodeInParts(tokenizer, text, false);
  const kept = tokens.length - (prompt.length - room);
  // Text that was cut between two tokens can encode to one token more.
  for (let most = kept; most >= 0; most--) {
    const cut = await render(tokenizer.decode(tokens.slice(0, most)));
    if (cut.length <= room) return { prompt: cut, truncated: tokens.length - most };
  }
  throw new Failure("prompt_too_long", `The query alone fills the context of ${context} tokens`);
}
