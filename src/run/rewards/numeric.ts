// 1 if the answer's number equals the reference's, within a tolerance. Units and other words are ignored.
import { type DecimalSign, isWithin, numbersBeside, numbersIn, shownBy } from "../../base/numbers.ts";
import { goldsOf } from "./exact.ts";
import { atLeastZero, type Options, oneOf, type RewardItem, type Verify } from "./item.ts";

export const numericDefaults = {
  /** Absolute tolerance; "" stands for the item's tolerance, or 0 if it has none. */
  tolerance: "",
  /** Tolerance as a share of the reference. The larger of the two tolerances counts. */
  relative: "0",
  /** With `last`, the answer's last number counts. With `only`, an answer with several different numbers is also wrong. */
  read: "last",
  /** The decimal sign in reference and answer; "" means that it is inferred from the numbers. */
  decimal: "",
};

export function numeric(options: Options): Verify {
  const absolute = options.tolerance === "" ? null : atLeastZero("tolerance", options.tolerance!);
  const relative = atLeastZero("relative", options.relative!);
  const read = oneOf("read", options.read!, ["last", "only"]);
  const decimal = oneOf("decimal", options.decimal!, ["", ".", ","]) || null;
  return (answer, item) => {
    const { values, sign } = targetsOf(item, decimal);
    if (values.length === 0) return null;
    const tolerance = absolute ?? item.tolerance ?? 0;
    const isNear = (value: number, target: number): boolean =>
      isWithin(Math.max(tolerance, relative * Math.abs(target)), value, target);
    const numbers = decimal === null ? numbersBeside(answer, sign) : numbersIn(answer, decimal);
    const said = numbers.at(-1)?.readings ?? [];
    const isOther = numbers.some(
      ({ readings }) => !readings.some(({ value }) => said.some((one) => one.value === value)),
    );
    if (read === "only" && isOther) return 0;
    return said.some(({ value }) => values.some((target) => isNear(value, target))) ? 1 : 0;
  };
}

/** Returns the values and the decimal sign of the reference and its aliases, except those that do not have exactly one number. */
function targetsOf(item: RewardItem, decimal: DecimalSign | null): { values: number[]; sign: DecimalSign | null } {
  const single = goldsOf(item)
    .map((gold) => numbersIn(gold, decimal))
    .filter((numbers) => numbers.length === 1)
    .flat();
  return { values: single.flatMap(({ readings }) => readings.map(({ value }) => value)), sign: shownBy(single) };
}
