// The generator over the real starter model: what it answers, what it refuses, and that nothing depends on who else is there.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { formatChat } from "../../src/engine/format/chat-format.ts";
import type { EvaluatedAnswer, GeneratedToken, ModelRef, PromptToken, Tokenizer } from "../../src/engine/generator.ts";
import { adapterFolder, base, codeOf, collect, createEngine, greedy, requestOf } from "./engine-fixture.ts";

const { generator } = createEngine();
const adapters = adapterFolder();
const loud = adapters.adapter("loud", 1);
const silent = adapters.adapter("silent", 0);
let tokenizer: Tokenizer;
let story: number[];

const asked = (question: string): number[] => formatChat(tokenizer, [{ role: "user", content: question }]);

before(async () => {
  for (const model of [base, loud, silent]) await generator.pool.lease(model, "work");
  tokenizer = generator.tokenizer(base.baseId);
  story = asked("Tell me a story about a cat.");
});
after(async () => {
  await generator.dispose();
  adapters.remove();
});

test("text survives the tokenizer, whatever people write", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), (text) => {
      assert.equal(tokenizer.decode(tokenizer.encode(text, false)), text);
    }),
  );
});

test("a streamed answer is its tokens' text, and its log-probs are of the kept logits", async () => {
  const answer = await collect(generator, requestOf(story, { maxTokens: 40 }));
  assert.equal(answer.text, tokenizer.decode(answer.tokens.map((token) => token.token)));
  assert.match(answer.text, /cat/);
  assert.equal(answer.finishReason, "length");
  assert.deepEqual([answer.promptTokens, answer.completionTokens], [story.length, 40]);
  for (const { token, top, logprob } of answer.tokens) {
    assert.equal(top.tokens.length, 64);
    assert.equal(token, top.tokens[0]);
    assert.ok(top.logits.every((logit, index) => index === 0 || logit <= top.logits[index - 1]!));
    const total = top.logits.reduce((sum, logit) => sum + Math.exp(logit - top.logits[0]!), 0);
    assert.ok(Math.abs(logprob + Math.log(total)) < 1e-5);
  }
});

test("a seed gives the same draw again, another seed another one", async () => {
  const draw = async (seed: number): Promise<string> =>
    (await collect(generator, requestOf(story, { owner: `${seed}`, sampling: { ...greedy, temperature: 1, seed } })))
      .text;
  await draw(7);
  assert.equal(await draw(7), await draw(7));
  assert.notEqual(await draw(7), await draw(8));
});

test("the end of a turn ends the answer, unless it is to be ignored", async () => {
  const prompt = asked("What is 1 + 1? Answer with the number only.");
  const answer = await collect(generator, requestOf(prompt, { maxTokens: 100 }));
  assert.equal(answer.finishReason, "stop");
  assert.ok(tokenizer.eog.has(answer.tokens.at(-1)!.token));
  assert.equal(answer.completionTokens, answer.tokens.length);
  assert.ok(!answer.text.includes("<|"));
  const longer = await collect(generator, requestOf(prompt, { maxTokens: 100, ignoreEos: true }));
  assert.deepEqual([longer.finishReason, longer.completionTokens], ["length", 100]);
  assert.ok(longer.tokens.every((token) => !tokenizer.eog.has(token.token)));
});

test("a stop string ends the answer before it, across token borders, and no part of it is ever shown", async () => {
  const whole = (await collect(generator, requestOf(story))).text;
  const stop = whole.slice(17, 29);
  const stopped = await collect(generator, requestOf(story, { stopStrings: ["never", stop] }));
  assert.equal(stopped.text, whole.slice(0, whole.indexOf(stop)));
  assert.equal(stopped.finishReason, "stop");
  const unmet = await collect(generator, requestOf(story, { stopStrings: [`${whole.slice(-5)}#`] }));
  assert.deepEqual([unmet.text, unmet.finishReason], [whole, "length"]);
});

