// All SQL of agents. Ownership is part of every look-up by id.
import type { Store } from "../../store/open.ts";

export interface AgentRow {
  id: string;
  name: string;
  description: string;
  model_id: string;
  model_name: string;
  system_prompt: string;
  temperature: number;
  saves_conversations: 0 | 1;
  created_at: string;
  runs: number;
  last_used: string | null;
  seconds: number | null;
  confidence: number | null;
  rating: number | null;
  interventions: number | null;
}

export type Role = "user" | "assistant";

export interface TurnRow {
  session: string;
  role: Role;
  content: string;
  at: string;
}

const agent = `SELECT a.*, r.*, f.* FROM agent AS a,
  (SELECT count(*) AS runs, max(at) AS last_used, avg(seconds) AS seconds, avg(confidence) AS confidence
   FROM agent_run WHERE agent_id = :agentId) AS r,
  (SELECT avg(rating) AS rating, sum(intervention) AS interventions FROM agent_feedback WHERE agent_id = :agentId) AS f`;

/** The fields that an owner sets when making or editing an agent. */
interface AgentFields {
  id: string;
  name: string;
  description: string;
  modelId: string;
  modelName: string;
  systemPrompt: string;
  temperature: number;
  saves: 0 | 1;
}

export const prepareAgents = (store: Store) => ({
  insert: store.prepare<AgentFields & { ownerId: string; seq: number; at: string }>(
    `INSERT INTO agent(id, owner_id, name, description, model_id, model_name, system_prompt, temperature,
     saves_conversations, created_seq, created_at)
     VALUES(:id, :ownerId, :name, :description, :modelId, :modelName, :systemPrompt, :temperature, :saves, :seq, :at)`,
  ),
  owned: store.prepare<{ agentId: string; ownerId: string }, AgentRow>(
    `${agent} WHERE a.id = :agentId AND a.owner_id = :ownerId`,
  ),
  page: store.prepare<[string, number, number], { id: string }>(
    "SELECT id FROM agent WHERE owner_id = ? ORDER BY created_seq DESC LIMIT ? OFFSET ?",
  ),
  update: store.prepare<AgentFields>(
    `UPDATE agent SET name = :name, description = :description, model_id = :modelId, model_name = :modelName,
     system_prompt = :systemPrompt, temperature = :temperature, saves_conversations = :saves WHERE id = :id`,
  ),
  remove: ["agent_run", "agent_turn", "agent_feedback"]
    .map((table) => store.prepare<[string]>(`DELETE FROM ${table} WHERE agent_id = ?`))
    .concat(store.prepare<[string]>("DELETE FROM agent WHERE id = ?")),
  insertRun: store.prepare<{
    requestId: string;
    agentId: string;
    seconds: number;
    confidence: number | null;
    at: string;
  }>(
    `INSERT INTO agent_run(request_id, agent_id, seconds, confidence, at)
     SELECT :requestId, id, :seconds, :confidence, :at FROM agent WHERE id = :agentId`,
  ),
  insertTurn: store.prepare<{
    seq: number;
    agentId: string;
    session: string;
    role: Role;
    content: string;
    at: string;
  }>(
    `INSERT INTO agent_turn(seq, agent_id, session, role, content, at)
     SELECT :seq, id, :session, :role, :content, :at FROM agent WHERE id = :agentId`,
  ),
  /** Turns, newest first. */
  turnsOf: store.prepare<{ agentId: string; session: string | null; limit: number; offset: number }, TurnRow>(
    `SELECT session, role, content, at FROM agent_turn
     WHERE agent_id = :agentId AND (:session IS NULL OR session = :session)
     ORDER BY seq DESC LIMIT :limit OFFSET :offset`,
  ),
  insertFeedback: store.prepare<{
    seq: number;
    agentId: string;
    rating: number | null;
    intervention: 0 | 1;
    requestId: string | null;
    at: string;
  }>(
    `INSERT INTO agent_feedback(seq, agent_id, rating, intervention, request_id, at)
     VALUES(:seq, :agentId, :rating, :intervention, :requestId, :at)`,
  ),
  answered: store.prepare<{ agentId: string; requestId: string }, { one: 1 }>(
    "SELECT 1 AS one FROM agent_run WHERE agent_id = :agentId AND request_id = :requestId",
  ),
});
