// How a model writes tool calls. If its template supports tools, the format is derived from how the template renders a call.
// If not, the system prompt describes the tools and asks for calls in the format that Qwen and Hermes use.

/** A function that a model may call. */
export interface Tool {
  name: string;
  description?: string;
  /** JSON schema of the arguments, an object. */
  parameters: Record<string, unknown>;
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON text of an object with the arguments. */
  arguments: string;
}

/** How calls are written: `before`, then an object with name and arguments (if `isList`, a list of such objects), then `after`. */
export interface CallFormat {
  before: string;
  after: string;
  nameKey: string;
  argumentsKey: string;
  isList: boolean;
}

/** For models whose template does not support tools. */
export const plainCalls: CallFormat = {
  before: "<tool_call>\n",
  after: "\n</tool_call>",
  nameKey: "name",
  argumentsKey: "arguments",
  isList: false,
};

interface Spoken {
  role: string;
  content: string;
  toolCalls?: readonly ToolCall[];
}

/** Rewrites a conversation for a template without tools: the system prompt describes the tools, calls and results become text. */
export function withToolsInText<M extends Spoken>(messages: readonly M[], tools: readonly Tool[]): Spoken[] {
  const spoken: Spoken[] = messages.map(({ role, content, toolCalls = [] }) => {
    if (role === "tool") return { role: "user", content: `<tool_response>\n${content}\n</tool_response>` };
    const calls = toolCalls.map(({ name, arguments: given }) => {
      const call = `{"name": ${JSON.stringify(name)}, "arguments": ${given}}`;
      return `${plainCalls.before}${call}${plainCalls.after}`;
    });
    return { role, content: [content, ...calls].filter((text) => text !== "").join("\n") };
  });
  if (tools.length === 0) return spoken;
  const first = spoken[0]?.role === "system" ? spoken.shift()!.content : "";
  return [
    { role: "system", content: [first, toolsPrompt(tools)].filter((text) => text !== "").join("\n\n") },
    ...spoken,
  ];
}

function toolsPrompt(tools: readonly Tool[]): string {
  return [
    "You can call functions to help with the request. These are their signatures, as JSON:",
    "<tools>",
    ...tools.map((tool) => JSON.stringify({ type: "function", function: tool })),
    "</tools>",
    "To call one, write its name and arguments as JSON, like this:",
    '<tool_call>\n{"name": "the name", "arguments": {}}\n</tool_call>',
    "The result comes back within <tool_response> and </tool_response>. Call only what helps; otherwise answer in words.",
  ].join("\n");
}

/** The tool and call with which a template is tried out. */
export const probe = {
  tool: {
    name: "probe_name",
    description: "probe_description",
    parameters: { type: "object", properties: { probe_key: { type: "string" } }, required: ["probe_key"] },
  },
  // Nine letters and digits, as some templates require.
  call: { id: "probe0001", name: "probe_name", arguments: '{"probe_key":"probe_value"}' },
} as const;

/** Derives the format from a template's rendering of `probe.call` as an answer; null if the call is not rendered as JSON. */
export function formatOf(text: string): CallFormat | null {
  const name = text.indexOf(`"${probe.call.name}"`);
  for (let from = text.lastIndexOf("{", name); from >= 0; from = text.lastIndexOf("{", from - 1)) {
    const length = jsonLength(text.slice(from));
    const call = length === null ? null : parsed(text.slice(from, from + length));
    const keys = Object.entries(call ?? {});
    const nameKey = keys.find(([, value]) => value === probe.call.name)?.[0];
    const argumentsKey = keys.find(([, value]) => JSON.stringify(value) === probe.call.arguments)?.[0];
    if (nameKey === undefined || argumentsKey === undefined) {
      if (from === 0) break;
      continue;
    }
    const [before, after] = [text.slice(0, from), text.slice(from + length!)];
    const isList = /\[\s*$/.test(before) && /^\s*\]/.test(after);
    if (!isList) return { before, after, nameKey, argumentsKey, isList };
    return { before: before.replace(/\[\s*$/, ""), after: after.replace(/^\s*\]/, ""), nameKey, argumentsKey, isList };
  }
  return null;
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
}

/** Length of the JSON object or list that a text begins with; null if there is none, or if it is incomplete. */
export function jsonLength(text: string): number | null {
  if (text[0] !== "{" && text[0] !== "[") return null;
  let depth = 0;
  let inText = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (inText) {
      if (character === "\\") at++;
      else if (character === '"') inText = false;
    } else if (character === '"') inText = true;
    else if (character === "{" || character === "[") depth++;
    else if ((character === "}" || character === "]") && --depth === 0) return at + 1;
  }
  return null;
}