test("biases and penalties rule the draw, and leave the reported logits alone", async () => {
  const plain = await collect(generator, requestOf(story, { maxTokens: 1 }));
  const rare = tokenizer.encode(" zebra", false)[0]!;
  assert.ok(!plain.tokens[0]!.top.tokens.includes(rare));
  const forced = await collect(
    generator,
    requestOf(story, { maxTokens: 1, sampling: { ...greedy, logitBias: new Map([[rare, 100]]) } }),
  );
  assert.equal(forced.tokens[0]!.token, rare);
  assert.ok(forced.tokens[0]!.logprob < -5);
  assert.equal(forced.tokens[0]!.top.tokens[0], plain.tokens[0]!.token);
  const banned = await collect(
    generator,
    requestOf(story, { maxTokens: 1, sampling: { ...greedy, logitBias: new Map([[plain.tokens[0]!.token, -100]]) } }),
  );
  assert.equal(banned.tokens[0]!.token, plain.tokens[0]!.top.tokens[1]);
  const varied = await collect(
    generator,
    requestOf(story, { maxTokens: 40, sampling: { ...greedy, presencePenalty: 100 } }),
  );
  assert.equal(new Set(varied.tokens.map((token) => token.token)).size, 40);
});

test("what cannot be answered is refused before the model sees it", async () => {
  const code = (prompt: number[], model: ModelRef = base): Promise<string> =>
    codeOf(() => collect(generator, requestOf(prompt, { model })));
  assert.equal(await code([]), "validation");
  for (const id of [-1, tokenizer.vocabulary, 2 ** 31, 1.5, Number.NaN])
    assert.equal(await code([1, id]), "validation");
  assert.equal(await code(new Array(512).fill(5)), "prompt_too_long");
  assert.equal(await code([1], { ...base, baseId: "other" }), "not_loaded");
  assert.equal(await code([1], { ...base, adapter: { id: "other", path: "" } }), "not_loaded");
  const none = await collect(generator, requestOf(story, { maxTokens: 0 }));
  assert.deepEqual([none.text, none.finishReason, none.completionTokens], ["", "length", 0]);
});

test("an answer ends where the slot is full", async () => {
  const answer = await collect(
    generator,
    requestOf(new Array(500).fill(story[5]!), { maxTokens: 100, ignoreEos: true }),
  );
  assert.deepEqual([answer.finishReason, answer.completionTokens], ["length", 13]);
});

test("prompts are reused within one owner and one adapter only", async () => {
  const prompt = asked("Count from one to ten, please, and then back to one again.");
  const ask = (owner: string, model = base): Promise<{ cachedTokens: number; text: string }> =>
    collect(generator, requestOf(prompt, { owner, model, maxTokens: 8 }));
  const first = await ask("ada");
  const again = await ask("ada");
  assert.deepEqual([first.cachedTokens, again.cachedTokens], [0, prompt.length - 1]);
  assert.equal(again.text, first.text);
  assert.equal((await ask("bob")).cachedTokens, 0);
  assert.equal((await ask("ada", silent)).cachedTokens, 0);
});

test("base and adapters answer at the same time as each does alone", async () => {
  const ask = (model: ModelRef, owner: string): Promise<string> =>
    collect(generator, requestOf(story, { model, owner, maxTokens: 32 })).then((answer) => answer.text);
  const models = [base, loud, silent];
  const alone: string[] = [];
  for (const model of models) alone.push(await ask(model, "alone"));
  assert.notEqual(alone[0], alone[1]);
  assert.equal(alone[0], alone[2]);
  assert.deepEqual(await Promise.all(models.map((model) => ask(model, "together"))), alone);
});

test("whoever leaves frees the slot, running or waiting", async () => {
  const { generator: small } = createEngine({ slots: 2, queueLimit: 2 });
  await small.pool.lease(base, "work");
  const leaving = Array.from({ length: 4 }, () => new AbortController());
  const answers = leaving.map(({ signal }, index) =>
    collect(small, requestOf(story, { signal, maxTokens: 400, ignoreEos: true, owner: `${index}` }), () => {
      if (index === 0) for (const controller of leaving) controller.abort();
    }),
  );
  const busy = await collect(small, requestOf(story)).catch((error) => error);
  assert.equal(busy.code, "engine_busy");
  assert.ok(busy.retryAfterSeconds >= 1);
  const ended = await Promise.all(answers);
  assert.ok(ended.every((answer) => answer.finishReason === "aborted" && answer.completionTokens < 10));
  assert.deepEqual([ended[2]!.completionTokens, ended[3]!.completionTokens], [0, 0]);
  assert.equal((await collect(small, requestOf(story, { maxTokens: 3 }))).completionTokens, 3);
  await small.dispose();
});

