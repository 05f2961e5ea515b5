// The disposable half of the probe: header first, by our own strict reader; then the vocabulary, by the library; then the template.
import { Worker } from "node:worker_threads";
import { Failure } from "../base/errors.ts";
import { createLog } from "../base/log.ts";
import { openTokenizer } from "./bases.ts";
import { type ChatMessage, formatChat } from "./chat-format.ts";
import type { Tokenizer } from "./generator.ts";
import { readGgufHeader } from "./gguf-header.ts";
import { factsOf } from "./model-facts.ts";
import type { ProbeLine } from "./probe.ts";
import { refuseSegments } from "./segments.ts";

const say = (line: ProbeLine): Promise<void> =>
  new Promise((resolve) => process.stdout.write(`${JSON.stringify(line)}\n`, () => resolve()));

const conversations: ChatMessage[][] = [
  [{ role: "user", content: "Hello?" }],
  [
    { role: "user", content: "Hello?" },
    { role: "assistant", content: "Hello." },
    { role: "user", content: "Goodbye." },
  ],
];

/** What keeps the template from rendering a plain conversation; null when nothing does. */
function templateProblemOf(tokenizer: Tokenizer): string | null {
  if (tokenizer.chatTemplate === null) return "The file has no chat template";
  try {
    for (const messages of conversations) formatChat(tokenizer, messages);
    return null;
  } catch (error) {
    if (error instanceof Failure) return error.message;
    throw error;
  }
}

async function examine(path: string, seating: { seats: number; seatContext: number }): Promise<void> {
  await say({ stage: "header" });
  const header = readGgufHeader(path);
  const list = header.values.get("tokenizer.ggml.tokens");
  // The library aborts the process where a tokenizer is missing.
  if (typeof list !== "object" || list.length === 0 || !header.values.has("tokenizer.ggml.model"))
    throw new Failure("model_invalid", "Not a sound model file: it has no vocabulary");
  refuseSegments(path, header);
  await say({ stage: "vocabulary" });
  const { tokenizer, dispose } = await openTokenizer(path, createLog("error"));
  const sentence = "Hello, world: 1 + 1 = 2.";
  const ids = tokenizer.encode(sentence, false);
  if (ids.length === 0 || ids.some((id) => id >= tokenizer.vocabulary))
    throw new Failure("model_invalid", "Not a sound model file: its vocabulary does not read plain text");
  await say({ stage: "template" });
  const facts = factsOf(header, templateProblemOf(tokenizer), seating);
  await dispose();
  await say({ facts });
}

const [path, seating, deadlineMs] = process.argv.slice(2);
// Should the parent die, nobody is left to end a template's endless loop; a thread of our own still is.
new Worker("setTimeout(() => process.kill(process.pid, 'SIGKILL'), require('node:worker_threads').workerData)", {
  eval: true,
  workerData: Number(deadlineMs),
}).unref();
try {
  await examine(path!, JSON.parse(seating!));
  process.exit(0);
} catch (error) {
  await say({ refused: { message: error instanceof Error ? error.message : String(error) } });
  process.exit(1);
}
