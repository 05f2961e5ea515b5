// looks/<n>/scores.json of an auto-align's folder: the scores from the appliance, which asked an adapter a third of the sealed questions.
// The run itself never sees these questions.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno, makeFolder, writeJsonDurably } from "../../base/files.ts";
import { type LookScores, lookScores } from "../../contract/run-folder.ts";
import { compile } from "../../contract/validate.ts";

const check = compile(lookScores);
const nameOf = (look: number): string => join("looks", String(look), "scores.json");

/** Reads the scores of a look, counted from 0; null if it has none yet. Throws run_folder_invalid. */
export async function readScores(folder: string, look: number): Promise<LookScores | null> {
  const text = await readFile(join(folder, nameOf(look)), "utf8").catch((error) => {
    if (isErrno(error, "ENOENT")) return null;
    throw error;
  });
  if (text === null) return null;
  const checked = check(JSON.parse(text));
  if (checked.ok) return checked.value;
  const [first] = checked.details;
  throw new Failure("run_folder_invalid", `${nameOf(look)}: ${first!.loc.join(".")} ${first!.msg}`);
}

export async function writeScores(folder: string, look: number, scores: LookScores): Promise<void> {
  await makeFolder(join(folder, "looks", String(look)));
  await writeJsonDurably(join(folder, nameOf(look)), scores);
}
