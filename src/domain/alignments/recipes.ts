// Reads the presets. Each is a file in config/recipes/, and their values are defined nowhere else.
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { type Recipe, recipe } from "../../contract/recipe.ts";
import { compile } from "../../contract/validate.ts";

/** Reads the recipes by name, which is the file's name without .json. Throws config_invalid naming the file and the field. */
export async function readRecipes(folder: string): Promise<Map<string, Recipe>> {
  const check = compile(recipe);
  const recipes = new Map<string, Recipe>();
  for (const file of (await readdir(folder)).filter((name) => name.endsWith(".json")).sort()) {
    const path = join(folder, file);
    const checked = check(parse(path, await readFile(path, "utf8")));
    if (!checked.ok) throw bad(path, checked.details.map(({ loc, msg }) => `${loc.join(".")} ${msg}`).join("; "));
    recipes.set(basename(file, ".json"), checked.value);
  }
  return recipes;
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw bad(path, (error as Error).message);
  }
}

const bad = (path: string, why: string): Failure => new Failure("config_invalid", `${path}: ${why}`);
