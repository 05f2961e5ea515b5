// Converts the log-probs of an answer or a prompt to the formats of the responses. They are the model's own, before
// temperature and penalties.
import type { GeneratedToken, PromptToken, Tokenizer, TopLogits } from "../../engine/generator.ts";

/**
 * A token, its ln p over the whole vocabulary (null for the first token of a prompt), and the top tokens of its step, the
 * most probable first.
 */
interface Scored {
  token: number;
  logprob: number | null;
  top: [token: number, logprob: number][];
}

/** OpenAI's value for −∞, which JSON cannot express. */
const least = -9999;

export function scoredAnswer({ token, top, logZ }: GeneratedToken, most: number): Scored {
  const at = top.tokens.indexOf(token);
  return { token, logprob: Math.max(least, top.logits[at]! - logZ!), top: best(top, logZ!, most) };
}

export function scoredPrompt({ token, step }: PromptToken, most: number): Scored {
  if (step === null) return { token, logprob: null, top: [] };
  return { token, logprob: Math.max(least, step.logprob), top: best(step.top, step.logZ, most) };
}

const best = ({ tokens, logits }: TopLogits, logZ: number, most: number): Scored["top"] =>
  Array.from(tokens.subarray(0, most), (token, at) => [token, Math.max(least, logits[at]! - logZ)]);

export interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: (number | null)[];
  top_logprobs: (Record<string, number> | null)[];
  text_offset: number[];
}

/**
 * Returns log-probs in OpenAI's format for completions. `top_logprobs` always contains the token itself. `offset` is the
 * number of code points of text before the first token.
 */
export function completionLogprobs(
  scored: readonly Scored[],
  tokenizer: Tokenizer,
  offset: number,
): CompletionLogprobs {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const offsets: number[] = [];
  let at = offset;
  for (const { token } of scored) {
    offsets.push(at);
    // A code point counts towards the token that completes it.
    at += [...decoder.decode(tokenizer.bytesOf(token), { stream: true })].length;
  }
  return {
    tokens: scored.map(({ token }) => tokenText(tokenizer, token)),
    token_logprobs: scored.map(({ logprob }) => logprob),
    top_logprobs: scored.map(({ token, logprob, top }) =>
      logprob === null
        ? null
        : Object.fromEntries([...top, [token, logprob] as const].map(([id, ln]) => [tokenText(tokenizer, id), ln])),
    ),
    text_offset: offsets,
  };
}

/** Returns log-probs in OpenAI's format for chats. The token that ends the answer is left out. */
export function chatLogprobs(tokens: readonly GeneratedToken[], tokenizer: Tokenizer, most: number) {
  const entry = (token: number, logprob: number) => ({
    token: tokenText(tokenizer, token),
    logprob,
    bytes: [...tokenizer.bytesOf(token)],
  });
  return {
    content: tokens
      .filter(({ token }) => !tokenizer.eog.has(token))
      .map((token) => scoredAnswer(token, most))
      .map(({ token, logprob, top }) => ({
        ...entry(token, logprob!),
        top_logprobs: top.map(([id, ln]) => entry(id, ln)),
      })),
    refusal: null,
  };
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Returns the text of a token. If the token's bytes are not valid text by themselves, returns the bytes in hex, so that no
 * two such tokens have the same name.
 */
function tokenText(tokenizer: Tokenizer, token: number): string {
  const bytes = tokenizer.bytesOf(token);
  if (bytes.length === 0) return tokenizer.pieceOf(token);
  try {
    return strict.decode(bytes);
  } catch {
    return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
  }
}
