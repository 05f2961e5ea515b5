// A calculator as a tool. It accepts numbers, + - * / ^ and brackets. × ÷ − are read as * / -.
//
//   sum     product (+|- product)*
//   product power (*|/ power)*
//   power   (+|-)* atom [^ power]         -2^2 is -4, 2^-1 is 0.5, 2^3^2 is 512
//   atom    number | ( sum )

/** Thrown for an expression that is invalid or has no finite value. The message is written for the author of the expression. */
export class NotArithmetic extends Error {}

const longest = 200;
const token = /\s*(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+|[-+*/^()])/y;
/** Significant digits of a result. The last digits of a double are noise. */
const digits = 12;

/** Returns the value of an expression. Throws NotArithmetic. */
export function calculated(expression: string): string {
  if (expression.length > longest) throw new NotArithmetic(`an expression may have at most ${longest} characters`);
  const tokens = tokensOf(expression.replaceAll("×", "*").replaceAll("÷", "/").replaceAll("−", "-"));
  let at = 0;

  function isNext(...signs: string[]): boolean {
    return signs.includes(tokens[at] ?? "");
  }
  function sum(): number {
    let value = product();
    while (isNext("+", "-")) value = tokens[at++] === "+" ? value + product() : value - product();
    return value;
  }
  function product(): number {
    let value = power();
    while (isNext("*", "/")) {
      const isTimes = tokens[at++] === "*";
      const other = power();
      if (!isTimes && other === 0) throw new NotArithmetic("division by 0");
      value = isTimes ? value * other : value / other;
    }
    return value;
  }
  function power(): number {
    if (isNext("+", "-")) return tokens[at++] === "-" ? -power() : power();
    const base = atom();
    if (!isNext("^")) return base;
    at++;
    return base ** power();
  }
  function atom(): number {
    const next = tokens[at++];
    if (next === "(") {
      const value = sum();
      if (tokens[at++] !== ")") throw new NotArithmetic("a bracket is not closed");
      return value;
    }
    const value = next === undefined ? Number.NaN : Number(next);
    if (Number.isNaN(value))
      throw new NotArithmetic(next === undefined ? "it ends too early" : `${next} is out of place`);
    return value;
  }

  const value = sum();
  if (at < tokens.length) throw new NotArithmetic(`${tokens[at]} is out of place`);
  if (!Number.isFinite(value)) throw new NotArithmetic("the result is not a number");
  return String(Number(value.toPrecision(digits)));
}

function tokensOf(expression: string): string[] {
  const text = expression.trimEnd();
  const tokens: string[] = [];
  token.lastIndex = 0;
  while (token.lastIndex < text.length) {
    const from = token.lastIndex;
    const found = token.exec(text)?.[1];
    if (found === undefined)
      throw new NotArithmetic(`${JSON.stringify(text.slice(from, from + 10))} is not arithmetic`);
    tokens.push(found);
  }
  return tokens;
}
