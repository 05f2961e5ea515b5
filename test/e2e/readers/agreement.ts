// What two readers said of the same rows: how many are wrong, how far they agree, and how many of the planted ones they caught.

export interface Verdict {
  number: number;
  verdict: "correct" | "awkward" | "wrong";
}

export interface Judged {
  kind: string;
  isPlanted: boolean;
  /** By the first reader and by the second. */
  said: [Verdict["verdict"], Verdict["verdict"]];
}

export interface Agreement {
  /** Without the planted ones: correct, awkward and wrong by each reader, and wrong by both. */
  rows: number;
  first: number[];
  second: number[];
  wrong_by_both: number;
  /** Wrong by each reader, by kind of row, beside how many there are. */
  by_kind: Record<string, { rows: number; wrong: [number, number] }>;
  /** Cohen (1960) over «wrong» or not, planted rows included: 1 is full agreement, 0 what chance gives. */
  kappa: number;
  planted: { rows: number; caught: [number, number] };
}

const verdicts = ["correct", "awkward", "wrong"] as const;

export function agreement(judged: readonly Judged[]): Agreement {
  const own = judged.filter(({ isPlanted }) => !isPlanted);
  const planted = judged.filter(({ isPlanted }) => isPlanted);
  const wrong = (rows: readonly Judged[]): [number, number] => [
    rows.filter(({ said }) => said[0] === "wrong").length,
    rows.filter(({ said }) => said[1] === "wrong").length,
  ];
  const counts = (reader: 0 | 1): number[] =>
    verdicts.map((verdict) => own.filter(({ said }) => said[reader] === verdict).length);
  return {
    rows: own.length,
    first: counts(0),
    second: counts(1),
    wrong_by_both: own.filter(({ said }) => said.every((one) => one === "wrong")).length,
    by_kind: Object.fromEntries(
      [...Map.groupBy(own, ({ kind }) => kind)].map(([kind, rows]) => [
        kind,
        { rows: rows.length, wrong: wrong(rows) },
      ]),
    ),
    kappa: kappaOf(judged.map(({ said }) => [said[0] === "wrong", said[1] === "wrong"])),
    planted: { rows: planted.length, caught: wrong(planted) },
  };
}

/** (observed − expected) / (1 − expected) agreement; 1 where chance alone would agree always. */
export function kappaOf(pairs: readonly (readonly [boolean, boolean])[]): number {
  const share = (holds: (pair: readonly [boolean, boolean]) => boolean): number =>
    pairs.filter(holds).length / pairs.length;
  const [a, b] = [share(([one]) => one), share(([, two]) => two)];
  const expected = a * b + (1 - a) * (1 - b);
  return expected === 1 ? 1 : (share(([one, two]) => one === two) - expected) / (1 - expected);
}
