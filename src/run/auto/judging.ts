// The means, besides verifiers, by which a reward judges drawn answers: rubrics of the project, a judge whose errors
// are measured first, and a preference model.

import { invalid } from "../../base/errors.ts";
import type { Trainer } from "../../engine/train/trainer.ts";
import { type Run, withField } from "../context.ts";
import { isNamed } from "../data-set.ts";
import { baseJudgeName, type RewardModels, rewardModelsOf } from "../folder/reward-models.ts";
import type { Criterion } from "../rewards/item.ts";
import { essentialOf } from "../rewards/judged.ts";
import { criteriaOf, judgedParts, type Means, type RewardBlock } from "../rewards/plan.ts";
import { rubricInCell, rubricOf } from "../rewards/rubrics.ts";
import { baseJudge, type JudgeRecord, measuredJudge, type Trial, trialsOf, withBaseJudge } from "./judge.ts";
import { type AskedModels, openRewardModels } from "./reward-models.ts";

export interface Judging {
  /** The run without the document that holds the rubric, so that nothing is learned from that document. */
  run: Run;
  means: Means;
  /** Device hours that measuring the judge took. */
  hours: number;
  close(): Promise<void>;
}

/** Where no phase uses a reward, or the reward is the default one. */
export const noJudging = (run: Run): Judging => ({ run, means: run.parts.means, hours: 0, close: async () => {} });

/** Returns the run without the document that a reward names as its rubric. No phase uses the reward, but the document is no material. */
export function withoutRubric(run: Run, block: RewardBlock | null): Run {
  const { type = null, rubric_ref: ref = null, composite } = block ?? {};
  const isRubric =
    type === null || type === "rubric" || (type === "composite" && Object.hasOwn(composite ?? {}, "rubric"));
  if (ref === null || !isRubric) return run;
  const documents = run.snapshot.documents.filter((one) => !isNamed(one, ref));
  return withField(run, "snapshot", { ...run.snapshot, documents });
}

/**
 * Opens the means that the reward needs. `trainer` must have the base open when answers are judged. Throws a validation
 * failure that names the field.
 */
export async function openJudging(ordered: Run, block: RewardBlock | null, trainer: () => Trainer): Promise<Judging> {
  if (block === null) return noJudging(ordered);
  const { means } = ordered.parts;
  const parts = judgedParts(block);
  const { run, rubrics } = parts.includes("rubric") ? withRubric(ordered, block) : { run: ordered, rubrics: {} };
  const named = rewardModelsOf(block);
  const asked = named.judge === null && named.preferenceModel === null ? null : await openRewardModels(run);
  const close = async (): Promise<void> => asked?.close();
  try {
    const trials = parts.flatMap((part) => trialsFor(part, run, block, rubrics));
    const judged = parts.length === 0 ? null : await judgedBy(run, named, { trials, asked, trainer });
    const preferred = named.preferenceModel === null ? [] : [[named.preferenceModel, asked!.preferenceModel] as const];
    return {
      run,
      means: { ...means, ...rubrics, ...judged?.means, preferenceModels: new Map(preferred) },
      hours: judged?.hours ?? 0,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

type Rubrics = Partial<Pick<Means, "rubrics" | "itemRubrics">>;

/**
 * Finds the rubric that the block names and removes its document from the run. If no rubric is named, returns the
 * rubrics that the data set has for its prompts. Throws a validation failure.
 */
function withRubric(run: Run, { rubric_ref: ref }: RewardBlock): { run: Run; rubrics: Rubrics } {
  const { documents, dataSet = [] } = run.snapshot;
  if (ref != null) {
    const { document, criteria } = rubricOf(documents, ref);
    const others = documents.filter((one) => one !== document);
    return {
      run: withField(run, "snapshot", { ...run.snapshot, documents: others }),
      rubrics: { rubrics: new Map([[ref, criteria]]) },
    };
  }
  if (!dataSet.some(({ rubric }) => rubric !== undefined))
    throw invalid(
      ["config", "reward", "rubric_ref"],
      "must name the document that holds the rubric; it may be omitted if a data set has a rubric column",
    );
  const own = dataSet.map(({ messages, rubric = "" }, at): [string, Criterion[]] => [
    messages[0]!.content,
    rubricInCell(rubric, `row ${at + 1} of the data set`),
  ]);
  return { run, rubrics: { itemRubrics: new Map(own) } };
}

function trialsFor(
  part: "llm_judge" | "rubric",
  run: Run,
  block: RewardBlock,
  { rubrics, itemRubrics }: Rubrics,
): Trial[] {
  const { dev, dataSet = [] } = run.snapshot;
  if (itemRubrics !== undefined && part === "rubric") {
    const items = dataSet.map(({ messages: [asked, answered], target }) => ({
      prompt: asked!.content,
      response: answered!.content,
      cluster: target,
    }));
    return trialsOf(items, (at) => essentialOf(itemRubrics.get(items[at]!.prompt)!));
  }
  const criteria = part === "llm_judge" ? criteriaOf(block) : essentialOf(rubrics!.get(block.rubric_ref!)!);
  const items = dev.map(({ instruction, response, cluster }) => ({ prompt: instruction, response, cluster }));
  return trialsOf(items, () => criteria);
}

/**
 * Returns the judge that the reward names (otherwise the base) with its measured error rates, and the hours. The process
 * that measures the rates writes them to the log.
 */
async function judgedBy(
  run: Run,
  { judge: named }: RewardModels,
  { trials, asked, trainer }: { trials: Trial[]; asked: AskedModels | null; trainer: () => Trainer },
): Promise<{ means: Pick<Means, "judges">; hours: number }> {
  const name = named?.model ?? baseJudgeName;
  const judge = named === null ? baseJudge(run, trainer) : asked!.judge;
  const record = await measuredJudge(run, trials, {
    name: JSON.stringify(named),
    // The judge is measured before any other model is asked, so all that is left of earlier processes is for this.
    secondsBefore: asked?.secondsBefore ?? 0,
    withJudge: (work) => (named === null ? withBaseJudge(run, work) : work(judge)),
    tell: (measured) => tell(run, measured),
  });
  const { sensitivity, specificity, hours } = record;
  return { means: { judges: new Map([[name, { judge, sensitivity, specificity }]]) }, hours };
}

function tell(run: Run, { right, wrong, sensitivity, specificity }: JudgeRecord): Promise<void> {
  const met = `${Math.round(sensitivity * right)} of ${right} criteria of correct answers`;
  const unmet = `${Math.round(specificity * wrong)} of ${wrong} criteria of wrong answers`;
  return run.events.append({
    kind: "decision",
    phase: "preparing",
    message: `The judge finds ${met} met and ${unmet} unmet; rewards are corrected for this`,
  });
}
