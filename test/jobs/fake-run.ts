// A run that does nothing but keep the run folder's contract, or break it in the way that behaviour.json says.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const folder = process.argv[2]!;
const behaviour = JSON.parse(readFileSync(join(folder, "behaviour.json"), "utf8")) as {
  events?: number;
  lockedTimes?: number;
  silent?: boolean;
  answer?: "ack" | "refused" | "none";
  exit?: number;
  result?: unknown;
  waits?: boolean;
  torn?: boolean;
  garbage?: boolean;
  /** Asks these, and writes the answers into `answers` before it ends. */
  asks?: object[];
};

const triesPath = join(folder, "tries");
const tries = existsSync(triesPath) ? Number(readFileSync(triesPath, "utf8")) + 1 : 1;
writeFileSync(triesPath, String(tries));
writeFileSync(join(folder, "pid"), String(process.pid));
if (tries <= (behaviour.lockedTimes ?? 0)) process.exit(75);

const say = (reply: object): void => void process.stdout.write(`${JSON.stringify(reply)}\n`);
const end = (outcome: "completed" | "stopped", code: number): void => {
  const result = { format: 1, fence: 1, outcome, error: null, chosen_step: null, files: [], metrics: {} };
  writeFileSync(join(folder, "result.json"), JSON.stringify(behaviour.result ?? result));
  process.exit(code);
};

if (behaviour.garbage) process.stdout.write("not json\n");
for (let seq = 1; seq <= (behaviour.events ?? 0); seq++) {
  const event = { seq, fence: 1, at: "2026-01-01T00:00:00.000Z", kind: "progress", phase: "training", done: seq };
  appendFileSync(join(folder, "events.jsonl"), `${JSON.stringify(event)}\n`);
  if (!behaviour.silent) say({ kind: "heartbeat", events: seq });
}
if (behaviour.torn) appendFileSync(join(folder, "events.jsonl"), '{"seq":');

process.stdin.on("end", () => process.exit(9));
const answers: object[] = [];
for (const [at, question] of (behaviour.asks ?? []).entries()) say({ kind: "ask", seq: at + 1, question });

createInterface({ input: process.stdin }).on("line", (line) => {
  if (behaviour.asks !== undefined) {
    answers.push(JSON.parse(line));
    if (answers.length < behaviour.asks.length) return;
    writeFileSync(join(folder, "answers"), JSON.stringify(answers));
    return end("completed", 0);
  }
  const { seq, command } = JSON.parse(line) as { seq: number; command: string };
  if (behaviour.answer === "none") return;
  say({ kind: behaviour.answer ?? "ack", seq, message: "because" });
  if (command === "stop" && behaviour.answer !== "refused") end("stopped", 3);
});

if (behaviour.silent) setInterval(() => {}, 1000);
else if (behaviour.waits || behaviour.asks)
  setInterval(() => say({ kind: "heartbeat", events: behaviour.events ?? 0 }), 50);
else if (behaviour.exit !== undefined && behaviour.exit !== 0) {
  process.stderr.write("the last words\n");
  process.exit(behaviour.exit);
} else end("completed", 0);
