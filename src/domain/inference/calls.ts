// Tools: which may be called, the grammar of calls that must be made, and the check of those that a model makes of itself.
import { Failure } from "../../base/errors.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import { createSchemaRules, literal } from "../../engine/schema/grammar.ts";
import type { CallFormat, Tool } from "../../engine/tool-format.ts";

/** A tool, and where its parameters stand in the request. */
export interface OfferedTool extends Tool {
  at: (string | number)[];
}

/** auto: the model may call; required: it must, one of those offered. */
export type ToolChoice = "auto" | "required";

const mostCalls = 16;

/** Everything after `format.before`. Throws validation for parameters that no grammar can hold. */
export function callsGrammar(
  format: CallFormat,
  tools: readonly OfferedTool[],
  isParallel: boolean,
  tokenizer: Tokenizer,
): string {
  const rules = createSchemaRules();
  const calls = tools.flatMap(({ name, parameters, at }) => {
    const given = rules.rule({ type: "object", ...parameters }, at);
    if (given === null) return [];
    const member = (key: string, value: string): string => `${literal(JSON.stringify(key))} ws ":" ws ${value} ws`;
    const named = member(format.nameKey, literal(JSON.stringify(name)));
    return [rules.add(`"{" ws ${named} "," ws ${member(format.argumentsKey, given)} "}"`)];
  });
  if (calls.length === 0) throw new Failure("validation", "No arguments fit the parameters of the tools");
  const call = rules.add(calls.join(" | "));
  // A control token is none of a grammar's texts: where one ends a call, the end of the answer does as well.
  const hasControls = [...tokenizer.specials].some(
    ([text, token]) => tokenizer.bytesOf(token).length === 0 && (format.after + format.before).includes(text),
  );
  const after = hasControls ? '""' : literal(format.after);
  const more = isParallel ? mostCalls - 1 : 0;
  if (format.isList)
    return rules.gbnf(rules.add(`"[" ws ${call} ws ${rules.add(`"," ws ${call} ws`)}{0,${more}} "]" ${after}`));
  const next = hasControls || format.before.trim() === "" ? 0 : more;
  const another = rules.add(`${literal(`${format.after}\n${format.before}`)} ${call}`);
  return rules.gbnf(rules.add(`${call} ${another}{0,${next}} ${after}`));
}

/** The arguments of a call that a model made, as JSON text; null when it is no call of an offered tool. */
export function checkedCall(
  tools: readonly OfferedTool[],
  format: CallFormat,
  call: unknown,
): { name: string; arguments: string } | null {
  if (typeof call !== "object" || call === null) return null;
  const { [format.nameKey]: name, [format.argumentsKey]: given = {} } = call as Record<string, unknown>;
  const tool = tools.find((offered) => offered.name === name);
  if (tool === undefined || typeof given !== "object" || given === null || Array.isArray(given)) return null;
  return fits(tool, given) ? { name: tool.name, arguments: JSON.stringify(given) } : null;
}

function fits({ parameters, at }: OfferedTool, given: object): boolean {
  try {
    return createSchemaRules().fits(given, { type: "object", ...parameters }, at);
  } catch (error) {
    // Parameters may say more than is understood here, where no grammar has to enforce them: the caller will check.
    if (error instanceof Failure) return true;
    throw error;
  }
}
