// Captures: what agents, or whoever uses a key, ask and are answered. Nothing is kept until its owner says so, agent by agent or key
// by key; then each question is kept with its answer, personal data replaced before anything is written, and can become a document
// to learn from or an item to be measured by.
//
// Kept are chat completions and agents' answers: the last thing that was said and the first answer to it, once that has come to its
// end. A capture that fails costs nobody an answer.

import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { Log } from "../../base/log.ts";
import type { Clock } from "../../base/time.ts";
import type { agents } from "../../contract/agents.ts";
import type { captures as promises } from "../../contract/captures.ts";
import {
  type Caller,
  EventStream,
  type Handler,
  type Handlers,
  type Reply,
  type StreamEvent,
} from "../../contract/endpoint.ts";
import type { inference } from "../../contract/inference.ts";
import type { Store } from "../../store/open.ts";
import { filter } from "./filter.ts";
import { type CaptureRow, prepareCaptures, type SettingRow, type SubjectKind } from "./store.ts";

type Chat = (typeof inference)["inference.chat"];
type AgentChat = (typeof agents)["agents.completions"];
type AgentRun = (typeof agents)["agents.run"];

export interface CapturesParts {
  store: Store;
  clock: Clock;
  log: Log;
  /** Personal data of a known form, in order, none within another. */
  findPersonalData: (text: string) => { kind: string; start: number; end: number }[];
  /** Whether an answer declines. */
  declines: (answer: string) => boolean;
  /** Takes a text in like an upload of its owner; the id of what was made. */
  upload: Record<"document" | "benchmark", (name: string, text: string, caller: Caller) => Promise<string>>;
  audit: (act: string, subject: string, detail: Record<string, unknown>, by: Caller) => void;
}

export interface Captures {
  handlers: Handlers<typeof promises>;
  /** The same handlers, with an eye on those whose traffic is kept. */
  ofKey(chat: Handler<Chat>): Handler<Chat>;
  ofAgent(chat: Handler<AgentChat>): Handler<AgentChat>;
  ofAgentRun(run: Handler<AgentRun>): Handler<AgentRun>;
}

/** An owner's captures beyond these make room, the oldest first. */
const mostCaptures = 10_000;

export function createCaptures(parts: CapturesParts): Captures {
  const { store, clock, log } = parts;
  const sql = prepareCaptures(store);

  function masked(text: string, places: Map<string, string>): string {
    let out = "";
    let at = 0;
    for (const { kind, start, end } of parts.findPersonalData(text)) {
      const value = text.slice(start, end);
      // The same value has the same stand-in in question and answer.
      const standIn = places.get(value) ?? `[${kind} ${places.size + 1}]`;
      places.set(value, standIn);
      out += text.slice(at, start) + standIn;
      at = end;
    }
    return out + text.slice(at);
  }

  function keep(setting: SettingRow, caller: Caller, said: Said): void {
    try {
      const places = new Map<string, string>();
      const clean = (text: string): string => (setting.masking === 1 ? masked(text, places) : text);
      const [question, answer] = [clean(said.question), clean(said.answer)];
      store.transaction(() => {
        sql.insert.run({
          id: newId("capture"),
          owner_id: caller.userId,
          kind: setting.kind,
          subject_id: setting.subject_id,
          model_id: said.model,
          question,
          answer,
          confidence: said.confidence,
          masked: places.size,
          used_in: null,
          created_seq: store.nextSeq(),
          created_at: clock.now(),
        });
        sql.trim.run({ ownerId: caller.userId, most: mostCaptures });
      });
    } catch (error) {
      log("error", "capture.failed", { subject: setting.subject_id, error });
    }
  }

  const settingOf = (kind: SubjectKind, subjectId: string): SettingRow | undefined =>
    sql.setting.get({ kind, subjectId });

  /** Answers whole or as a stream. */
  function followed(
    reply: Reply<Chat> | EventStream,
    question: string,
    setting: SettingRow,
    caller: Caller,
  ): Reply<Chat> | EventStream {
    if (reply instanceof EventStream)
      return new EventStream(overheard(reply.events, (heard) => keep(setting, caller, { ...heard, question })));
    const { message } = reply.choices[0]!;
    const { model, confidence_score: confidence = null } = reply;
    keep(setting, caller, { question, answer: message.content ?? "", model, confidence });
    return reply;
  }

  /** Of any kind, where none is said. */
  function checkSubject({ userId: ownerId }: Caller, subjectId: string | null, kind: SubjectKind | null = null): void {
    if (subjectId !== null && !sql.ownsSubject.get({ ownerId, kind, subjectId }))
      throw new Failure("not_found", "Agent or key not found");
  }

  const handlers: Handlers<typeof promises> = {
    "captures.set": async ({ body }, caller) => {
      const { kind, subject_id: subjectId, enabled, masking } = body;
      checkSubject(caller, subjectId, kind);
      store.transaction(() => {
        if (enabled)
          sql.enable.run({ ownerId: caller.userId, kind, subjectId, masking: masking ? 1 : 0, at: clock.now() });
        else sql.disable.run({ kind, subjectId });
        parts.audit(enabled ? "capture.enable" : "capture.disable", subjectId, { kind, masking }, caller);
      });
      return { kind, subject_id: subjectId, enabled, masking };
    },

    "captures.settings": async (_, { userId }) => ({
      settings: sql.settings.all(userId).map(({ kind, subject_id, masking }) => ({
        kind,
        subject_id,
        enabled: true,
        masking: masking === 1,
      })),
    }),

    "captures.list": async ({ query: { subject_id: subjectId = null, limit, offset } }, caller) => {
      checkSubject(caller, subjectId);
      const asked = { ownerId: caller.userId, subjectId };
      return {
        captures: sql.page.all({ ...asked, limit, offset }).map(toRecord),
        total: sql.count.get(asked)!.n,
      };
    },

    "captures.delete": async ({ params: { capture_id } }, { userId }) => {
      const { changes } = store.transaction(() => sql.remove.run(capture_id, userId));
      if (changes === 0) throw new Failure("not_found", "Capture not found");
      return { capture_id };
    },

    "captures.select": async ({ body }, caller) => {
      checkSubject(caller, body.subject_id ?? null);
      const { taken, left } = filter(sql.unused.all({ ownerId: caller.userId, subjectId: body.subject_id ?? null }), {
        into: body.into,
        leastConfidence: body.least_confidence ?? null,
        mostConfidence: body.most_confidence ?? null,
        limit: body.limit,
        responses: new Map((body.responses ?? []).map(({ capture, response }) => [capture, response])),
        declines: parts.declines,
        benchmarkQuestions: sql.benchmarkQuestions.all(caller.userId).map(({ instruction }) => instruction),
      });
      const ids = taken.map(({ row }) => row.id);
      if (ids.length === 0) return { id: null, taken: ids, left };
      const pairs = taken.map(({ row, response }) => ({ instruction: row.question, response }));
      const id =
        body.into === "document"
          ? await parts.upload.document(`${body.name}.md`, asMarkdown(body.name, pairs), caller)
          : await parts.upload.benchmark(
              `${body.name}.jsonl`,
              pairs.map((pair) => JSON.stringify(pair)).join("\n"),
              caller,
            );
      store.transaction(() => {
        sql.use.run({ ids: JSON.stringify(ids), usedIn: id });
        parts.audit("capture.select", id, { into: body.into, captures: ids.length }, caller);
      });
      return { id, taken: ids, left };
    },
  };

  return {
    handlers,
    ofKey: (chat) => async (input, caller) => {
      const reply = await chat(input, caller);
      const setting = settingOf("key", caller.keyId);
      return setting ? followed(reply, lastSaid(input.body.messages), setting, caller) : reply;
    },
    ofAgent: (chat) => async (input, caller) => {
      const reply = await chat(input, caller);
      const setting = settingOf("agent", input.params.agent_id);
      return setting ? followed(reply, lastSaid(input.body.messages), setting, caller) : reply;
    },
    ofAgentRun: (run) => async (input, caller) => {
      const reply = await run(input, caller);
      const setting = settingOf("agent", input.params.agent_id);
      if (setting) {
        const { model, response: answer } = reply;
        keep(setting, caller, { question: input.body.message, answer, model, confidence: null });
      }
      return reply;
    },
  };
}