test("who leaves has the slot for one more step at most, answering or reading", async () => {
  const { generator: small } = createEngine({ slots: 1, queueLimit: 1 });
  await small.pool.lease(base, "work");
  const leaving = new AbortController();
  let read = 0;
  const request = requestOf(story, { signal: leaving.signal, maxTokens: 400, ignoreEos: true });
  const answer = await collect(small, request, () => ++read === 3 && leaving.abort());
  assert.ok(answer.completionTokens <= 4, `${answer.completionTokens} drawn, 3 read`);
  const reading = new AbortController();
  const long = new Array(480).fill(story[5]!);
  const unread = collect(small, requestOf(long, { signal: reading.signal }));
  const next = collect(small, requestOf(story, { maxTokens: 1 }));
  reading.abort();
  assert.deepEqual([(await unread).completionTokens, (await next).completionTokens], [0, 1]);
  await small.dispose();
});

test("data generation leaves a slot for people", async () => {
  const { generator: small } = createEngine({ slots: 2 });
  await small.pool.lease(base, "work");
  const order: string[] = [];
  const long = requestOf(story, { priority: "generation", maxTokens: 40, ignoreEos: true });
  const rows = ["a", "b"].map((owner) => collect(small, { ...long, owner }).then(() => order.push(owner)));
  const person = collect(small, requestOf(story, { maxTokens: 4 })).then(() => order.push("person"));
  await Promise.all([...rows, person]);
  assert.equal(order[0], "person");
  await small.dispose();
});

