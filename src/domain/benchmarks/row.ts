// A row of an uploaded benchmark.
import type { FromSchema } from "json-schema-to-ts";
import type { benchmarkRow } from "../../contract/benchmarks.ts";

export type Row = FromSchema<typeof benchmarkRow>;

export type Complain = (row: number, field: (string | number)[], message: string) => void;
