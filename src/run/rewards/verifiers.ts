// The built-in verifiers, and the references that name verifiers:
//
//   builtin:numeric?tolerance=0.5&read=only      options by name; in a value, % is written %25 and & is written %26; + stays as it is
//   program:units                                the program of that name in the folder of verifiers
import { choice } from "./choice.ts";
import { citation, citationDefaults } from "./citation.ts";
import { exact, exactDefaults } from "./exact.ts";
import { type Options, UnusableReference, type Verify } from "./item.ts";
import { jsonSchema } from "./json-schema.ts";
import { numeric, numericDefaults } from "./numeric.ts";
import { regex } from "./pattern.ts";

interface Builtin {
  defaults: Options;
  /** Options that must be given, because they have no default. */
  needs: readonly string[];
  /** Makes the verifier. `declines` returns whether an answer says that it does not know. Throws UnusableReference. */
  make: (options: Options, declines: (answer: string) => boolean) => Verify;
}

const builtins: Readonly<Record<string, Builtin>> = {
  exact: { defaults: exactDefaults, needs: [], make: exact },
  numeric: { defaults: numericDefaults, needs: [], make: numeric },
  choice: { defaults: {}, needs: [], make: () => choice },
  regex: { defaults: {}, needs: ["pattern"], make: regex },
  json_schema: { defaults: {}, needs: ["schema"], make: jsonSchema },
  citation: { defaults: citationDefaults, needs: [], make: citation },
  refusal: {
    defaults: {},
    needs: [],
    // 1 if the answer declines a question that the material does not answer, or does not decline one that it answers. Whether the answer is
    // right is for other verifiers to judge.
    make: (_, declines) => (answer, item) => (declines(answer) === item.answerable ? 0 : 1),
  },
};

export type VerifierReference =
  | { kind: "builtin"; verifier: string; options: Options }
  | { kind: "program"; program: string };

/** Parses a reference. Throws UnusableReference if it, or an option of a built-in verifier, is invalid. */
export function parseVerifier(reference: string): VerifierReference {
  const [, kind, name, query] = /^(builtin|program):([^?]*)(?:\?(.*))?$/su.exec(reference) ?? [];
  if (kind === undefined)
    throw new UnusableReference(
      `must be builtin:NAME or program:NAME; the built-in names are ${Object.keys(builtins).join(", ")}`,
    );
  if (kind === "program") {
    if (query !== undefined) throw new UnusableReference("a program accepts no options");
    return { kind, program: name! };
  }
  const builtin = Object.hasOwn(builtins, name!) ? builtins[name!]! : null;
  if (builtin === null)
    throw new UnusableReference(
      `${name} is not a built-in verifier; the built-in ones are ${Object.keys(builtins).join(", ")}`,
    );
  const options = { ...builtin.defaults, ...givenOptions(query ?? "", name!, builtin) };
  const missing = builtin.needs.find((option) => !Object.hasOwn(options, option));
  if (missing !== undefined)
    throw new UnusableReference(`${name} needs the option ${missing}: builtin:${name}?${missing}=…`);
  builtin.make(options, () => false);
  return { kind: "builtin", verifier: name!, options };
}

function givenOptions(query: string, name: string, { defaults, needs }: Builtin): Options {
  const known = [...Object.keys(defaults), ...needs];
  const options: Record<string, string> = {};
  for (const pair of query.split("&").filter((text) => text !== "")) {
    const [, key, value] = /^([^=]*)=(.*)$/su.exec(pair) ?? [];
    if (key === undefined || !known.includes(key))
      throw new UnusableReference(
        `${name} accepts ${known.length === 0 ? "no options" : `the options ${known.join(", ")}`}, not ${pair.slice(0, 40)}`,
      );
    if (Object.hasOwn(options, key)) throw new UnusableReference(`${key} is given twice`);
    try {
      options[key] = decodeURIComponent(value!);
    } catch {
      throw new UnusableReference(
        `the value of ${key} has a % that is not a valid escape: write % as %25 and & as %26`,
      );
    }
  }
  return options;
}

export const makeBuiltin = (
  { verifier, options }: Extract<VerifierReference, { kind: "builtin" }>,
  declines: (answer: string) => boolean,
): Verify => builtins[verifier]!.make(options, declines);
