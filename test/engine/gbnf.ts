// A reader of GBNF of its own, and texts drawn from it: what a grammar lets through, found without the code that wrote it.

type Node =
  | { kind: "literal"; text: string }
  | { kind: "class"; ranges: [number, number][]; isNegated: boolean }
  | { kind: "rule"; name: string }
  | { kind: "choice"; ways: Node[][] }
  | { kind: "repeat"; node: Node; least: number; most: number | null };

export class Gbnf {
  readonly #rules = new Map<string, Node>();
  /** Fewest rules that a text of the rule goes through. */
  readonly #cost = new Map<string, number>();

  constructor(source: string) {
    for (const line of source.split("\n").filter((text) => text !== "")) {
      const at = line.indexOf(" ::= ");
      this.#rules.set(line.slice(0, at), new Reader(line.slice(at + 5)).choice());
    }
    for (let changed = true; changed; ) {
      changed = false;
      for (const [name, node] of this.#rules) {
        const cost = 1 + this.#least(node);
        if (cost >= (this.#cost.get(name) ?? Number.POSITIVE_INFINITY)) continue;
        this.#cost.set(name, cost);
        changed = true;
      }
    }
  }

  #least(node: Node): number {
    if (node.kind === "rule") return this.#cost.get(node.name) ?? Number.POSITIVE_INFINITY;
    if (node.kind === "choice") return Math.min(...node.ways.map((way) => this.#sum(way)));
    if (node.kind === "repeat") return node.least === 0 ? 0 : this.#least(node.node);
    return 0;
  }

  #sum(way: Node[]): number {
    return Math.max(0, ...way.map((node) => this.#least(node)));
  }

  /** random: the next number in [0, 1). The deeper, the shorter the ways that are taken. */
  sample(random: () => number): string {
    return this.#text({ kind: "rule", name: "root" }, random, 40);
  }

  #text(node: Node, random: () => number, depth: number): string {
    switch (node.kind) {
      case "literal":
        return node.text;
      case "class":
        return String.fromCodePoint(pick(node, random));
      case "rule":
        return this.#text(this.#rules.get(node.name)!, random, depth - 1);
      case "repeat": {
        const most = depth <= 0 ? node.least : Math.min(node.most ?? node.least + 3, node.least + 3);
        const count = node.least + Math.floor(random() * (most - node.least + 1));
        return Array.from({ length: count }, () => this.#text(node.node, random, depth)).join("");
      }
      case "choice": {
        const shortest = Math.min(...node.ways.map((way) => this.#sum(way)));
        const ways = node.ways.filter((way) => {
          const cost = this.#sum(way);
          return cost < Number.POSITIVE_INFINITY && (depth > 0 || cost === shortest);
        });
        const way = ways[Math.floor(random() * ways.length)]!;
        return way.map((part) => this.#text(part, random, depth)).join("");
      }
    }
  }
}

function pick({ ranges, isNegated }: { ranges: [number, number][]; isNegated: boolean }, random: () => number): number {
  if (!isNegated) {
    const [from, to] = ranges[Math.floor(random() * ranges.length)]!;
    // The ends are where mistakes are.
    const way = random();
    const point = way < 0.3 ? from : way < 0.6 ? to : from + Math.floor(random() * (to - from + 1));
    return point >= 0xd800 && point <= 0xdfff ? 0xe000 : point;
  }
  const tried = ["a", '"', "\\", "\n", "\u007f", "é", "\u2028", "🎉", " ", "/"].map((text) => text.codePointAt(0)!);
  const allowed = tried.filter((point) => !ranges.some(([from, to]) => from <= point && point <= to));
  return allowed[Math.floor(random() * allowed.length)]!;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  choice(): Node {
    const ways: Node[][] = [[]];
    for (;;) {
      this.#space();
      const next = this.#text[this.#at];
      if (next === undefined || next === ")") break;
      if (next === "|") {
        this.#at++;
        ways.push([]);
      } else ways.at(-1)!.push(this.#repeated());
    }
    return { kind: "choice", ways };
  }

  #repeated(): Node {
    let node = this.#atom();
    for (;;) {
      this.#space();
      const match = /^(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})/.exec(this.#text.slice(this.#at));
      if (match === null) return node;
      this.#at += match[0].length;
      const [least, most] =
        match[0] === "*"
          ? [0, null]
          : match[0] === "+"
            ? [1, null]
            : match[0] === "?"
              ? [0, 1]
              : [
                  Number(match[1]),
                  match[2] === undefined ? Number(match[1]) : match[3] === "" ? null : Number(match[3]),
                ];
      node = { kind: "repeat", node, least, most };
    }
  }

  #atom(): Node {
    const next = this.#text[this.#at]!;
    if (next === "(") {
      this.#at++;
      const node = this.choice();
      this.#at++;
      return node;
    }
    if (next === '"') return { kind: "literal", text: this.#quoted() };
    if (next === "[") return this.#class();
    const name = /^[\w-]+/.exec(this.#text.slice(this.#at))![0];
    this.#at += name.length;
    return { kind: "rule", name };
  }

  #quoted(): string {
    let text = "";
    for (this.#at++; this.#text[this.#at] !== '"'; ) text += this.#character();
    this.#at++;
    return text;
  }

  #class(): Node {
    this.#at++;
    const isNegated = this.#text[this.#at] === "^";
    if (isNegated) this.#at++;
    const ranges: [number, number][] = [];
    while (this.#text[this.#at] !== "]") {
      const from = this.#character().codePointAt(0)!;
      let to = from;
      if (this.#text[this.#at] === "-" && this.#text[this.#at + 1] !== "]") {
        this.#at++;
        to = this.#character().codePointAt(0)!;
      }
      ranges.push([from, to]);
    }
    this.#at++;
    return { kind: "class", ranges, isNegated };
  }

  #character(): string {
    const rest = this.#text.slice(this.#at);
    const hex = /^\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))/.exec(rest);
    if (hex !== null) {
      this.#at += hex[0].length;
      return String.fromCodePoint(Number.parseInt(hex[1] ?? hex[2] ?? hex[3]!, 16));
    }
    if (rest[0] === "\\") {
      this.#at += 2;
      return ({ n: "\n", t: "\t", r: "\r" } as Record<string, string>)[rest[1]!] ?? rest[1]!;
    }
    const character = String.fromCodePoint(rest.codePointAt(0)!);
    this.#at += character.length;
    return character;
  }

  #space(): void {
    while (this.#text[this.#at] === " ") this.#at++;
  }
}
