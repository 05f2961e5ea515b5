// Reads the `environment` block of a configuration, which sets an episode's turns and tools.
import { invalid } from "../../base/errors.ts";
import type { PlanLimits } from "../plan/state.ts";
import { type ToolName, toolNames } from "./tools.ts";

export interface EnvironmentPlan {
  /** Maximum number of turns of the policy in an episode. An answer without a call ends the episode sooner. */
  maxTurns: number;
  /** Empty for a single turn. */
  tools: readonly ToolName[];
  /** Settings that have no effect. */
  ignored: PlanLimits["ignored"];
  warnings: string[];
}

const types = ["single_turn", "multi_turn", "tool_use"];
const usualTurns = 4;

const refused = (field: string, message: string) => invalid(["config", "environment", field], message);

/**
 * Fills in every default. Values of the block must not be null. The default type is multi_turn if the block has tools or more than one
 * turn, otherwise single_turn. Throws a validation failure that names the field.
 */
export function resolveEnvironment(block: Record<string, unknown>): EnvironmentPlan {
  const turns = turnsOf(block.max_turns);
  const tools = toolsOf(block.tools);
  const { type = (tools ?? []).length > 0 || (turns ?? 1) > 1 ? "multi_turn" : "single_turn" } = block;
  const ignored: PlanLimits["ignored"] = [];
  const ignore = (field: string, reason: string): void => void ignored.push({ field: `environment.${field}`, reason });
  if (type === "multi_agent") ignore("type", "not supported: a single agent answers, in a single turn");
  else if (!types.includes(type as string)) throw refused("type", `must be one of ${types.join(", ")}`);
  if (type === "single_turn" || type === "multi_agent") {
    if ((turns ?? 1) > 1) ignore("max_turns", "redundant: an episode has a single turn");
    if ((tools ?? []).length > 0) ignore("tools", "redundant: tools do not answer in a single turn");
    return { maxTurns: 1, tools: [], ignored, warnings: [] };
  }
  if (tools?.length === 0)
    throw refused(
      "tools",
      `is empty, but every further turn needs a tool's answer; the tools are ${toolNames.join(", ")}`,
    );
  return {
    maxTurns: turns ?? usualTurns,
    tools: tools ?? toolNames,
    ignored,
    warnings: ["environment: dev questions are asked in a single turn without tools, as they will be asked in use"],
  };
}

function turnsOf(value: unknown): number | null {
  if (value === undefined) return null;
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 100) return value as number;
  throw refused("max_turns", "must be a whole number from 1 to 100");
}

function toolsOf(value: unknown): ToolName[] | null {
  if (value === undefined) return null;
  const isTool = (name: unknown): name is ToolName => (toolNames as readonly unknown[]).includes(name);
  if (!Array.isArray(value) || !value.every(isTool))
    throw refused("tools", `must be a list of tool names; the tools are ${toolNames.join(", ")}`);
  return [...new Set(value)];
}
