// Measures how fast a running appliance answers many clients over its API, with prompts and answers of varied lengths.
import { Failure } from "../../base/errors.ts";
import { eventsOf, unreachable } from "../client.ts";

export interface ServeBench {
  url: string;
  key: string;
  model: string;
  clients: number;
  requests: number;
  promptWords: number;
  maxTokens: number;
}

export interface ServeFigures {
  clients: number;
  requests: number;
  failures: number;
  tokens_per_second: number;
  first_token_ms: { p50: number | null; p95: number | null };
  token_ms_p50: number | null;
}

interface Timing {
  firstMs: number;
  totalMs: number;
  tokens: number;
}

const words =
  "the gate valve of line four opens when pressure in tank nine falls below the limit written on page".split(" ");

/** A factor from 0.5 to 1.5 that differs from request to request, as lengths do in real traffic. */
const stretch = (index: number): number => 0.5 + ((index * 7919) % 101) / 100;

const promptOf = (index: number, count: number): string =>
  `Report ${index}. ${Array.from(
    { length: Math.round(count * stretch(index)) },
    (_, word) => words[(word * 7 + index) % words.length],
  ).join(" ")}`;

export async function benchServing(bench: ServeBench, onAnswer: (done: number) => void): Promise<ServeFigures> {
  const timings: Timing[] = [];
  const failures: unknown[] = [];
  let next = 0;
  const startedMs = performance.now();
  const client = async (): Promise<void> => {
    while (next < bench.requests) {
      const index = next++;
      try {
        timings.push(await ask(bench, index));
      } catch (error) {
        failures.push(error);
      }
      onAnswer(timings.length + failures.length);
    }
  };
  await Promise.all(Array.from({ length: bench.clients }, client));
  const seconds = (performance.now() - startedMs) / 1000;
  if (timings.length === 0) throw failures[0];
  const firsts = timings.map((timing) => timing.firstMs);
  const perToken = timings
    .filter((timing) => timing.tokens > 1)
    .map((timing) => (timing.totalMs - timing.firstMs) / (timing.tokens - 1));
  return {
    clients: bench.clients,
    requests: bench.requests,
    failures: failures.length,
    tokens_per_second: timings.reduce((sum, timing) => sum + timing.tokens, 0) / seconds,
    first_token_ms: { p50: quantile(firsts, 0.5), p95: quantile(firsts, 0.95) },
    token_ms_p50: quantile(perToken, 0.5),
  };
}

async function ask(bench: ServeBench, index: number): Promise<Timing> {
  const startedMs = performance.now();
  const response = await fetch(`${bench.url}/api/v3/inference/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${bench.key}` },
    body: JSON.stringify({
      model: bench.model,
      prompt: promptOf(index, bench.promptWords),
      max_tokens: Math.round(bench.maxTokens * stretch(index + 53)),
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    }),
  }).catch((error: unknown) => {
    throw unreachable(bench.url, error);
  });
  if (!response.ok)
    throw new Failure(
      "api_refused",
      `The server answered a completion with ${response.status}: ${(await response.text()).slice(0, 200)}`,
    );
  let firstMs = 0;
  let tokens = 0;
  for await (const { data } of eventsOf(response)) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data) as { choices?: { text: string }[]; usage?: { completion_tokens: number } };
    if (firstMs === 0 && chunk.choices?.[0]?.text) firstMs = performance.now() - startedMs;
    if (chunk.usage) tokens = chunk.usage.completion_tokens;
  }
  return { firstMs, totalMs: performance.now() - startedMs, tokens };
}

function quantile(values: number[], share: number): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}