interface Said {
  question: string;
  answer: string;
  model: string;
  confidence: number | null;
}

interface Message {
  role: string;
  content?: string | readonly { text?: string }[] | null;
}

function lastSaid(messages: readonly unknown[]): string {
  const { content } = (messages as readonly Message[]).findLast(({ role }) => role === "user") ?? { content: "" };
  return typeof content === "string" ? content : (content ?? []).map(({ text = "" }) => text).join("\n");
}

interface Chunk {
  model?: string;
  confidence_score?: number | null;
  choices?: { index: number; delta?: { content?: string | null } }[];
}

/** Passes a stream on as it is. One that breaks off, or that its reader leaves, is no answer. */
async function* overheard(
  events: AsyncIterable<StreamEvent>,
  end: (said: Omit<Said, "question">) => void,
): AsyncGenerator<StreamEvent, void, void> {
  const said: Omit<Said, "question"> = { answer: "", model: "", confidence: null };
  let failed = false;
  for await (const event of events) {
    if (event.data !== "[DONE]") {
      const chunk = JSON.parse(event.data) as Chunk & { error?: unknown };
      failed ||= chunk.error !== undefined;
      said.model = chunk.model ?? said.model;
      said.confidence = chunk.confidence_score ?? said.confidence;
      for (const { index, delta } of chunk.choices ?? []) if (index === 0) said.answer += delta?.content ?? "";
    }
    yield event;
  }
  if (!failed) end(said);
}

/** A heading is one line: a question of several is joined. */
const asMarkdown = (name: string, pairs: readonly { instruction: string; response: string }[]): string =>
  [
    `# ${name}`,
    ...pairs.map(
      ({ instruction, response }) => `## ${instruction.replaceAll(/\s+/g, " ").trim()}\n\n${response.trim()}`,
    ),
  ].join("\n\n");

const toRecord = (row: CaptureRow): Reply<(typeof promises)["captures.list"]>["captures"][number] => ({
  capture_id: row.id,
  kind: row.kind,
  subject_id: row.subject_id,
  model_id: row.model_id,
  question: row.question,
  answer: row.answer,
  confidence_score: row.confidence,
  masked: row.masked,
  used_in: row.used_in,
  created_at: row.created_at,
});
