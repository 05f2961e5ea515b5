// 1 if the answer matches an RE2 regular expression, which may match anywhere unless it is anchored. RE2's time is linear in the answer's
// length, which is why RE2 has neither backreferences nor lookaround.
import { RE2JS } from "re2js";
import { type Options, UnusableReference, type Verify } from "./item.ts";

/** Maximum number of instructions of the compiled expression. Each may be tried at every character. */
const mostInstructions = 5000;
const longestPattern = 2000;

/** Compiles a pattern to a function that tests a text. Throws UnusableReference. */
export function linearPattern(pattern: string): (text: string) => boolean {
  if (pattern.length > longestPattern)
    throw new UnusableReference(`a pattern may have at most ${longestPattern} characters`);
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(pattern);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UnusableReference(`${reason}; patterns use RE2 syntax, which has no backreferences and no lookaround`);
  }
  if (compiled.programSize() > mostInstructions)
    throw new UnusableReference(
      `a pattern may compile to at most ${mostInstructions} instructions: use fewer repetitions`,
    );
  return (text) => compiled.test(text);
}

export function regex({ pattern }: Options): Verify {
  const matches = linearPattern(pattern!);
  return (answer) => (matches(answer) ? 1 : 0);
}
