// Breaks down JSON schemas: references are followed, allOf is merged and alternatives are listed, until each shape is a plain
// list of constraints on a value. Grammars are made from shapes, and values are checked against shapes. A keyword that a shape
// cannot express is refused by name, so that no constraint of a schema is silently ignored.
import { invalid } from "../../base/errors.ts";
import { type Automaton, accepts, both, fromPattern, isEmpty, ofLength, Steps, TooManyStates } from "./automaton.ts";
import { formats } from "./formats.ts";
import { PatternError, parsePattern } from "./pattern.ts";

export type Loc = (string | number)[];
type Json = Record<string, unknown>;

/** One of the schemas that a value must fit at the same time. */
export interface Item {
  schema: unknown;
  /** The schema's path in the request. */
  at: Loc;
  /** The document that the schema's references point into. */
  root: Root;
  /** References followed since the last step into a nested value, to detect cycles. */
  followed: readonly string[];
}

export interface Root {
  schema: unknown;
  at: Loc;
}

export type Type = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

/** What a value must be. Each field applies only to values of the matching type. */
export interface Shape {
  types: ReadonlySet<Type>;
  /** The allowed values, from enum and const; null if neither is given. */
  literals: unknown[] | null;
  low: { value: number; isExclusive: boolean } | null;
  high: { value: number; isExclusive: boolean } | null;
  /** For strings; null if any string of the lengths below fits. */
  automaton: Automaton | null;
  minLength: number;
  maxLength: number | null;
  minItems: number;
  maxItems: number | null;
  /** What each of the first items must fit; `items` is for all further items. */
  prefix: Item[][];
  items: Item[];
  properties: Map<string, Item[]>;
  required: ReadonlySet<string>;
  /** What properties that the schema does not name must fit. */
  additional: Item[];
}

const annotations = new Set(
  "$schema $id $comment $defs definitions title description default example examples deprecated readOnly writeOnly discriminator".split(
    " ",
  ),
);
const combining = new Set(["$ref", "allOf", "anyOf", "oneOf"]);
const leaves = new Set(
  (
    "type nullable enum const minimum maximum exclusiveMinimum exclusiveMaximum pattern format minLength maxLength " +
    "items prefixItems minItems maxItems properties required additionalProperties"
  ).split(" "),
);
const allTypes: readonly Type[] = ["null", "boolean", "number", "string", "array", "object"];
/** Largest value that a schema may give for minLength, maxLength, minItems or maxItems. */
const mostCounted = 100_000;
const longestPattern = 1000;
const mostValues = 2000;
/** Maximum number of alternatives of one value. */
const mostShapes = 256;
const mostSteps = 50_000;

export class Shapes {
  #steps = 0;
  readonly #automatonSteps = new Steps();
  readonly #automata = new Map<string, Automaton>();
  readonly #known = new Map<string, Shape[]>();

  /** The alternatives of a value, which must fit at least one of them; empty if nothing fits. Throws validation. */
  of(items: readonly Item[]): Shape[] {
    const key = JSON.stringify(items.map(({ schema, root }) => [schema, root.at]));
    let shapes = this.#known.get(key);
    if (shapes === undefined) {
      shapes = this.#expand(items, []).flatMap((parts) => this.#shape(parts) ?? []);
      this.#known.set(key, shapes);
    }
    return shapes;
  }

