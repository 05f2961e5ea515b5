// The verbs of the admin socket. Each room names the verbs that it performs. Their arguments come as JSON from the command line on
// this machine.
import { Failure } from "../base/errors.ts";

export type Verbs = Record<string, (args: unknown) => unknown>;

/** Returns the argument `name`. Throws bad_request if it is missing or not a text. */
export function textOf(args: unknown, name: string): string {
  const value = (args as Record<string, unknown> | null)?.[name];
  if (typeof value !== "string") throw new Failure("bad_request", `${name} is missing`);
  return value;
}

/** Returns the argument `name`, which must be one of the `known` texts. Throws bad_request. */
export function oneOf<T extends string>(known: readonly T[], args: unknown, name: string): T {
  const value = textOf(args, name);
  const found = known.find((one) => one === value);
  if (found === undefined) throw new Failure("bad_request", `${name} must be one of ${known.join(", ")}`);
  return found;
}
