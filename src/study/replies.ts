// Reads what chat models reply when they are asked for JSON objects with answers from a passage.
import { holdsUncut, uncut } from "../base/text.ts";

/**
 * Returns the answer as the passage has it; null if the passage does not contain it, or only as a part of a word or number. Models change
 * white space and capitals, and add quotation marks or a full stop.
 */
export function statedIn(text: string, answer: string): string | null {
  if (holdsUncut(text, answer)) return answer;
  const words = answer.replace(/^[\s"“”„«»]+|[\s"“”„«».]+$/gu, "").split(/\s+/);
  if (words[0] === "") return null;
  const spaced = words.map((word) => RegExp.escape(word)).join("\\s+");
  return uncut(spaced, "iu").exec(text)?.[0] ?? null;
}

/**
 * Returns the JSON objects of a text. Models put them on lines or in an array, with line breaks or prose between, within marks of code,
 * or as a list within another object.
 */
export function objectsIn(said: string): unknown[] {
  const objects: unknown[] = [];
  for (let at = said.indexOf("{"); at >= 0; ) {
    const end = endOfObject(said, at);
    const value = end === null ? null : parsed(said.slice(at, end));
    if (value !== null) objects.push(...listedIn(value));
    at = said.indexOf("{", value === null ? at + 1 : end!);
  }
  return objects;
}

/** Returns the objects that the object lists; the object itself if it lists none. */
function listedIn(value: object): object[] {
  const listed = Object.values(value)
    .filter((one) => Array.isArray(one))
    .flat()
    .filter((one): one is object => typeof one === "object" && one !== null);
  return listed.length > 0 ? listed : [value];
}

/** Returns the end of the object that begins at `start`; null if the text ends before. */
function endOfObject(text: string, start: number): number | null {
  let depth = 0;
  // Strings are matched whole, so that braces in them do not count.
  const parts = /"(?:[^"\\\n]|\\.)*"|[{}]/gu;
  parts.lastIndex = start;
  for (let part = parts.exec(text); part !== null; part = parts.exec(text)) {
    if (part[0] === "{") depth++;
    else if (part[0] === "}" && --depth === 0) return parts.lastIndex;
  }
  return null;
}

function parsed(text: string): object | null {
  try {
    return JSON.parse(text) as object;
  } catch {
    return null;
  }
}
