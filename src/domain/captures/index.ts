// Captures: questions put to agents or sent with API keys, and their answers. Nothing is kept until the owner enables captures
// for an agent or a key. From then on, each question is kept with its answer. Personal data is replaced before anything is
// written, unless masking is off. Captures can become a document to learn from, or items of a benchmark.
//
// Chat completions, messages, responses and agents' answers are captured. A capture holds the last user message and the first
// answer, and is written once the answer is complete. Plain completions have no question and are not captured. An error while
// capturing never makes the answer fail.

import { Failure, invalid } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { captures as promises } from "../../contract/captures.ts";
import { type Caller, EventStream, type Handlers, type Reply } from "../../contract/endpoint.ts";
import type { proposals as proposed } from "../../contract/proposals.ts";
import { filter } from "./filter.ts";
import { type Form, forms, type Heard, overheard } from "./forms.ts";
import { asMarkdown } from "./markdown.ts";
import { poor } from "./proposals/evidence.ts";
import { createProposals, type ProposalsParts, webhookOf } from "./proposals/index.ts";
import { type CaptureRow, prepareCaptures, type SettingRow, type SubjectKind } from "./store.ts";
import { createUploads, type UploadParts } from "./upload.ts";

export interface CapturesParts extends Omit<ProposalsParts, "onProposed">, UploadParts {
  /** Personal data of known forms, in order and without overlaps. */
  findPersonalData: (text: string) => { kind: string; start: number; end: number }[];
  /** Whether an answer declines. */
  declines: (answer: string) => boolean;
  /** Adds a webhook event, inside the caller's transaction. */
  enqueueWebhook: (event: ReturnType<typeof webhookOf>) => void;
}

export interface Captures {
  handlers: Handlers<typeof promises & typeof proposed>;
  /** Proposes an auto-align if the owner's captured answers, including the one to this request, now justify it. Never throws. */
  consider(ownerId: string, requestId: string): void;
  /** Ends the captures of an agent, in the transaction that deletes it. Those already made are kept. */
  agentGone(agentId: string): void;
  /** Wraps the handlers that answer, so that questions and answers are kept for the keys and agents with captures enabled. */
  watch(handlers: {
    inference: Record<AnsweringInference, AnsweringHandler>;
    agents: Record<AnsweringAgents, AnsweringHandler>;
  }): Record<AnsweringInference | AnsweringAgents, AnsweringHandler>;
}

/** Endpoints whose questions and answers can be kept. Plain completions have no question. */
type AnsweringInference = "inference.chat" | "inference.messages" | "inference.responses";
type AnsweringAgents = "agents.completions" | "agents.run";

/** Handler of an endpoint that answers. A Form reads the handler's input and reply. */
type AnsweringHandler = (input: never, caller: Caller) => Promise<unknown>;

/** Maximum number of an owner's captures. When there are more, the oldest are deleted. */
const mostCaptures = 10_000;

