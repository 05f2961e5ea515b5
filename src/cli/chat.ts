// plumbline chat: talks to a model through the API, and shows how sure the model was.
import { createInterface } from "node:readline/promises";
import { text as readAll } from "node:stream/consumers";
import type { Command } from "commander";
import { Failure } from "../base/errors.ts";
import { asks, asSaid } from "./asks.ts";
import { answer, confidenceText, type Said } from "./chat/answer.ts";
import { onTerminal, plain } from "./chat/rendering.ts";
import { type Rendering, unsure } from "./chat/words.ts";
import type { Client } from "./client.ts";
import { number, optional, said, whole } from "./options.ts";
import { note, speakFailure } from "./output.ts";

interface Options {
  json?: boolean;
  system?: string;
  temperature?: string;
  maxTokens?: string;
}

interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export function register(program: Command): void {
  const chat = program
    .command("chat")
    .description("ask a model a question or chat with it; its least certain words are marked")
    .argument("<model>", "id or name of a deployed aligned model or of a base model, or the name of a channel")
    .argument(
      "[question...]",
      "a single question; without it, questions are read from standard input, or one after another from a terminal",
    )
    .option("--system <text>", "the system text")
    .option("--temperature <n>", "from 0 to 2 (default: 0, so that the same question gets the same answer)")
    .option("--max-tokens <n>", "maximum tokens of an answer (default: 2000)")
    .addHelpText(
      "after",
      `
After each answer, a line on standard error shows its confidence and its least certain words. On a terminal, words to which the model
gave a probability below ${unsure * 100} % are underlined as they appear; Ctrl-C stops an answer, and Ctrl-D ends the chat.`,
    );
  asks<Options, [string, string[]]>(chat, async (client, options, model, words) => {
    const settings = said({
      model,
      temperature: optional(number, "--temperature", options.temperature) ?? 0,
      max_tokens: optional(whole, "--max-tokens", options.maxTokens),
    });
    const before: Message[] = options.system === undefined ? [] : [{ role: "system", content: options.system }];
    if (words.length === 0 && process.stdin.isTTY && !options.json) {
      await talk(client, settings, before);
      return { json: null, text: "" };
    }
    const question = words.length > 0 ? words.join(" ") : (await readAll(process.stdin)).trim();
    if (question === "") throw new Failure("usage", "Standard input contains no question");
    const messages: Message[] = [...before, { role: "user", content: question }];
    const body = { ...settings, messages };
    const told = await answer(
      client,
      body,
      options.json ? () => {} : show,
      renderingHere(),
      new AbortController().signal,
    );
    if (!options.json) end(told);
    return { json: { model, ...told }, text: "" };
  });
}

const renderingHere = (): Rendering => (process.stdout.isTTY ? onTerminal : plain);
const show = (text: string): void => void process.stdout.write(text);

function end(told: Said): void {
  process.stdout.write("\n");
  note(confidenceText(told));
}

/** Reads questions and shows answers until Ctrl-D. A question that fails is reported, and left out of the conversation. */
async function talk(client: Client, settings: object, messages: Message[]): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  let abort: AbortController | null = null;
  terminal.on("SIGINT", () => (abort === null ? terminal.close() : abort.abort()));
  const closed = new Promise<null>((resolve) => terminal.once("close", () => resolve(null)));
  note(`Chatting with ${String((settings as { model: string }).model)}; Ctrl-D ends the chat`);
  try {
    for (;;) {
      const question = await Promise.race([terminal.question("> ").catch(() => null), closed]);
      if (question === null) return;
      if (question.trim() === "") continue;
      abort = new AbortController();
      try {
        const asked: Message[] = [...messages, { role: "user", content: question }];
        const told = await answer(client, { ...settings, messages: asked }, show, onTerminal, abort.signal);
        end(told);
        messages.push(...asked.slice(messages.length), { role: "assistant", content: told.answer });
      } catch (error) {
        process.stdout.write("\n");
        if (!abort.signal.aborted) speakFailure(asSaid(error), false);
        process.exitCode = 0;
      }
      abort = null;
    }
  } finally {
    terminal.close();
  }
}
