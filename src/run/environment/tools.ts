// The tools of an environment with several turns. Every call gets an answer, which may be an error message.
import type { Tool } from "../../engine/format/tool-format.ts";
import { headingOf } from "../../study/heading.ts";
import { lexiconOf } from "../../study/lexicon.ts";
import { openStudyThread } from "../../study/thread.ts";
import type { Run } from "../context.ts";
import { calculated, NotArithmetic } from "./calculator.ts";

export const toolNames = ["calculator", "search"] as const;
export type ToolName = (typeof toolNames)[number];

const withText = (name: ToolName, description: string, field: string, of: string): Tool => ({
  name,
  description,
  parameters: { type: "object", properties: { [field]: { type: "string", description: of } }, required: [field] },
});

/** The tools as described to the policy. */
export const tools: Readonly<Record<ToolName, Tool>> = {
  calculator: withText("calculator", "Computes an arithmetic expression.", "expression", "For example (3 + 4) * 2"),
  search: withText("search", "Finds passages of the organisation's documents.", "query", "Words of what is looked for"),
};

/** A call as the policy wrote it; null if it is not a JSON object with a name and arguments. */
export type Call = { name: string; arguments: Record<string, unknown> } | null;

export interface Toolbox {
  answer(call: Call): string;
}

/** Maximum number of passages in a search's answer. */
const mostFound = 2;

/** Opens the named tools. If search is one of them, reads the documents once, in a separate thread. */
export async function openToolbox(run: Run, names: readonly ToolName[]): Promise<Toolbox> {
  const search = names.includes("search") ? await openSearch(run) : null;
  const use: Record<ToolName, (text: string) => string> = {
    calculator: calculated,
    search: (query) => search!(query),
  };
  return {
    answer(call) {
      if (call === null) return "Error: a call is a JSON object of name and arguments.";
      const name = names.find((one) => one === call.name);
      if (name === undefined)
        return `Error: there is no tool ${call.name.slice(0, 40)}; there are ${names.join(", ")}.`;
      const [field] = tools[name].parameters.required as [string];
      const text = call.arguments[field];
      if (typeof text !== "string") return `Error: ${name} needs the text ${field}.`;
      try {
        return use[name](text);
      } catch (error) {
        if (error instanceof NotArithmetic) return `Error: ${error.message}.`;
        throw error;
      }
    },
  };
}

async function openSearch({ snapshot: { documents }, request, parts }: Run): Promise<(query: string) => string> {
  const thread = openStudyThread(parts.control.signal);
  const organisation = request.organisation ?? null;
  const { search } = lexiconOf(await thread.passages({ documents, organisation }).finally(() => thread.close()));
  return (query) => {
    const found = search(query).slice(0, mostFound);
    if (found.length === 0) return "Nothing is found.";
    return found.map((passage) => `${headingOf(passage)}\n${passage.text}`).join("\n\n");
  };
}