export function createCaptures(parts: CapturesParts): Captures {
  const { store, clock, log } = parts;
  const sql = prepareCaptures(store);
  const upload = createUploads(parts);
  const onProposed: ProposalsParts["onProposed"] = (proposed) => parts.enqueueWebhook(webhookOf(proposed));
  const proposals = createProposals({ ...parts, onProposed });

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

  function keep(
    setting: SettingRow,
    caller: Caller,
    { requestId, said }: { requestId: string; said: () => { question: string; heard: Heard } },
  ): void {
    try {
      const { question: asked, heard } = said();
      const places = new Map<string, string>();
      const clean = (text: string): string => (setting.masking === 1 ? masked(text, places) : text);
      const [question, answer] = [clean(asked), clean(heard.answer)];
      store.transaction(() => {
        sql.insert.run({
          id: newId("capture"),
          owner_id: caller.userId,
          kind: setting.kind,
          subject_id: setting.subject_id,
          model_id: heard.model,
          question,
          answer,
          confidence: heard.confidence,
          masked: places.size,
          used_in: null,
          request_id: requestId,
          created_seq: store.nextSeq(),
          created_at: clock.now(),
        });
        sql.trim.run({ ownerId: caller.userId, most: mostCaptures });
      });
      if ((heard.confidence ?? 100) < poor) proposals.consider(caller.userId, requestId);
    } catch (error) {
      log("error", "capture.failed", { subject: setting.subject_id, error });
    }
  }

  function watched<H extends AnsweringHandler>(
    handler: H,
    form: Form,
    kind: SubjectKind,
    subjectOf: (params: unknown, caller: Caller) => string,
  ): H {
    type Watched = { params: unknown; body: unknown; requestId: string };
    const watching = async (input: Watched, caller: Caller): Promise<unknown> => {
      const reply = await handler(input as never, caller);
      const setting = sql.setting.get({ kind, subjectId: subjectOf(input.params, caller) });
      if (!setting) return reply;
      const heard = (answer: () => Heard): void => {
        const said = () => ({ question: form.question(input.body), heard: answer() });
        keep(setting, caller, { requestId: input.requestId, said });
      };
      if (reply instanceof EventStream)
        return new EventStream(overheard(form, reply.events, (answer) => heard(() => answer)));
      heard(() => form.whole(reply));
      return reply;
    };
    // The cast is safe, because a reply is passed on unchanged, and a stream with the same events.
    return watching as unknown as H;
  }

  const ofKey = <H extends AnsweringHandler>(handler: H, form: Form): H =>
    watched(handler, form, "key", (_, { keyId }) => keyId);
  const ofAgent = <H extends AnsweringHandler>(handler: H, form: Form): H =>
    watched(handler, form, "agent", (params) => (params as { agent_id: string }).agent_id);

  const noSubject = (): Failure => new Failure("not_found", "Agent or key not found");

  /** Throws not_found unless the subject is the caller's, or was and has captures. */
  function checkSubject({ userId: ownerId }: Caller, subjectId: string | null): void {
    if (subjectId !== null && !sql.knowsSubject.get({ ownerId, kind: null, subjectId })) throw noSubject();
  }

  const handlers: Captures["handlers"] = {
    ...proposals.handlers,
    "captures.set": async ({ body }, caller) => {
      const { kind, subject_id: subjectId, enabled, masking } = body;
      // An agent that was deleted answers no more, but captures that older versions left enabled for it can be ended.
      const found = enabled ? sql.ownsSubject : sql.knowsSubject;
      if (!found.get({ ownerId: caller.userId, kind, subjectId })) throw noSubject();
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

    "captures.select": async ({ body, keepReply }, caller) => {
      checkSubject(caller, body.subject_id ?? null);
      const rows = sql.unused.all({ ownerId: caller.userId, subjectId: body.subject_id ?? null });
      checkResponses(rows, body.responses ?? []);
      const { taken, left } = filter(rows, {
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
      const reply = { id: "", taken: ids, left };
      const use = (id: string): void => {
        reply.id = id;
        if (sql.use.run({ ids: JSON.stringify(ids), usedIn: id }).changes !== ids.length)
          throw new Failure("conflict", "Some of these captures were used or deleted in the meantime: select again");
        parts.audit("capture.select", id, { into: body.into, captures: ids.length }, caller);
        keepReply(reply, [id]);
      };
      if (body.into === "document") await upload.document(`${body.name}.md`, asMarkdown(body.name, pairs), caller, use);
      else {
        const rows = pairs.map((pair) => JSON.stringify(pair)).join("\n");
        await upload.benchmark(`${body.name}.jsonl`, rows, caller, use);
      }
      return reply;
    },
  };

  return {
    handlers,
    consider: proposals.consider,
    agentGone: (subjectId) => void sql.disable.run({ kind: "agent", subjectId }),
    watch: ({ inference, agents }) => ({
      "inference.chat": ofKey(inference["inference.chat"], forms.chat),
      "inference.messages": ofKey(inference["inference.messages"], forms.messages),
      "inference.responses": ofKey(inference["inference.responses"], forms.responses),
      "agents.completions": ofAgent(agents["agents.completions"], forms.chat),
      "agents.run": ofAgent(agents["agents.run"], forms.run),
    }),
  };
}

/** Throws validation if a response is to none of these captures, or if a capture has two. Otherwise it would be lost in silence. */
function checkResponses(rows: readonly CaptureRow[], responses: readonly { capture: string }[]): void {
  const unused = new Set(rows.map(({ id }) => id));
  const answered = new Set<string>();
  for (const [at, { capture }] of responses.entries()) {
    const loc = ["body", "responses", at, "capture"];
    if (!unused.has(capture)) throw invalid(loc, "is not one of the unused captures");
    if (answered.has(capture)) throw invalid(loc, "is answered twice");
    answered.add(capture);
  }
}

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