test("a reader who stops reading stops the answer", async () => {
  const { generator: small } = createEngine({ slots: 1, queueLimit: 0 });
  const lease = await small.pool.lease(base, "work");
  let read = 0;
  let startMs = 0;
  for await (const _ of small.generate(requestOf(story, { maxTokens: 400, ignoreEos: true }))) {
    if (read++ === 0) startMs = performance.now();
    if (read === 11) break;
  }
  const leftMs = performance.now();
  const stepMs = (leftMs - startMs) / 10;
  while (small.occupancy()[0]!.busy > 0) {
    // The rest of the answer would take 389 steps.
    assert.ok(performance.now() - leftMs < 100 * stepMs, "the answer goes on");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await lease.release();
});

const questions = ["What is a cat?", "Name a colour.", "Say hello.", "What is water?", "Why is the sky blue?"];

async function evaluation(model: ModelRef, startAt = 0): Promise<Map<number, EvaluatedAnswer>> {
  const answers = new Map<number, EvaluatedAnswer>();
  const prompts = [...questions, ...questions].map(asked);
  const signal = new AbortController().signal;
  await generator.evaluate({
    model,
    prompts,
    maxTokens: 10,
    signal,
    startAt,
    onItem: (index, answer) => {
      assert.equal(index, answers.size + startAt);
      answers.set(index, answer);
    },
  });
  return answers;
}

const withoutSeconds = (answers: Map<number, EvaluatedAnswer>): unknown =>
  [...answers].map(([index, { seconds: _, ...answer }]) => [index, answer]);

test("an evaluation gives the same to the last digit, however busy the machine is and wherever it starts again", async () => {
  const quiet = await evaluation(loud);
  assert.equal(quiet.size, 10);
  assert.ok([...quiet.values()].every((answer) => answer.seconds > 0 && answer.tokens.length > 0));
  const leave = new AbortController();
  const chats = [base, loud, loud].map((model, index) =>
    collect(
      generator,
      requestOf(story, { model, signal: leave.signal, maxTokens: 450, ignoreEos: true, owner: `chat${index}` }),
    ),
  );
  const busy = await evaluation(loud);
  leave.abort();
  const drawn = (await Promise.all(chats)).map((chat) => chat.completionTokens);
  assert.ok(Math.min(...drawn) > 4, `chat went on beside it: ${drawn}`);
  assert.deepEqual(withoutSeconds(busy), withoutSeconds(quiet));
  const again = await evaluation(loud, 9);
  assert.deepEqual(withoutSeconds(again), withoutSeconds(new Map([[9, quiet.get(9)!]])));
  // A question in another row of another group, and yet the same answer: rows do not see each other.
  assert.equal(quiet.get(8)!.text, quiet.get(3)!.text);
});

test("a scoring does not wait for a whole evaluation, and both give what they give alone", async () => {
  const signal = new AbortController().signal;
  const row = { tokens: [...story, ...asked("Name a colour.")], promptLength: story.length };
  const [answers, scores] = [await evaluation(loud), await generator.score(base, [row], signal)];
  let hasEnded = false;
  const evaluating = evaluation(loud).finally(() => {
    hasEnded = true;
  });
  assert.deepEqual(await generator.score(base, [row], signal), scores);
  assert.equal(hasEnded, false);
  assert.deepEqual(withoutSeconds(await evaluating), withoutSeconds(answers));
});

test("an evaluation stops when it is told to", async () => {
  const leave = new AbortController();
  const prompts = questions.map(asked);
  const run = generator.evaluate({
    model: base,
    prompts,
    maxTokens: 400,
    signal: leave.signal,
    startAt: 0,
    onItem: () => {},
  });
  setTimeout(() => leave.abort(), 200);
  await assert.rejects(run, { name: "AbortError" });
});

test("scores are exact, and of the right tokens", async () => {
  const signal = new AbortController().signal;
  const answer = tokenizer.encode("Once upon a time, there was a cat.", false);
  const [{ top }] = (await collect(generator, requestOf(story, { maxTokens: 1, owner: "score" }))).tokens as [
    GeneratedToken,
  ];
  const candidates = [...top.tokens.slice(0, 12)];
  const rows = candidates.map((token) => ({ tokens: [...story, token], promptLength: story.length }));
  const scores = (await generator.score(base, rows, signal)).map((row) => row[0]!);
  // The whole vocabulary holds what the kept logits hold and more, in the same proportions.
  assert.ok(scores.reduce((sum, score) => sum + Math.exp(score), 0) < 1);
  for (const [index, score] of scores.entries())
    assert.ok(Math.abs(score - scores[0]! - (top.logits[index]! - top.logits[0]!)) < 0.02, `candidate ${index}`);
  // Each token's score in a long row is its score at the end of a shorter one.
  const [whole] = await generator.score(base, [{ tokens: [...story, ...answer], promptLength: story.length }], signal);
  assert.equal(whole!.length, answer.length);
  const prefixes = answer.map((_, end) => [...story, ...answer.slice(0, end + 1)]);
  const ends = await generator.score(
    base,
    prefixes.map((tokens) => ({ tokens, promptLength: tokens.length - 1 })),
    signal,
  );
  for (const [index, [score]] of ends.entries()) assert.ok(Math.abs(score! - whole![index]!) < 0.05, `token ${index}`);
  const [under] = await generator.score(loud, [{ tokens: [...story, ...answer], promptLength: story.length }], signal);
  assert.ok(under!.some((score, index) => Math.abs(score - whole![index]!) > 0.1));
  // Answers to one prompt, which is read once for them, and one to another between them: the same bits as each alone.
  const answers = [answer, answer.slice(0, 3).toReversed(), answer.slice(2)];
  const shared = answers.map((tokens) => ({ tokens: [...story, ...tokens], promptLength: story.length }));
  const other = { tokens: [...story, ...answer], promptLength: story.length - 2 };
  const order = [shared[0]!, shared[1]!, other, shared[2]!, shared[0]!];
  const alone = await Promise.all(order.map(async (row) => (await generator.score(base, [row], signal))[0]!));
  assert.deepEqual(await generator.score(base, order, signal), alone);
  const everything = { tokens: [1, 2], promptLength: 0 };
  assert.equal(await codeOf(() => generator.score(base, [everything], signal)), "validation");
  assert.equal(
    await codeOf(() => generator.score(base, [{ tokens: new Array(600).fill(1), promptLength: 1 }], signal)),
    "prompt_too_long",
  );
});

const digits = 'root ::= "<" [0-9]{3} ">"';

for (const temperature of [0, 1.5])
  test(`an answer keeps to its grammar at temperature ${temperature}, though none of the 64 best tokens does`, async () => {
    const answer = await collect(
      generator,
      requestOf(story, { grammar: digits, sampling: { ...greedy, temperature } }),
    );
    assert.match(answer.text, /^<\d{3}>$/);
    assert.equal(answer.finishReason, "stop");
    for (const { token, top, logprob } of answer.tokens) {
      assert.ok(top.tokens.includes(token) && logprob < 0);
      assert.equal(top.tokens.length, 64);
    }
  });

test("biases and penalties rule the draw under a grammar too", async () => {
  const [one, two] = ["1", "2"].map((text) => tokenizer.encode(text, false)[0]!) as [number, number];
  const only = async (logitBias: Map<number, number>): Promise<string> =>
    (await collect(generator, requestOf(story, { grammar: "root ::= [12]{4}", sampling: { ...greedy, logitBias } })))
      .text;
  assert.equal(await only(new Map([[one, 100]])), "1111");
  assert.equal(await only(new Map([[two, 100]])), "2222");
  const { text } = await collect(
    generator,
    requestOf(story, { grammar: "root ::= [12]{2}", sampling: { ...greedy, presencePenalty: 100 } }),
  );
  assert.match(text, /^(12|21)$/);
});

test("a control token is no text of a grammar, and neighbours do not feel another's grammar", async () => {
  const plain = await collect(generator, requestOf(story, { maxTokens: 12 }));
  const [bound, beside] = await Promise.all([
    collect(generator, requestOf(story, { grammar: 'root ::= "<|im_start|>"', owner: "bound" })),
    collect(generator, requestOf(story, { maxTokens: 12, owner: "beside" })),
  ]);
  assert.equal(bound.text, "<|im_start|>");
  assert.ok(bound.tokens.every(({ token }) => tokenizer.bytesOf(token).length > 0 || tokenizer.eog.has(token)));
  assert.equal(beside.text.slice(0, 8), plain.text.slice(0, 8));
});

test("a grammar that is none is refused, and goes with ignoreEos never", async () => {
  assert.equal(await codeOf(() => collect(generator, requestOf(story, { grammar: "root ::= nothing" }))), "validation");
  assert.equal(
    await codeOf(() => collect(generator, requestOf(story, { grammar: digits, ignoreEos: true }))),
    "validation",
  );
});

test("steering takes tokens undrawn, and says from where on the grammar rules", async () => {
  const words = tokenizer.encode("Now: ", false);
  let told = 0;
  const answer = await collect(
    generator,
    requestOf(story, {
      grammar: digits,
      steer: (token) => {
        if (token === null) return { constrained: false };
        return ++told === 3 ? { take: words, constrained: true } : {};
      },
    }),
  );
  assert.match(answer.text, /^[\s\S]+Now: <\d{3}>$/);
  assert.deepEqual(answer.tokens.map(({ isForced }) => isForced).slice(0, 3 + words.length + 1), [
    ...[0, 0, 0].map(() => false),
    ...words.map(() => true),
    false,
  ]);
  assert.equal(told, answer.completionTokens);
});

test("exact log-probs of an answer and of its prompt are those of the scorer", async () => {
  const scored: PromptToken[] = [];
  const onPrompt = (tokens: readonly PromptToken[]): void => void scored.push(...tokens);
  const answer = await collect(generator, requestOf(story, { maxTokens: 6, exact: true, onPrompt }));
  assert.deepEqual(
    scored.map(({ token }) => token),
    story,
  );
  assert.equal(scored[0]!.step, null);
  const all = [...story, ...answer.tokens.map(({ token }) => token)];
  const [expected] = await generator.score(base, [{ tokens: all, promptLength: 1 }], new AbortController().signal);
  const got = [
    ...scored.slice(1).map(({ step }) => step!.logprob),
    ...answer.tokens.map(({ top, logZ }) => top.logits[0]! - logZ!),
  ];
  assert.equal(got.length, expected!.length);
  for (const [index, value] of got.entries())
    assert.ok(Math.abs(value - expected![index]!) < 2e-2, `token ${index}: ${value}, ${expected![index]}`);
  for (const { token, step } of scored.slice(1)) {
    const at = step!.top.tokens.indexOf(token);
    assert.ok(Math.abs(step!.top.logits[at]! - step!.logZ - step!.logprob) < 1e-4);
  }
  const none = await collect(generator, requestOf(story, { maxTokens: 0, onPrompt }));
  assert.equal(none.completionTokens, 0);
  assert.equal(scored.length, 2 * story.length);
});

test("choices of one prompt read it once, and answer as each alone", async () => {
  const { generator: small } = createEngine({ slots: 4 });
  await small.pool.lease(base, "work");
  const prompt = asked("Write about the sea, the wind, and a boat that has lost its way home in the fog.");
  const sampling = { ...greedy, temperature: 1 };
  const ask = (seed: number, owner: string) =>
    collect(small, requestOf(prompt, { owner, maxTokens: 12, sampling: { ...sampling, seed } }));
  const alone = [];
  for (const seed of [1, 2, 3]) alone.push((await ask(seed, `alone ${seed}`)).text);
  const together = await Promise.all([1, 2, 3].map((seed) => ask(seed, "together")));
  assert.deepEqual(
    together.map(({ cachedTokens }) => cachedTokens),
    [0, prompt.length - 1, prompt.length - 1],
  );
  for (const [index, { text }] of together.entries())
    assert.equal(text.slice(0, 6), alone[index]!.slice(0, 6), "begins otherwise");
  const strangers = await Promise.all([ask(1, "one"), ask(1, "other")]);
  assert.deepEqual(
    strangers.map(({ cachedTokens }) => cachedTokens),
    [0, 0],
  );
  await small.dispose();
});

test("a choice whose reader of the prompt leaves reads the rest itself", async () => {
  const { generator: small } = createEngine({ slots: 4 });
  await small.pool.lease(base, "work");
  const prompt = new Array(30).fill(story.slice(2, 18)).flat();
  const leave = new AbortController();
  const first = collect(small, requestOf(prompt, { signal: leave.signal, maxTokens: 4 }));
  const second = collect(small, requestOf(prompt, { maxTokens: 4 }));
  leave.abort();
  const [left, stayed] = await Promise.all([first, second]);
  assert.equal(left.finishReason, "aborted");
  assert.equal(stayed.completionTokens, 4);
  await small.dispose();
});

test("a conversation's prefix outlives the requests of others, and is its owner's alone", async () => {
  const few = createEngine({ slots: 3 });
  await few.generator.pool.lease(base, "work");
  // Where there is memory to offload prompts in, it matters less who keeps a slot.
  few.gpu.reserve("all that is left", { machine: few.gpu.snapshot().machine.free, gpu: 0 });
  const prompts = ["One two three four five six seven eight nine ten", "Red", "Green", "Blue"].map((words) =>
    few.generator
      .tokenizer("base")
      .encode(
        `${words} and so on, as far as it goes, until nobody counts any more and everybody has gone home to sleep`,
        false,
      ),
  );
  const cached = async (index: number, owner: string, session?: string): Promise<number> => {
    const more = { owner, maxTokens: 1, ...(session === undefined ? {} : { session }) };
    const tokens = few.generator.generate(requestOf(prompts[index]!, more));
    for (;;) {
      const next = await tokens.next();
      if (next.done) return next.value.cachedTokens;
    }
  };
  const whole = prompts[0]!.length - 1;
  // Without a session the next stranger takes the place.
  assert.equal(await cached(0, "ada"), 0);
  assert.equal(await cached(1, "bob"), 0);
  assert.equal(await cached(0, "ada"), 0);
  // With one the strangers share what is left.
  await cached(0, "ada", "mine");
  for (const index of [1, 2, 3, 1, 2]) await cached(index, "bob");
  assert.equal(await cached(0, "ada", "mine"), whole);
  assert.equal(await cached(0, "bob", "mine"), 0);
  assert.equal(await cached(0, "ada", "mine"), whole);
  // Where all hold conversations, the oldest makes room.
  await cached(1, "bob", "a");
  await cached(2, "bob", "b");
  await cached(3, "bob", "c");
  assert.equal(await cached(0, "ada", "mine"), 0);
  assert.equal(await cached(3, "bob", "c"), prompts[3]!.length - 1);
  await few.generator.dispose();
});
