// Agents: a named combination of model, system prompt and temperature, with conversations that can be continued.
import { Failure } from "../../base/errors.ts";
import { newId } from "../../base/ids.ts";
import type { Clock } from "../../base/time.ts";
import type { agents } from "../../contract/agents.ts";
import type { Caller, Handlers, Input, Reply } from "../../contract/endpoint.ts";
import { answersNothing } from "../../engine/generator.ts";
import { prepareForgetting } from "../../store/idempotency.ts";
import type { Store } from "../../store/open.ts";
import { type AnswersParts, createAnswers } from "./answers.ts";
import { type AgentRow, prepareAgents } from "./store.ts";

export interface AgentsParts {
  store: Store;
  clock: Clock;
  /** Finds one of the owner's aligned models or a base model by id or name; null if there is none. */
  describeModel: (
    ownerId: string,
    name: string,
  ) => { modelId: string; name: string; kind: string; isServing: boolean } | null;
  chat: AnswersParts["chat"];
  /** Called after feedback on an answer has been stored. */
  onFeedback: (ownerId: string, requestId: string) => void;
  /** Called in the transaction that deletes an agent. */
  onDelete: (agentId: string) => void;
  /** The appliance's address as clients see it. */
  baseUrl: () => string;
}

type AgentInfo = Reply<(typeof agents)["agents.get"]>["data"];
type Run = (typeof agents)["agents.run"];

/** Maximum number of earlier turns in the prompt; older turns are left out. */
const maxTurns = 200;

