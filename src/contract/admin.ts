// The verbs of the admin socket. Each room states those that it performs; their arguments come from the command line of this
// machine, as JSON.
import { Failure } from "../base/errors.ts";

export type Verbs = Record<string, (args: unknown) => unknown>;

/** Throws bad_request if the argument is missing or no text. */
export function textOf(args: unknown, name: string): string {
  const value = (args as Record<string, unknown> | null)?.[name];
  if (typeof value !== "string") throw new Failure("bad_request", `${name} is missing`);
  return value;
}

/** The text argument, which must be one of those known. Throws bad_request. */
export function oneOf<T extends string>(known: readonly T[], args: unknown, name: string): T {
  const value = textOf(args, name);
  const found = known.find((one) => one === value);
  if (found === undefined) throw new Failure("bad_request", `${name} must be one of ${known.join(", ")}`);
  return found;
}
