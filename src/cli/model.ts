// plumbline model: base models on this machine. Works beside a running appliance and without one.
import { resolve } from "node:path";
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { createLog } from "../base/log.ts";
import type { BaseRecord } from "../domain/models/index.ts";
import { answers, bytesText, table } from "./output.ts";

export function register(program: Command): void {
  const model = program.command("model").description("base models: import, list, remove");

  const take = model
    .command("import")
    .description(
      "take a GGUF file, or a sentence-transformers folder of BERT shape, in as a base model, after checking it",
    )
    .argument("<path>", "the file or folder, or hf://organisation/name[/file.gguf] on the configured mirror")
    .option("--name <name>", "what to call it; otherwise what the file calls itself")
    .option("--sha256 <hex>", "refuse the file, or the folder's model.safetensors, unless this is its SHA-256")
    .option("--link", "refer to the file where it lies instead of copying it; it must not be changed afterwards");
  answers<{ name?: string; sha256?: string; link?: boolean }>(take, async ({ link, ...stated }, given = "") => {
    const path = given.startsWith("hf://") ? given : resolve(given);
    const source = { path, mode: link ? "link" : "copy", ...stated };
    const record = (await admin("model.import", source)) as BaseRecord;
    const aligned = record.can_be_aligned ? "it can be aligned" : `it cannot be aligned: ${record.reason}`;
    return { json: record, text: `${record.model_id}  ${record.model_name}; ${aligned}` };
  });

  const list = model.command("ls").description("list base models");
  answers(list, async () => {
    const models = (await admin("model.list")) as BaseRecord[];
    const rows = models.map((one) => [
      one.model_id,
      one.model_name,
      one.architecture,
      one.file_type,
      bytesText(one.bytes),
      one.can_be_aligned ? "yes" : String(one.reason),
    ]);
    const head = ["id", "name", "architecture", "type", "size", "can be aligned"];
    return { json: { base_models: models }, text: table([head, ...rows]) };
  });

  const remove = model
    .command("rm")
    .description("remove a base model that nothing was made from")
    .argument("<id>", "its id or name, from model ls");
  answers(remove, async (_, id) => {
    await admin("model.remove", { id });
    return { json: { id, removed: true }, text: `${id} is removed` };
  });
}

async function admin(verb: string, args: unknown = {}): Promise<unknown> {
  const { callAdmin } = await import("../main.ts");
  return callAdmin(readConfig(), createLog("warn"), verb, args);
}
