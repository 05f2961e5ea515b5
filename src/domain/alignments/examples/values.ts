// What counts as a value in a text, and how English asks for it.

export type ValueKind =
  | "money"
  | "percent"
  | "date"
  | "year"
  | "time"
  | "duration"
  | "measure"
  | "number"
  | "code"
  | "contact"
  | "name"
  | "text";

/** A value in a text: offsets in that text; `noun` is what a number counts ("people" in «62 people»). */
export interface Value {
  text: string;
  start: number;
  end: number;
  kind: ValueKind;
  noun: string | null;
}

const small =
  "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen";
const tens = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety";
const spelled = `(?:(?:${tens})(?:-(?:${small}))?|${small}|(?:a|one|two|three|four|five|six)[ -](?:dozen|hundred|thousand))`;
const digits = String.raw`\d{1,3}(?:[,\u202f\u00a0]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?`;
const amount = `(?:(?:${digits})(?:\\s(?:thousand|million|billion|hundred))?|${spelled})`;
const months =
  "January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec";
const weekdays = "Mondays?|Tuesdays?|Wednesdays?|Thursdays?|Fridays?|Saturdays?|Sundays?";
const clock = String.raw`(?:\d{1,2}:\d{2}(?:\s?(?:[ap]m\b|[ap]\.m\.))?|\d{1,2}\.\d{2}\s?(?:[ap]m\b|h\b)|\d{1,2}\s?(?:[ap]m\b|[ap]\.m\.)|\d{1,2} o'clock|noon|midnight)`;
const currency = "euros?|dollars?|pounds?(?: sterling)?|francs?|crowns?|cents?|EUR|USD|GBP|CHF|SEK|NOK|DKK|yen";
const span =
  "milliseconds?|seconds?|minutes?|mins?|hours?|hrs?|(?:working |business |calendar )?days?|nights?|weeks?|months?|quarters?|years?";
const unit =
  "kg|kilograms?|g|grams?|mg|t|tonnes?|tons?|lbs?|mm|cm|m|km|metres?|meters?|kilomet(?:re|er)s?|centimet(?:re|er)s?|millimet(?:re|er)s?|micromet(?:re|er)s?|µm|inch(?:es)?|feet|miles?|square met(?:re|er)s?|m²|m³|litres?|liters?|l|ml|millilitres?|V|volts?|W|kW|MW|watts?|kilowatts?|kWh|mAh|Ah|A|amps?|amperes?|Hz|kHz|MHz|GHz|rpm|°C|°F|degrees(?: Celsius| Fahrenheit)?|K|bar|mbar|Pa|kPa|MPa|psi|dB|lux|lumens?|GB|MB|TB|KB|Mbit/s|Gbit/s|px|dpi|ppm|N|Nm|newtons?|km/h|m/s|knots?|points?";

const patterns: [ValueKind, RegExp][] = [
  ["contact", /[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?:\/\/[^\s)>,]+|(?:\+\d{1,3}|\b0)[\d\s()/-]{5,16}\d/gu],
  [
    "date",
    new RegExp(
      `\\b(?:\\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:${months})(?:,? \\d{4})?|(?:${months}) \\d{1,2}(?:st|nd|rd|th)?(?:,? \\d{4})?|(?:${months}) \\d{4}|\\d{4}-\\d{2}-\\d{2})\\b`,
      "gu",
    ),
  ],
  ["time", new RegExp(`\\b${clock}(?: ?(?:to|–|-|until|and) ?${clock})?(?!\\w)`, "gu")],
  [
    "money",
    new RegExp(`[€$£]\\s?(?:${digits})(?:\\s(?:thousand|million|billion))?|\\b${amount}\\s(?:${currency})\\b`, "gu"),
  ],
  ["percent", new RegExp(`\\b${amount}\\s?(?:%|per ?cent\\b)`, "gu")],
  ["duration", new RegExp(`\\b${amount}[ -](?:${span})\\b`, "gu")],
  ["measure", new RegExp(`[−-]?\\b${amount}[ -]?(?:${unit})(?![\\p{L}\\p{N}])`, "gu")],
  [
    "date",
    new RegExp(
      `\\b(?:(?:the )?(?:first|second|third|last) )?(?:${weekdays})\\b|\\b(?:${months})(?: (?:to|until|–) (?:${months}))?\\b(?! [A-Z])`,
      "gu",
    ),
  ],
  ["code", /\b(?=[A-Z0-9-]*\d)(?=[A-Z0-9-]*[A-Z])[A-Z0-9]+(?:-[A-Z0-9]+)*\b/gu],
  ["year", /\b(?:1[5-9]|20)\d{2}\b(?![,.]\d)/gu],
  ["number", new RegExp(`\\b${amount}\\b`, "gu")],
];

