// The recorded teacher: what authors who saw one passage at a time wrote of each (test/foreign/teacher, test/company/teacher), served
// over the OpenAI protocol as any teacher is. An author's passage need not be ours: what was written of the same lines belongs to them.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import OpenAI from "openai";
import type { SnapshotDocument } from "../../../src/contract/run-folder.ts";
import { type AskOptions, askTeacher } from "../../../src/run/folder/teacher.ts";
import { passagesOf } from "../../../src/study/passages.ts";
import { readJsonLines } from "../../helpers/json-lines.ts";

export interface Recorded {
  title: string;
  text: string;
  /** `further` and `again`: what other authors wrote in turn who saw the passage and the questions before. */
  asks: { answer: string; questions: string[]; further?: string[]; again?: string[] }[];
}

const root = join(import.meta.dirname, "../..");
/** What recorded models are called. */
export const recordedModel = "recorded";

/** Asks the recorded teacher about every passage that it was not asked about yet. `of`: its file under test, such as foreign/teacher/vets. */
export async function consultTeacher(
  run: string,
  of: string,
  documents: readonly SnapshotDocument[],
  options: Pick<AskOptions, "rounds">,
): Promise<void> {
  const recorded = readJsonLines<Recorded>(join(root, `${of}.jsonl`));
  const server = await serveChat((message) => answerOf(recorded, message));
  try {
    const client = new OpenAI({ baseURL: server.url, apiKey: "none" });
    const say = async (content: string): Promise<string> => {
      const said = await client.chat.completions.create({
        model: recordedModel,
        messages: [{ role: "user", content }],
      });
      return said.choices[0]!.message.content ?? "";
    };
    await askTeacher(run, passagesOf(documents), { say, together: 1 }, options);
  } finally {
    server.close();
  }
}

/** A server that answers chat completions on loopback with what `answer` says to the last message, and with status 400 where it throws. */
export async function serveChat(answer: (message: string) => string): Promise<{ url: string; close(): void }> {
  const server = createServer(async (request: IncomingMessage, response) => {
    const { messages } = JSON.parse(await text(request)) as { messages: { content: string }[] };
    try {
      const content = answer(messages.at(-1)!.content);
      const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop", logprobs: null }];
      response.writeHead(200, { "content-type": "application/json" });
      response.end(
        JSON.stringify({ id: "chatcmpl-1", object: "chat.completion", created: 0, model: recordedModel, choices }),
      );
    } catch (error) {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: (error as Error).message } }));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/**
 * Returns the recorded questions as JSON lines, the form in which a teacher is asked for them. A recorded fact belongs to a message that
 * has its words with their neighbours. If the message has questions of a fact already, those that come next are returned. Where there is no
 * fact, the reply is an empty list, since an empty reply would count as none.
 */
export function answerOf(recorded: readonly Recorded[], message: string): string {
  const shown = unparted(message.slice(message.indexOf(passageMark)));
  const asked = recorded.flatMap((one) => {
    const lines = one.text.split("\n").map(unparted);
    return one.asks.filter(({ answer }) => isStated(lines, answer, shown));
  });
  const lists = (questions: readonly string[]): boolean =>
    questions.some((one) => message.includes(JSON.stringify(one)));
  const known = asked.filter(({ questions }) => lists(questions));
  const told =
    known.length === 0
      ? asked
      : known.map(({ answer, further = [], again = [] }) => ({ answer, questions: lists(further) ? again : further }));
  return told.map(({ answer, questions }) => JSON.stringify({ answer, questions })).join("\n") || "[]";
}

/** What stands between the headings of a message's passage and its text; above it there may be text before the passage. */
const passageMark = "\n---\n";

/** Characters of a neighbour that place an answer. */
const neighbour = 12;

/**
 * Whether the message has a line of the recorded text with the answer, or the answer together with what stands right before or after it.
 * A reader of documents may since have divided a line otherwise, for example where its first words are a heading now.
 */
function isStated(lines: readonly string[], answer: string, shown: string): boolean {
  return lines.some((line) => {
    if (!line.includes(answer)) return false;
    if (shown.includes(line)) return true;
    return placesOf(line, answer).some((at) => {
      const end = at + answer.length;
      const before = line.slice(Math.max(0, at - neighbour), at);
      const after = line.slice(end, end + neighbour);
      return [before + answer, answer + after].some(
        (words) => words.length >= answer.length + neighbour && shown.includes(words),
      );
    });
  });
}

/** A text without the signs that part cells, which a reader of documents may have found since. */
const unparted = (text: string): string => text.replace(/ *(?:\||\.{4,}) */g, " ");

function placesOf(line: string, answer: string): number[] {
  const places: number[] = [];
  for (let at = line.indexOf(answer); at >= 0; at = line.indexOf(answer, at + 1)) places.push(at);
  return places;
}
