// A judge says, for each criterion, whether a drawn answer meets it. Before any reward depends on a judge, its error
// rates are measured on answers known to be right or wrong. The base judges without an adapter, by likelihood.
import { join } from "node:path";
import { sha256 } from "../../base/files.ts";
import { sideBySide } from "../../base/side-by-side.ts";
import type { Trainer } from "../../engine/train/trainer.ts";
import { filled, ownOrEnglish } from "../../study/languages.ts";
import { asking } from "../choose.ts";
import type { Run } from "../context.ts";
import { identityOf } from "../folder/request.ts";
import { choose } from "../guards/measure.ts";
import type { Judge, JudgeError } from "../rewards/judged.ts";
import { mostAsked, refuseUnknown, unlessUnanswered } from "../rewards/pay.ts";
import { json, stage } from "../stage.ts";
import { opening } from "../training.ts";
import { hoursSince } from "./check.ts";

/**
 * Returns a judge that says yes where yes is likelier than no, per character as in every choice. The trainer must have
 * the base open when the judge is used.
 */
export function baseJudge(run: Run, trainer: () => Trainer): Judge {
  const { ask, yes, no } = ownOrEnglish(null, "judge");
  return (criteria, question, answer) =>
    choose(
      { ...asking(run, trainer()), adapter: null },
      criteria.map((criterion) => ({
        ask: filled(ask, { question, answer, criterion }),
        stem: "",
        choices: [yes, no],
      })),
    );
}

/** Runs `work` with the base as judge. The base is open in a separate trainer until `work` ends. */
export async function withBaseJudge<T>(run: Run, work: (judge: Judge) => Promise<T>): Promise<T> {
  const trainer = run.parts.startTrainer();
  try {
    await trainer.open(opening(run));
    return await work(baseJudge(run, () => trainer));
  } finally {
    await trainer.close();
  }
}

/**
 * A question that a judge is tried on. `right` meets all the criteria; `wrong`, the answer to another question, does
 * not meet all of them.
 */
export interface Trial {
  prompt: string;
  criteria: readonly string[];
  right: string;
  /** null where every other question belongs to the same cluster or has the same answer. */
  wrong: string | null;
}

interface Answered {
  prompt: string;
  response: string;
  /** Questions that ask for the same thing share a cluster. */
  cluster: string;
}

/** Maximum number of questions that a judge is tried on. */
const mostTried = 100;

export function trialsOf(items: readonly Answered[], criteriaOf: (at: number) => readonly string[]): Trial[] {
  const tried = items.slice(0, mostTried);
  return tried.map(({ prompt, response, cluster }, at) => {
    const others = [...tried.slice(at + 1), ...tried.slice(0, at)];
    const other = others.find((one) => one.cluster !== cluster && one.response !== response);
    return { prompt, criteria: criteriaOf(at), right: response, wrong: other?.response ?? null };
  });
}

export interface JudgeRecord extends JudgeError {
  /**
   * Number of verdicts on criteria that right answers meet, and on criteria that wrong answers do not meet. A wrong
   * answer is the right answer to another question.
   */
  right: number;
  wrong: number;
}

/**
 * Measures a judge once and keeps the result, with the device hours that it took. `withJudge` calls `work` with the
 * judge ready for use. `tell` is called with the result before it is kept, so that no kill can leave it untold.
 * `secondsBefore`: time that earlier processes took for verdicts that are kept.
 */
export function measuredJudge(
  run: Run,
  trials: readonly Trial[],
  {
    name,
    secondsBefore,
    withJudge,
    tell,
  }: {
    name: string;
    secondsBefore: number;
    withJudge: (work: (judge: Judge) => Promise<JudgeRecord>) => Promise<JudgeRecord>;
    tell: (record: JudgeRecord) => Promise<void>;
  },
): Promise<JudgeRecord & { hours: number }> {
  const identity = sha256(JSON.stringify([format, identityOf(run.request), name, trials]));
  const measure = async () => {
    const began = run.parts.clock.monotonicMs();
    const record = await withJudge((judge) => measured(judge, trials, run.parts.control.signal));
    const hours = secondsBefore / 3600 + hoursSince(run, began);
    await tell(record);
    return { ...record, hours };
  };
  return stage(join(run.folder, "plan", "judge"), identity, measure, json());
}

/** Part of the identity of the kept rates. Format 1 measured whole answers; since format 2, criteria are measured. */
const format = 2;

/** A judge's verdict on one criterion of an answer. */
interface Verdict {
  criterion: string;
  isRight: boolean;
  isMet: boolean;
}

/**
 * Measures a judge's sensitivity and specificity per criterion. A rate is 0 where there was no verdict to measure it on.
 * Throws run_failed if a fifth of the answers get no verdict.
 */
export async function measured(judge: Judge, trials: readonly Trial[], signal: AbortSignal): Promise<JudgeRecord> {
  const asked = trials.flatMap(({ prompt, criteria, right, wrong }) => [
    { prompt, criteria, answer: right, isRight: true },
    ...(wrong === null ? [] : [{ prompt, criteria, answer: wrong, isRight: false }]),
  ]);
  const problems: string[] = [];
  const said = await sideBySide(asked, mostAsked, ({ criteria, prompt, answer }) =>
    unlessUnanswered(problems, () => judge(criteria, prompt, answer, signal)),
  );
  const unknown = said.filter((one) => one === null).length;
  refuseUnknown("the judge could not judge", "answers", { unknown, of: asked.length, problems });
  const verdicts = asked.flatMap(({ criteria, isRight }, at): Verdict[] =>
    criteria.flatMap((criterion, index) => {
      const isMet = said[at]?.[index] ?? null;
      return isMet === null ? [] : [{ criterion, isRight, isMet }];
    }),
  );
  const right = verdicts.filter(({ isRight }) => isRight);
  const wrong = unmetOf(verdicts.filter(({ isRight }) => !isRight));
  return {
    right: right.length,
    wrong: wrong.length,
    sensitivity: shareOf(right, true),
    specificity: shareOf(wrong, false),
  };
}

/** Share of the verdicts that call the criterion met, or unmet. */
const shareOf = (verdicts: readonly Verdict[], met: boolean): number =>
  verdicts.filter(({ isMet }) => isMet === met).length / Math.max(1, verdicts.length);

/** Criteria denied less than this share as often as the most denied one are taken to be met by wrong answers too. */
const leastDenied = 0.5;

/**
 * Returns the verdicts on criteria that wrong answers do not meet. Of a wrong answer it is known only that it fails some
 * criterion: it may well be short, or polite. The judge itself tells the two kinds apart, because it denies the one kind
 * about as often as it is right, and the other only as often as it errs. Criteria of a single question are one kind.
 * One half of the verdicts chooses, and the other half is returned: the verdicts by which a kind was chosen flatter the
 * judge, and a coin would seem to be right.
 */
function unmetOf(verdicts: readonly Verdict[]): Verdict[] {
  const kinds = [...Map.groupBy(verdicts, ({ criterion }) => criterion).values()];
  const single = kinds.filter((own) => own.length === 1).flat();
  const shared = [...kinds.filter((own) => own.length > 1), ...(single.length > 0 ? [single] : [])];
  if (shared.length === 1) return shared[0]!;
  const halves = shared.map((own) => ({
    denied: shareOf(
      own.filter((_, at) => at % 2 === 0),
      false,
    ),
    others: own.filter((_, at) => at % 2 === 1),
  }));
  const most = Math.max(...halves.map(({ denied }) => denied));
  return halves.filter(({ denied }) => denied >= leastDenied * most).flatMap(({ others }) => others);
}