  fits(value: unknown, items: readonly Item[]): boolean {
    return this.of(items).some((shape) => this.#fitsShape(value, shape));
  }

  /** Lists every way to choose among the alternatives. Each way is a list of schemas without references and alternatives. */
  #expand(items: readonly Item[], plain: readonly Item[]): Item[][] {
    const parts = [...plain];
    const queue = [...items];
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      this.#step(item.at);
      const { schema, at } = item;
      if (schema === true) continue;
      if (schema === false) return [];
      if (!isObject(schema)) throw invalid(at, "a schema must be an object, true or false");
      for (const key of Object.keys(schema))
        if (!annotations.has(key) && !combining.has(key) && !leaves.has(key) && !key.startsWith("x-"))
          throw unsupported([...at, key], `${key} cannot be enforced`);
      parts.push({ ...item, schema: only(schema, leaves) });
      if (schema.$ref !== undefined) queue.push(this.#target(item, schema.$ref));
      if (schema.allOf !== undefined) queue.push(...listed(item, "allOf"));
      const way = schema.anyOf !== undefined ? "anyOf" : schema.oneOf !== undefined ? "oneOf" : null;
      if (way === null) continue;
      const left = way === "anyOf" && schema.oneOf !== undefined ? [{ ...item, schema: { oneOf: schema.oneOf } }] : [];
      const branches = listed(item, way).map((branch) => this.#expand([branch, ...left, ...queue], parts));
      if (way === "oneOf") this.#mustDiffer(branches, [...at, "oneOf"]);
      const all = branches.flat();
      if (all.length > mostShapes) throw invalid([...at, way], `has more than ${mostShapes} alternatives`);
      return all;
    }
    return [parts];
  }

  #step(at: Loc): void {
    if (++this.#steps > mostSteps) throw invalid(at, "the schema is too complex");
  }

  #target(item: Item, reference: unknown): Item {
    const at = [...item.at, "$ref"];
    if (typeof reference !== "string" || !/^#(\/|$)/.test(reference))
      throw unsupported(at, "$ref must point into the schema itself, beginning with #/");
    if (item.followed.includes(reference)) throw invalid(at, `${reference} refers to itself endlessly`);
    let schema: unknown = item.root.schema;
    const path = reference.split("/").slice(1).map(pointerPart);
    for (const part of path) {
      schema = isObject(schema) || Array.isArray(schema) ? own(schema, part) : undefined;
      if (schema === undefined) throw invalid(at, `${reference} points to nothing`);
    }
    return { ...item, schema, at: [...item.root.at, ...path], followed: [...item.followed, reference] };
  }

  /**
   * oneOf lets a value fit only one branch. A grammar cannot count matches, so branches that may share a value are refused.
   */
  #mustDiffer(branches: readonly Item[][][], at: Loc): void {
    const shapes = branches.map((ways) => ways.flatMap((parts) => this.#shape(parts) ?? []));
    for (const [first, one] of shapes.entries())
      for (const [offset, other] of shapes.slice(first + 1).entries())
        if (!one.every((a) => other.every((b) => this.#guarded(at, () => this.#differ(a, b, 4)))))
          throw unsupported(at, `branches ${first} and ${first + 1 + offset} may match the same values; use anyOf`);
  }

  /** Whether it is certain that no value fits both. */
  #differ(a: Shape, b: Shape, depth: number): boolean {
    this.#step([]);
    if (a.literals !== null) return a.literals.every((value) => !this.#fitsShape(value, b));
    if (b.literals !== null) return b.literals.every((value) => !this.#fitsShape(value, a));
    const common = allTypes.filter((type) => hasType(a, type) && hasType(b, type));
    return common.every((type) => {
      if (type === "string") return isEmpty(this.#strings(a, b));
      if (type === "number") return beyond(a, b) || beyond(b, a);
      if (type === "object")
        return depth > 0 && (this.#propertyDiffers(a, b, depth) || this.#propertyDiffers(b, a, depth));
      return false;
    });
  }

  #propertyDiffers(a: Shape, b: Shape, depth: number): boolean {
    return [...a.required].some((name) => {
      const [mine, other] = [a, b].map((shape) => this.of(shape.properties.get(name) ?? shape.additional)) as [
        Shape[],
        Shape[],
      ];
      if (other.length === 0) return true;
      return b.required.has(name) && mine.every((one) => other.every((two) => this.#differ(one, two, depth - 1)));
    });
  }

  #strings(a: Shape, b: Shape): Automaton {
    const of = (shape: Shape): Automaton =>
      shape.automaton ??
      ofLength(
        Math.min(shape.minLength, 100),
        shape.maxLength === null || shape.maxLength > 100 ? null : shape.maxLength,
      );
    return both(of(a), of(b), this.#automatonSteps);
  }

  /** Merges plain schemas into one shape; null if nothing fits. */
  #shape(parts: readonly Item[]): Shape | null {
    const values = parts.map(({ schema, at }) => readLeaves(schema as Json, at));
    const least = (key: "minLength" | "minItems"): number => Math.max(0, ...values.map((value) => value[key] ?? 0));
    const most = (key: "maxLength" | "maxItems"): number | null =>
      values.reduce<number | null>(
        (low, value) => (value[key] === undefined ? low : Math.min(low ?? value[key], value[key])),
        null,
      );
    const types = typesOf(values.map((value) => value.types));
    const shape: Shape = {
      types,
      literals: null,
      low: tightest(
        values.flatMap((value) => value.low),
        1,
      ),
      high: tightest(
        values.flatMap((value) => value.high),
        -1,
      ),
      automaton: null,
      minLength: least("minLength"),
      maxLength: most("maxLength"),
      minItems: least("minItems"),
      maxItems: most("maxItems"),
      ...itemsOf(parts),
      ...propertiesOf(parts),
    };
    if (types.has("string")) shape.automaton = this.#automaton(parts, shape);
    const [first, ...others] = values.map((value) => value.literals).filter((list) => list !== undefined);
    if (first !== undefined)
      shape.literals = first.filter(
        (value) => others.every((list) => list.some((other) => same(value, other))) && this.#fitsShape(value, shape),
      );
    if (shape.literals !== null) return shape.literals.length === 0 ? null : shape;
    return types.size === 0 ? null : shape;
  }

  /** Automaton of the patterns and formats, limited to the allowed lengths; null if there are no patterns and formats. */
  #automaton(parts: readonly Item[], shape: Shape): Automaton | null {
    let automaton: Automaton | null = null;
    for (const { schema, at } of parts)
      for (const key of ["pattern", "format"] as const) {
        const value = (schema as Json)[key];
        if (value === undefined) continue;
        const one = this.#guarded([...at, key], () => this.#read(key, value, [...at, key]));
        automaton =
          automaton === null ? one : this.#guarded([...at, key], () => both(automaton!, one, this.#automatonSteps));
      }
    if (automaton === null || (shape.minLength === 0 && shape.maxLength === null)) return automaton;
    const whole = automaton;
    const at = parts.find(
      ({ schema }) => (schema as Json).minLength !== undefined || (schema as Json).maxLength !== undefined,
    )!.at;
    const lengths = (): Automaton => ofLength(shape.minLength, shape.maxLength);
    return this.#guarded([...at, "pattern"], () => both(whole, lengths(), this.#automatonSteps));
  }

  #read(key: "pattern" | "format", value: unknown, at: Loc): Automaton {
    if (typeof value !== "string") throw invalid(at, "must be a string");
    const source = key === "pattern" ? value : formats.get(value);
    if (source === undefined)
      throw unsupported(
        at,
        `the format ${JSON.stringify(value)} cannot be enforced; these can: ${[...formats.keys()].join(", ")}`,
      );
    if (source.length > longestPattern && key === "pattern")
      throw invalid(at, `a pattern may have up to ${longestPattern} characters`);
    let automaton = this.#automata.get(source);
    if (automaton === undefined) {
      automaton = fromPattern(parsePattern(source), this.#automatonSteps);
      this.#automata.set(source, automaton);
    }
    return automaton;
  }

  #guarded<T>(at: Loc, work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (error instanceof PatternError) throw unsupported(at, `the pattern ${error.message}`);
      if (error instanceof TooManyStates)
        throw invalid(at, "is too complex in combination with the schema's other rules for strings");
      throw error;
    }
  }

  #fitsShape(value: unknown, shape: Shape): boolean {
    this.#step([]);
    if (shape.literals !== null) return shape.literals.some((other) => same(value, other));
    if (value === null) return shape.types.has("null");
    if (typeof value === "boolean") return shape.types.has("boolean");
    if (typeof value === "number")
      return (
        (shape.types.has("number") || (shape.types.has("integer") && Number.isInteger(value))) &&
        (shape.low === null || value > shape.low.value || (value === shape.low.value && !shape.low.isExclusive)) &&
        (shape.high === null || value < shape.high.value || (value === shape.high.value && !shape.high.isExclusive))
      );
    if (typeof value === "string") {
      const length = [...value].length;
      if (!shape.types.has("string") || length < shape.minLength || length > (shape.maxLength ?? length)) return false;
      return shape.automaton === null || accepts(shape.automaton, value);
    }
    if (Array.isArray(value))
      return (
        shape.types.has("array") &&
        value.length >= shape.minItems &&
        value.length <= (shape.maxItems ?? value.length) &&
        value.every((item, at) => this.fits(item, shape.prefix[at] ?? shape.items))
      );
    const object = value as Json;
    return (
      shape.types.has("object") &&
      [...shape.required].every((name) => Object.hasOwn(object, name)) &&
      Object.entries(object).every(([name, item]) => this.fits(item, shape.properties.get(name) ?? shape.additional))
    );
  }
}

/** A 422 that says which keyword cannot be enforced. */
function unsupported(at: Loc, message: string) {
  return invalid(at, message, "unsupported_schema");
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const own = (holder: object, key: string): unknown => (Object.hasOwn(holder, key) ? (holder as Json)[key] : undefined);

const only = (schema: Json, keys: ReadonlySet<string>): Json =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => keys.has(key)));

const pointerPart = (part: string): string => decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function listed(item: Item, key: string): Item[] {
  const list = (item.schema as Json)[key];
  if (!Array.isArray(list) || list.length === 0) throw invalid([...item.at, key], "must be a list of schemas");
  return list.map((schema, index) => ({ ...item, schema, at: [...item.at, key, index] }));
}

interface Leaves {
  types?: ReadonlySet<Type>;
  literals?: unknown[];
  low: { value: number; isExclusive: boolean }[];
  high: { value: number; isExclusive: boolean }[];
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
}

function readLeaves(schema: Json, at: Loc): Leaves {
  const leaves: Leaves = { low: [], high: [] };
  const named = typesNamed(schema, at);
  if (named !== null) leaves.types = named;
  if (schema.enum !== undefined) {
    if (!Array.isArray(schema.enum) || schema.enum.length === 0)
      throw invalid([...at, "enum"], "must be a list of values");
    if (schema.enum.length > mostValues) throw invalid([...at, "enum"], `has more than ${mostValues} values`);
    leaves.literals = schema.enum;
  }
  if (Object.hasOwn(schema, "const"))
    leaves.literals = (leaves.literals ?? [schema.const]).filter((value) => same(value, schema.const));
  for (const key of ["minLength", "maxLength", "minItems", "maxItems"] as const) {
    const count = schema[key];
    if (count === undefined) continue;
    if (!Number.isInteger(count) || (count as number) < 0) throw invalid([...at, key], "must be a whole number");
    if ((count as number) > mostCounted) throw unsupported([...at, key], `${key} is supported up to ${mostCounted}`);
    leaves[key] = count as number;
  }
  for (const [key, side, isExclusive] of [
    ["minimum", "low", false],
    ["exclusiveMinimum", "low", true],
    ["maximum", "high", false],
    ["exclusiveMaximum", "high", true],
  ] as const) {
    const value = schema[key];
    if (value === undefined) continue;
    if (typeof value !== "number") throw invalid([...at, key], "must be a number");
    leaves[side].push({ value, isExclusive });
  }
  return leaves;
}

function typesNamed(schema: Json, at: Loc): ReadonlySet<Type> | null {
  const { type, nullable } = schema;
  if (nullable !== undefined && typeof nullable !== "boolean")
    throw invalid([...at, "nullable"], "must be true or false");
  if (type === undefined) return null;
  const names = Array.isArray(type) ? type : [type];
  for (const name of names)
    if (name !== "integer" && !allTypes.includes(name))
      throw invalid([...at, "type"], `${JSON.stringify(name)} is not a type`);
  const types = new Set<Type>([...names, ...(nullable === true ? ["null"] : [])] as Type[]);
  if (types.has("number")) types.delete("integer");
  return types;
}

function typesOf(named: readonly (ReadonlySet<Type> | undefined)[]): ReadonlySet<Type> {
  let types = new Set<Type>(allTypes);
  for (const next of named) {
    if (next === undefined) continue;
    const common = [...types].filter((type) => next.has(type));
    if (types.has("number") && next.has("integer")) common.push("integer");
    if (types.has("integer") && next.has("number")) common.push("integer");
    types = new Set(common);
  }
  return types;
}

const hasType = (shape: Shape, type: Type): boolean =>
  shape.types.has(type) || (type === "number" && shape.types.has("integer"));

/** The tightest bound, or null if there is none: for side 1 the highest lower bound, for side −1 the lowest upper bound. */
function tightest(bounds: readonly { value: number; isExclusive: boolean }[], side: 1 | -1) {
  return bounds.reduce<{ value: number; isExclusive: boolean } | null>((best, bound) => {
    if (best === null || side * bound.value > side * best.value) return bound;
    return bound.value === best.value && bound.isExclusive ? bound : best;
  }, null);
}

/** Whether all numbers of `a` lie above those of `b`. */
function beyond(a: Shape, b: Shape): boolean {
  if (a.low === null || b.high === null) return false;
  if (a.low.value !== b.high.value) return a.low.value > b.high.value;
  return a.low.isExclusive || b.high.isExclusive;
}

/** A schema nested in another. References can be followed again in it, because it is for a nested value. */
const below = (item: Item, schema: unknown, ...path: Loc): Item => ({
  ...item,
  schema,
  at: [...item.at, ...path],
  followed: [],
});

function itemsOf(parts: readonly Item[]): Pick<Shape, "prefix" | "items"> {
  const lists = parts.map((part) => {
    const { prefixItems = [], items } = part.schema as Json;
    if (!Array.isArray(prefixItems)) throw invalid([...part.at, "prefixItems"], "must be a list of schemas");
    if (Array.isArray(items)) throw unsupported([...part.at, "items"], "use prefixItems for a list of item schemas");
    return {
      prefix: prefixItems.map((schema, index) => below(part, schema, "prefixItems", index)),
      rest: items === undefined ? [] : [below(part, items, "items")],
    };
  });
  const length = Math.max(0, ...lists.map(({ prefix }) => prefix.length));
  const prefix = Array.from({ length }, (_, index) =>
    lists.flatMap((list) => (index < list.prefix.length ? [list.prefix[index]!] : list.rest)),
  );
  return { prefix, items: lists.flatMap(({ rest }) => rest) };
}

function propertiesOf(parts: readonly Item[]): Pick<Shape, "properties" | "required" | "additional"> {
  const required = new Set<string>();
  const names = new Set<string>();
  const objects = parts.map((part) => {
    const schema = part.schema as Json;
    const { properties = {}, required: needed = [], additionalProperties } = schema;
    if (!isObject(properties)) throw invalid([...part.at, "properties"], "must be an object of schemas");
    if (!Array.isArray(needed) || needed.some((name) => typeof name !== "string"))
      throw invalid([...part.at, "required"], "must be a list of names");
    for (const name of Object.keys(properties)) names.add(name);
    for (const name of needed) required.add(name as string);
    const rest = additionalProperties === undefined ? [] : [below(part, additionalProperties, "additionalProperties")];
    return { part, properties, rest };
  });
  for (const name of required) names.add(name);
  const fitting = (name: string): Item[] =>
    objects.flatMap(({ part, properties, rest }) =>
      Object.hasOwn(properties, name) ? [below(part, properties[name], "properties", name)] : rest,
    );
  return {
    properties: new Map([...names].map((name) => [name, fitting(name)])),
    required,
    additional: objects.flatMap(({ rest }) => rest),
  };
}

/** Whether two values are equal as JSON. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [mine, other] = [Object.entries(a), Object.entries(b)];
  return (
    mine.length === other.length && mine.every(([key, value]) => Object.hasOwn(b, key) && same(value, (b as Json)[key]))
  );
}
