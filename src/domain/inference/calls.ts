// Tool calls: the grammar for forced calls, and the check of calls that a model makes without being forced.
import { Failure } from "../../base/errors.ts";
import type { CallFormat, Tool } from "../../engine/format/tool-format.ts";
import type { Tokenizer } from "../../engine/generator.ts";
import { createSchemaRules, literal } from "../../engine/grammar/grammar.ts";

/** A tool, and the path of its parameters in the request. */
export interface OfferedTool extends Tool {
  at: (string | number)[];
}

const mostCalls = 16;

/**
 * Returns the grammar (GBNF) of everything after `format.before`. Throws validation if a grammar cannot express the
 * parameters, or if no arguments match them.
 */
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
  if (calls.length === 0) throw new Failure("validation", "No arguments match the parameters of the tools");
  const call = rules.add(calls.join(" | "));
  // A grammar cannot match control tokens. If the format puts one before or after a call, the call ends with the answer.
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

/** Name and arguments (JSON text) of a call that a model made; null if it is not a valid call of an offered tool. */
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
    // The schema may use keywords that are not supported here. Such a call is accepted unchecked, because no grammar
    // has to enforce the schema and the client checks the arguments itself.
    if (error instanceof Failure) return true;
    throw error;
  }
}
