// Loads and runs an untrusted file for the first time, in the probe's child process and in the way that serving does. If the
// library ends the process, only the child is lost.
import { Failure } from "../../base/errors.ts";
import { createLog, type Log } from "../../base/log.ts";
import { type ChatMessage, formatChat } from "../format/chat-format.ts";
import type { Tokenizer } from "../generator.ts";
import { poolingOf } from "../gguf/pooling.ts";
import { type NativeModel, openNative } from "./binding.ts";

/** The library's last message that may say why it refuses the file. */
let said = "";

const log: Log = createLog("warn", (line) => {
  process.stderr.write(line);
  const { text } = JSON.parse(line) as { text?: string };
  if (text !== undefined && /error|fail|invalid|wrong|missing|unknown|not /i.test(text)) said = text;
});

const unsound = (what: string): Failure => new Failure("model_invalid", `Not a valid model file: ${what}`);

/** Reports the library's message instead of ours, which contains a path on this machine. */
async function loaded<T>(opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== "model_load_failed") throw error;
    throw unsound(said === "" ? "the library rejected it" : `the library rejected it: ${said.slice(0, 300)}`);
  }
}

/** Loads the vocabulary only. */
export async function openSuspect(path: string): Promise<NativeModel> {
  const native = await openNative(log);
  return loaded(native.openModel(path, { vocabularyOnly: true }));
}

/** Texts to encode: every character up to U+00FF, and what people write. */
const texts = [
  "Hello, world: 1 + 1 = 2.",
  Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).join(""),
  "Ωμέγα, Straße, naïve, Привет, שלום, سلام, नमस्ते, 你好，世界, こんにちは, 한국어, 🙂👩‍👩‍👧, \u{10ffff}\ufffd",
  "   \t\n\n  <s></s><|im_start|><unk><pad>[CLS][SEP] a\u0301 ﬁ \u200b\ufeff",
  "the ".repeat(40),
];

/** Encodes every test text, and decodes every token of the vocabulary. Throws model_invalid for a token that does not exist. */
export function readEverything(tokenizer: Tokenizer): void {
  for (const isSpecial of [false, true])
    for (const text of texts) {
      const ids = tokenizer.encode(text, isSpecial);
      if (ids.some((id) => id >= tokenizer.vocabulary))
        throw unsound("its vocabulary maps text to tokens that do not exist");
    }
  if (tokenizer.encode(texts[0]!, false).length === 0) throw unsound("its vocabulary cannot encode plain text");
  for (const id of [tokenizer.bos, tokenizer.eos, ...tokenizer.eog])
    if (id !== null && id >= tokenizer.vocabulary) throw unsound(`its control token ${id} is not in its vocabulary`);
  for (let token = 0; token < tokenizer.vocabulary; token++) tokenizer.pieceOf(token);
}

const conversations: ChatMessage[][] = [
  [{ role: "user", content: "Hello?" }],
  [
    { role: "user", content: "Hello?" },
    { role: "assistant", content: "Hello." },
    { role: "user", content: "Goodbye." },
  ],
];

/** Maximum CPU time to render the conversations, which should take a few ms. All other requests wait while a template is rendered. */
const mostTemplateMs = 1_000;

/**
 * Returns why the template cannot render a plain conversation; null if it can. Throws model_invalid if rendering takes too long.
 */
export function templateProblemOf(tokenizer: Tokenizer): string | null {
  if (tokenizer.chatTemplate === null) return "The file has no chat template";
  const before = process.cpuUsage();
  const problem = renderingProblem(tokenizer);
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1000;
  if (ms <= mostTemplateMs) return problem;
  throw unsound(
    `rendering its chat template took ${(ms / 1000).toFixed(1)} s; the limit is ${mostTemplateMs / 1000} s`,
  );
}

function renderingProblem(tokenizer: Tokenizer): string | null {
  try {
    for (const messages of conversations) formatChat(tokenizer, messages);
    return null;
  } catch (error) {
    if (error instanceof Failure) return error.message;
    throw error;
  }
}

const slotContext = 64;
/** A few tokens are enough to run every layer. There is one thread, because several would wait for each other on a busy machine. */
const [promptTokens, threads] = [8, 1];

/** Loads the whole model and runs it. Throws model_invalid. */
export async function tryOut(path: string): Promise<void> {
  const native = await openNative(log);
  const model = await loaded(native.openModel(path, { onTrial: true }));
  const { tokenizer, header } = model;
  const tokens = tokenizer.encode(texts.join(" "), false).slice(0, promptTokens);
  if (poolingOf(header).kind === "text") await answer(model, tokens);
  await embed(model, tokens);
  await model.dispose();
}

/** Generates a token in each of two sequences, one of which is a copy of the other, as in the pool of slots. Throws model_invalid. */
async function answer(model: NativeModel, prompt: number[]): Promise<void> {
  const context = await loaded(model.openContext({ sequences: 2, slotContext, batch: slotContext, threads }));
  const sampler = context.openSampler();
  const last = prompt.length - 1;
  const [[row]] = (await context.decode([{ sequence: 0, position: 0, tokens: prompt, logitsAt: [last] }])) as [
    [number],
  ];
  const { best, logZ } = await sampler.exact(row, prompt[0]!);
  mustBeFinite([logZ, ...(await sampler.top(row)).logits]);
  await context.copy(0, 1);
  const next = [0, 1].map((sequence) => ({ sequence, position: last + 1, tokens: [best], logitsAt: [0] }));
  for (const [second] of await context.decode(next)) mustBeFinite((await sampler.top(second!)).logits);
  sampler.dispose();
  await context.dispose();
}

async function embed(model: NativeModel, tokens: number[]): Promise<void> {
  const context = await loaded(model.openEmbeddingContext({ slotContext, batch: slotContext, threads }));
  mustBeFinite(await context.read(tokens, 0));
  await context.dispose();
}

function mustBeFinite(numbers: Iterable<number>): void {
  for (const number of numbers)
    if (!Number.isFinite(number)) throw unsound("its output contains values that are not numbers");
}
