// What a seed draws: invented names, and numbers that stand close to each other. No name or number of these is anybody's.
import { seeded } from "../../src/base/statistics/random.ts";

/** A value as the documents write it, and other forms of it that are as right. */
export interface Value {
  text: string;
  aliases: string[];
  type: "short" | "numeric";
  tolerance?: number;
}

const surnameStarts =
  "Bran Calv Dorr Fenn Garv Hald Jorv Kest Lumm Morv Nevv Ostr Pell Quill Rask Selv Torv Ulm Vasp Wimm Yarr Zell Ebb Ingv Orl Thask".split(
    " ",
  );
const surnameEnds =
  "aby edane eck ingfell egren holt inov eketh elund amire anor osk equist arell estad othorpe umer ivane owick azic".split(
    " ",
  );
const firstNames =
  "Ada Bela Cora Dario Edda Farid Greta Hiro Ines Jonas Kofi Lena Marek Nadia Otto Priya Quentin Rosa Samir Tilda Ugo Vera Wanda Xenia Yusuf Zora Amos Birgit Carlo Dunja Emil Fiona Goran Hedda Ivan Jana Klaus Livia Milo Nora".split(
    " ",
  );
const placeStarts =
  "Ald Brex Crom Dunt Elv Frim Glas Hurn Ister Jasp Kelm Lorn Murk Nesk Orm Prith Rusk Skarn Thorn Umb Verl Wrex Yest".split(
    " ",
  );
const placeEnds = "bury combe dale fleet garth haven ley mere ness oxter port ridge stow wade".split(" ");
const wordStarts = "Bax Civ Dov Ex Fal Gim Hov Jex Kav Lum Mav Niv Oz Pry Rix Sav Tiv Uz Vel Wix Yal Zan".split(" ");
const wordEnds = "ara elo ito umo andra esta inka olo urin avo emis okka ulex irro".split(" ");
const firmEnds = ["Brothers", "and Daughters", "Trading", "Partners", "Supply", "Limited"];
const months = "January February March April May June July August September October November December".split(" ");

/** Draws from one seed; every invented name comes up once. */
export class Draw {
  readonly random: () => number;
  readonly #used = new Set<string>();

  constructor(seed: number) {
    this.random = seeded(seed);
  }

  /** From `low` to `high`, both among them, in steps. */
  int(low: number, high: number, step = 1): number {
    return low + step * Math.floor(this.random() * (Math.floor((high - low) / step) + 1));
  }

  one<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!;
  }

  #name(make: () => string): string {
    for (let tries = 0; tries < 1000; tries++) {
      const name = make();
      if (this.#used.has(name.toLowerCase())) continue;
      this.#used.add(name.toLowerCase());
      return name;
    }
    throw new Error("the names have run out");
  }

  person = (): string => `${this.one(firstNames)} ${this.#name(() => this.one(surnameStarts) + this.one(surnameEnds))}`;
  place = (): string => this.#name(() => this.one(placeStarts) + this.one(placeEnds));
  word = (): string => this.#name(() => this.one(wordStarts) + this.one(wordEnds));
  firm = (): string => `${this.word()} ${this.one(firmEnds)}`;

  /** A number no other of the same `key` has: siblings are never told apart by luck. */
  fresh(key: string, low: number, high: number, step = 1): number {
    const drawn = this.#name(() => `${key} ${this.int(low, high, step)}`);
    return Number(drawn.slice(key.length + 1));
  }
}

const grouped = (n: number): string => n.toLocaleString("en-US");

export const name = (text: string): Value => ({ text, aliases: [], type: "short" });
/** A surname alone is an answer too: no two persons share one. */
export const person = (text: string): Value => ({ text, aliases: [text.split(" ")[1]!], type: "short" });
export const year = (n: number): Value => name(String(n));
export const count = (n: number): Value => ({
  text: grouped(n),
  aliases: n >= 1000 ? [String(n)] : [],
  type: "numeric",
  tolerance: 0,
});
export const measure = (n: number, unit: string): Value => ({
  text: `${grouped(n)} ${unit}`,
  aliases: n >= 1000 ? [`${n} ${unit}`] : [],
  type: "short",
});
export const euros = (n: number): Value => ({
  text: `${grouped(n)} euros`,
  aliases: [`€${grouped(n)}`, `${n} EUR`, ...(n >= 1000 ? [`${n} euros`] : [])],
  type: "short",
});
export function date(day: number, month: number, inYear: number): Value {
  const numbers = [String(inYear), String(month).padStart(2, "0"), String(day).padStart(2, "0")];
  return {
    text: `${day} ${months[month - 1]} ${inYear}`,
    aliases: [`${months[month - 1]} ${day}, ${inYear}`, numbers.join("-")],
    type: "short",
  };
}
