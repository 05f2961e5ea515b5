// Endpoints for the models that can answer now, and for their tokenizers.
import { Failure, invalid } from "../../base/errors.ts";
import type { Caller, Handlers, Reply } from "../../contract/endpoint.ts";
import type { tokens } from "../../contract/tokens.ts";
import { encodeInParts } from "../../engine/format/in-parts.ts";
import { contextOf, type ModelKind, type Tokenizer } from "../../engine/generator.ts";
import { withTokenizer } from "./held.ts";
import { refuseHuge } from "./prompts.ts";
import type { Asked, SessionParts } from "./session.ts";

/** A model that can answer now. */
export interface ListedModel {
  modelId: string;
  name: string;
  kind: ModelKind;
  /** The user who aligned it; null for a base. */
  owner: string | null;
  createdAt: string;
}

type Listed = Reply<(typeof tokens)["inference.model"]>;

export function createTokens(
  parts: SessionParts,
  listModels: (caller: Caller) => ListedModel[],
): Handlers<typeof tokens> {
  const { generator } = parts;
  /** Runs tokenizer work. It is not recorded as usage, but the model must exist and be accessible to the caller. */
  const reading = <T>(
    asked: Pick<Asked, "headers">,
    caller: Caller,
    name: string | undefined,
    work: (tokenizer: Tokenizer) => T | Promise<T>,
  ): Promise<T> => withTokenizer(parts, asked, caller, name, ["text", "embedding", "rerank"], work);

  return {
    "inference.models": async ({ query }, caller) => {
      const all = listModels(caller).map(listed);
      const from = query.after_id === undefined ? 0 : indexOf(all, query.after_id) + 1;
      const to = query.before_id === undefined ? all.length : indexOf(all, query.before_id);
      const range = all.slice(from, to);
      const { limit = range.length } = query;
      // Clients page backwards by before_id alone, so that page is the end of the range.
      const isBackwards = query.before_id !== undefined && query.after_id === undefined;
      const data = isBackwards ? range.slice(Math.max(0, range.length - limit)) : range.slice(0, limit);
      return {
        object: "list",
        data,
        has_more: data.length < range.length,
        first_id: data[0]?.id ?? null,
        last_id: data.at(-1)?.id ?? null,
      };
    },

    "inference.model": async ({ params }, caller) => {
      // The name may be an alias, so compare ids.
      const { modelId } = parts.resolve(caller, params.model_id);
      const found = listModels(caller).find((model) => model.modelId === modelId);
      if (!found) throw new Failure("not_found", "Model not found");
      return listed(found);
    },

    "inference.tokenizer_info": async ({ query, ...input }, caller) =>
      reading(input, caller, query.model, (tokenizer) => {
        const nameOf = (token: number | null): string | null => (token === null ? null : tokenizer.pieceOf(token));
        return {
          tokenizer_class: "GGUF",
          bos_token: nameOf(tokenizer.bos),
          eos_token: nameOf(tokenizer.eos),
          pad_token: null,
          bos_token_id: tokenizer.bos,
          eos_token_id: tokenizer.eos,
          add_bos_token: tokenizer.addBos,
          chat_template: tokenizer.chatTemplate,
          model_max_length: contextOf(generator, tokenizer),
          vocab_size: tokenizer.vocabulary,
        };
      }),

    "inference.tokenize": async ({ body, ...input }, caller) =>
      reading(input, caller, body.model, async (tokenizer) => {
        refuseHuge(body.prompt.length, generator.slotContext);
        const start =
          body.add_special_tokens !== false && tokenizer.addBos && tokenizer.bos !== null ? [tokenizer.bos] : [];
        const ids = [...start, ...(await encodeInParts(tokenizer, body.prompt, body.parse_special !== false))];
        return { tokens: ids, count: ids.length, max_model_len: contextOf(generator, tokenizer) };
      }),

    "inference.detokenize": async ({ body, ...input }, caller) =>
      reading(input, caller, body.model, (tokenizer) => {
        refuseHuge(body.tokens.length, generator.slotContext, "tokens");
        const wrong = body.tokens.findIndex((id) => id >= tokenizer.vocabulary);
        if (wrong >= 0)
          throw invalid(["body", "tokens", wrong], `the model's last token id is ${tokenizer.vocabulary - 1}`);
        return { prompt: withControls(tokenizer, body.tokens) };
      }),
  };
}

/**
 * Decodes ids to text. Control tokens, which have no bytes, are written as their names, so that `tokenize` can restore
 * them.
 */
function withControls(tokenizer: Tokenizer, ids: readonly number[]): string {
  let text = "";
  let words: number[] = [];
  for (const id of ids)
    if (tokenizer.bytesOf(id).length > 0) words.push(id);
    else {
      text += tokenizer.decode(words) + tokenizer.pieceOf(id);
      words = [];
    }
  return text + tokenizer.decode(words);
}

function indexOf(models: readonly Listed[], id: string): number {
  const index = models.findIndex((model) => model.id === id);
  if (index < 0) throw new Failure("not_found", "Model not found");
  return index;
}

const listed = ({ modelId, name, kind, owner, createdAt }: ListedModel): Listed => ({
  id: modelId,
  object: "model",
  created: Math.floor(Date.parse(createdAt) / 1000),
  owned_by: owner ?? "plumbline",
  type: "model",
  display_name: name,
  created_at: createdAt,
  kind,
});
