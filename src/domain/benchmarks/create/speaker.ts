// What writers ask of a model, by the generator that also serves chats. Greedy: the same prompts give the same texts.
import type { Generator, ModelRef } from "../../../engine/generator.ts";
import type { Speaker } from "../../../study/writers/writer.ts";

/** `ref`: loaded. Prompts are plain text, without the model's chat template. */
export function createSpeaker(generator: Generator, ref: ModelRef, signal: AbortSignal): Speaker {
  const tokenizer = generator.tokenizer(ref.baseId);
  const context = Math.min(generator.seatContext, tokenizer.trainContext || generator.seatContext);
  return {
    /** Nothing comes after a prompt that leaves no room for it. */
    async say(prompts, { maxTokens, temperature }) {
      if (temperature !== 0) throw new TypeError("The generator answers many prompts at once only greedily");
      const said = prompts.map(() => "");
      const asked = prompts
        .map((prompt, at) => ({ at, tokens: tokenizer.encode(prompt, false) }))
        .filter(({ tokens }) => tokens.length + maxTokens <= context);
      if (asked.length === 0) return said;
      await generator.evaluate({
        model: ref,
        prompts: asked.map(({ tokens }) => tokens),
        maxTokens,
        signal,
        startAt: 0,
        onItem: (index, { text }) => {
          said[asked[index]!.at] = text;
        },
      });
      return said;
    },
    async score(rows) {
      const encoded = rows.map(({ prompt, text }) => ({
        prompt: prompt === "" ? [] : tokenizer.encode(prompt, false),
        text: tokenizer.encode(text, false),
      }));
      const scored = await generator.score(
        ref,
        // The first token of a row follows nothing and has no log-prob.
        encoded.map(({ prompt, text }) => ({ tokens: [...prompt, ...text], promptLength: Math.max(1, prompt.length) })),
        signal,
      );
      return encoded.map(({ prompt, text }, at) => ({
        ends: text.map((_, token) => tokenizer.decode(text.slice(0, token + 1)).length),
        logprobs: [...(prompt.length === 0 && text.length > 0 ? [0] : []), ...scored[at]!],
      }));
    },
  };
}