/** «62 people», «four trained inspectors»: the noun that a number counts. */
const counted = /^ ((?:[a-z-]+ ){0,2}?[a-z-]+s|people|staff)\b(?! (?:the|its|our|\p{Lu}))/u;
const names =
  /(?:\p{Lu}[\p{L}\p{N}'’&-]*|\p{Lu}\.)(?:\s(?:of the |of |de |van |von |and (?=\p{Lu}[\p{L}]+\s(?:and|[^a-z])))?(?:\p{Lu}[\p{L}\p{N}'’&-]*|\p{Lu}\.|\d{1,4}(?![\p{L}\d])))*/gu;
const never = new RegExp(
  `^(?:The|A|An|It|Its|They|This|These|That|Those|We|Our|You|Your|All|Each|Every|Any|If|When|For|In|On|At|By|From|To|No|Only|Both|Most|Some|Either|Neither|Everybody|Everyone|Nobody|Somebody|Anybody|Anyone|Whoever|What|Who|Where|Us|Me|After|Before|During|As|Since|Until|Under|Over|With|Without|There|Here|Please|New|Staff|Customers?|Employees?|${weekdays}|${months})$`,
  "u",
);

/** The values of a sentence, left to right, none inside another. */
export function valuesOf(sentence: string): Value[] {
  const taken: Value[] = [];
  const free = (start: number, end: number) => taken.every((value) => end <= value.start || start >= value.end);
  for (const [kind, pattern] of patterns)
    for (const match of sentence.matchAll(pattern)) {
      const [start, end] = [match.index, match.index + match[0].length];
      if (!free(start, end) || (kind === "number" && /^a\b/i.test(match[0]))) continue;
      const noun = kind === "number" ? (counted.exec(sentence.slice(end))?.[1] ?? null) : null;
      if (kind === "number" && noun === null && /^one$/i.test(match[0])) continue;
      taken.push({ text: match[0], start, end, kind, noun });
    }
  for (const match of sentence.matchAll(names)) {
    const [start, end] = [match.index, match.index + match[0].length];
    if (never.test(match[0].split(" ")[0]!) || !free(start, end)) continue;
    taken.push({ text: match[0], start, end, kind: "name", noun: null });
  }
  return taken.sort((a, b) => a.start - b.start);
}

/** «working days» of «12 working days»; «» where a value has no unit in words. */
export function unitOf(text: string): string {
  return /^[€$£]/.test(text)
    ? ""
    : text.replace(new RegExp(`^[−-]?${amount}[ -]?`, "u"), "").replace(/^[^\p{L}].*$/u, "");
}

/** The kind of a whole cell or of a key's value. */
export function kindOf(cell: string): ValueKind {
  const text = cell.trim();
  for (const [kind, pattern] of patterns) {
    const match = new RegExp(pattern.source, "u").exec(text);
    if (match && match.index <= 1 && match[0].length >= text.length - 2) return kind;
  }
  if (/^(?:\p{Lu}[\p{L}'’.-]*)(?:\s(?:of |de |van |von )?\p{Lu}[\p{L}'’.-]*)+$/u.test(text)) return "name";
  return "text";
}

/** What stands in a question for a value of this kind, where it stood in the sentence. */
export function placeholderOf(
  value: { kind: ValueKind; noun: string | null; text: string },
  preposition: string,
): string {
  const where = /^(in|at|near|from|to)$/.test(preposition);
  switch (value.kind) {
    case "money":
      return "how much money";
    case "percent":
      return "what percentage";
    case "duration":
      return "how long";
    case "year":
      return "what year";
    case "date":
      return /day/.test(value.text) ? "which day" : "what date";
    case "time":
      return "what time";
    case "number":
      return value.noun === null ? "what number" : "how many";
    case "measure":
      return "how much";
    case "name":
      return preposition === "by" || preposition === "with" ? "whom" : where ? "which place" : "what";
    default:
      return "what";
  }
}