export function createAgents(parts: AgentsParts): { handlers: Handlers<typeof agents> } {
  const { store, clock } = parts;
  const sql = prepareAgents(store);
  const forgetReplies = prepareForgetting(store);
  /** The last run under way of each conversation. The next run waits for it, so that no turn is lost. */
  const talking = new Map<string, Promise<unknown>>();
  const answers = createAnswers({
    chat: parts.chat,
    clock,
    ended: ({ id }, requestId, { seconds, confidence }) =>
      void sql.insertRun.run({ requestId, agentId: id, seconds, confidence, at: clock.now() }),
  });

  const owned = ({ userId }: Caller, agentId: string): AgentRow => {
    const row = sql.owned.get({ agentId, ownerId: userId });
    if (!row) throw new Failure("not_found", "Agent not found");
    return row;
  };

  /** Finds a model that generates answers. Throws not_found, wrong_kind. */
  function answering(caller: Caller, name: string): { modelId: string; name: string } {
    const model = parts.describeModel(caller.userId, name);
    if (!model) throw new Failure("not_found", "Model not found");
    if (model.kind !== "text") throw answersNothing(model.kind);
    return model;
  }

  const info = (caller: Caller, row: AgentRow): AgentInfo => ({
    id: row.id,
    name: row.name,
    description: row.description,
    base_model: row.model_id,
    base_model_name: row.model_name,
    created_date: row.created_at,
    status: parts.describeModel(caller.userId, row.model_id)?.isServing ? "ACTIVE" : "INACTIVE",
    creator: caller.userName,
    endpoint: `${parts.baseUrl()}/api/v3/agents/${row.id}/chat/completions`,
    usage_count: row.runs,
    performance_metrics: {
      average_uncertainty: row.confidence === null ? null : 100 - row.confidence,
      human_interventions: row.interventions,
      average_response_time: row.seconds,
      user_satisfaction_score: row.rating,
    },
    system_prompt: row.system_prompt,
    temperature: row.temperature,
    last_used: row.last_used,
    conversation_saving_enabled: row.saves_conversations === 1,
  });

  function save(agentId: string, session: string, question: string, answer: string): void {
    store.transaction(() => {
      for (const [role, content] of [
        ["user", question],
        ["assistant", answer],
      ] as const)
        sql.insertTurn.run({ seq: store.nextSeq(), agentId, session, role, content, at: clock.now() });
    });
  }

  async function run(agent: AgentRow, input: Input<Run>, caller: Caller): Promise<Reply<Run>> {
    const { message } = input.body;
    const session = input.headers["x-session-id"] ?? "";
    const goesOn = agent.saves_conversations === 1 && session !== "";
    const before = goesOn ? sql.turnsOf.all({ agentId: agent.id, session, limit: maxTurns, offset: 0 }) : [];
    const messages = before
      .map(({ role, content }) => ({ role, content }))
      .reverse()
      .concat({ role: "user", content: message });
    const { headers, requestId, signal, setHeader } = input;
    const reply = await answers.reply(agent, messages, { headers, requestId, signal, setHeader }, caller);
    const response = reply.choices[0]!.message.content ?? "";
    if (agent.saves_conversations === 1) save(agent.id, session, message, response);
    const { prompt_tokens, completion_tokens, total_tokens } = reply.usage;
    return {
      agent_id: agent.id,
      model: reply.model,
      response,
      usage: { total_tokens, input_tokens: prompt_tokens, output_tokens: completion_tokens },
    };
  }

  /** Runs the work once all earlier work of the same conversation has settled. */
  function inTurn<T>(conversation: string, work: () => Promise<T>): Promise<T> {
    const turn = (talking.get(conversation) ?? Promise.resolve()).then(work, work);
    const settled = turn
      .catch(() => {})
      .finally(() => talking.get(conversation) === settled && talking.delete(conversation));
    talking.set(conversation, settled);
    return turn;
  }

  return {
    handlers: {
      "agents.create": async ({ body, keepReply }, caller) => {
        const model = answering(caller, body.base_model);
        const id = newId("agent");
        return store.transaction(() => {
          sql.insert.run({
            id,
            ownerId: caller.userId,
            name: body.name,
            description: body.description,
            modelId: model.modelId,
            modelName: model.name,
            systemPrompt: body.system_prompt,
            temperature: body.temperature,
            saves: body.conversation_saving_enabled ? 1 : 0,
            seq: store.nextSeq(),
            at: clock.now(),
          });
          const reply = { data: info(caller, owned(caller, id)) };
          keepReply(reply, [id]);
          return reply;
        });
      },
      "agents.list": async ({ query }, caller) => ({
        data: sql.page.all(caller.userId, query.limit, query.offset).map(({ id }) => info(caller, owned(caller, id))),
      }),
      "agents.get": async ({ params }, caller) => ({ data: info(caller, owned(caller, params.agent_id)) }),
      "agents.update": async ({ params, body }, caller) => {
        const row = owned(caller, params.agent_id);
        // An agent whose model was deleted can still be renamed.
        const model =
          body.base_model === undefined
            ? { modelId: row.model_id, name: row.model_name }
            : answering(caller, body.base_model);
        const saves = body.conversation_saving_enabled ?? row.saves_conversations === 1;
        sql.update.run({
          id: row.id,
          name: body.name ?? row.name,
          description: body.description ?? row.description,
          modelId: model.modelId,
          modelName: model.name,
          systemPrompt: body.system_prompt ?? row.system_prompt,
          temperature: body.temperature ?? row.temperature,
          saves: saves ? 1 : 0,
        });
        return { data: info(caller, owned(caller, row.id)) };
      },
      "agents.delete": async ({ params }, caller) => {
        const { id } = owned(caller, params.agent_id);
        store.transaction(() => {
          for (const statement of sql.remove) statement.run(id);
          parts.onDelete(id);
          forgetReplies(caller.userId, id);
        });
        return { agent_id: id, message: "The agent has been deleted" };
      },
      "agents.run": async (input, caller) => {
        const agent = owned(caller, input.params.agent_id);
        const session = input.headers["x-session-id"] ?? "";
        if (agent.saves_conversations === 0 || session === "") return run(agent, input, caller);
        return inTurn(`${agent.id} ${session}`, () => run(agent, input, caller));
      },
      "agents.completions": async ({ params, body, headers, requestId, signal, setHeader }, caller) => {
        const agent = owned(caller, params.agent_id);
        return answers.complete(agent, body, { headers, requestId, signal, setHeader }, caller);
      },
      "agents.conversations": async ({ params, query }, caller) => {
        const { id: agentId } = owned(caller, params.agent_id);
        const turns = sql.turnsOf.all({
          agentId,
          session: query.session_id ?? null,
          limit: query.limit,
          offset: query.offset,
        });
        return {
          turns: turns.map(({ session, ...turn }) => ({ session_id: session === "" ? null : session, ...turn })),
        };
      },
      "agents.feedback": async ({ params, body, keepReply }, caller) => {
        const { id } = owned(caller, params.agent_id);
        const { rating = null, intervention = false, request_id: requestId = null } = body;
        if (requestId !== null && !sql.answered.get({ agentId: id, requestId }))
          throw new Failure("not_found", "The agent has no answer to that request");
        const reply = store.transaction(() => {
          const given = { seq: store.nextSeq(), agentId: id, rating, requestId, at: clock.now() };
          sql.insertFeedback.run({ ...given, intervention: intervention ? 1 : 0 });
          const reply = { data: info(caller, owned(caller, id)) };
          keepReply(reply, [id]);
          return reply;
        });
        if (requestId !== null) parts.onFeedback(caller.userId, requestId);
        return reply;
      },
    },
  };
}
