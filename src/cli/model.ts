// plumbline model: manages base models on this machine, and exports aligned ones. Works with or without a running
// appliance.
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { Failure } from "../base/errors.ts";
import { exportFormats } from "../domain/models/export.ts";
import type { BaseRecord } from "../domain/models/handlers.ts";
import { mergedWeightTypes, type SavedFile } from "../engine/train/trainer.ts";
import { asks, asSaid } from "./asks.ts";
import type { Replies } from "./client.ts";
import { admin } from "./connection.ts";
import { type Page, paged, pageOf } from "./options.ts";
import { answers, bytesText, table } from "./output.ts";

export function register(program: Command): void {
  const model = program.command("model").description("base models: import, list, remove; aligned ones: list, export");

  const take = model
    .command("import")
    .description(
      "import a GGUF file, or a sentence-transformers folder of BERT shape, as a base model, after checking it",
    )
    .argument("<path>", "the file or folder, or hf://organisation/name[/file.gguf] on the configured mirror")
    .option("--name <name>", "name of the model (default: the name in the file)")
    .option("--sha256 <hex>", "refuse the file, or the folder's model.safetensors, unless it has this SHA-256")
    .option("--link", "use the file where it is instead of copying it; it must not be changed afterwards");
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
      one.load_error ?? (one.can_be_aligned ? "yes" : String(one.reason)),
    ]);
    const head = ["id", "name", "architecture", "type", "size", "can be aligned"];
    return { json: { base_models: models }, text: table([head, ...rows]) };
  });

  const aligned = paged(model.command("aligned").description("list your aligned models, through the API"));
  asks<Page>(aligned, async (client, options) => {
    const query = pageOf(options);
    const reply = await client.api["models.aligned"]({ query }).catch(noneYet);
    const rows = reply.domain_aligned_models.map((one) => [
      one.model_id,
      one.model_name,
      one.deployment_status,
      one.base_model_name,
      one.alignment_id,
      one.created_at,
    ]);
    return { json: reply, text: table([["id", "name", "status", "base", "alignment", "created"], ...rows]) };
  });

  const remove = model
    .command("rm")
    .description("remove a base model from which no model was made")
    .argument("<id>", "the model's id or name, from model ls");
  answers(remove, async (_, id) => {
    await admin("model.remove", { id });
    return { json: { id, removed: true }, text: `${id} was removed` };
  });

  const give = model
    .command("export")
    .description("export an aligned model for use elsewhere; nothing is ever overwritten")
    .argument("<model>", "the model's id, model_… or alignment-…")
    .requiredOption("--out <path>", "the file to create; for peft, the folder")
    .addOption(
      new Option(
        "--format <format>",
        "gguf: the adapter for llama.cpp; peft: the adapter for PEFT and vLLM; merged: the whole model",
      )
        .choices(exportFormats)
        .makeOptionMandatory(),
    )
    // f16 is the default because it rounds eight times finer than bfloat16. Values that it cannot hold are refused.
    .addOption(
      new Option("--weights <type>", "storage type of the weights that the adapter changes, in a merged model")
        .choices(mergedWeightTypes)
        .default("f16"),
    );
  answers<{ out: string; format: string; weights: string }>(give, async ({ out, format, weights }, id) => {
    const path = resolve(out);
    const files = (await admin("model.export", { id, path, format, weight_type: weights })) as SavedFile[];
    const rows = files.map((file) => [file.name, bytesText(file.bytes), file.sha256]);
    return { json: { path, files }, text: `${path}\n${table([["file", "size", "sha256"], ...rows])}` };
  });
}

/** Returns an empty list if the error says that there are no aligned models yet. Throws all other errors again. */
function noneYet(error: unknown): Replies["models.aligned"] {
  const said = asSaid(error);
  if (said instanceof Failure && ["no_aligned_models", "first_model_under_way"].includes(said.code))
    return { domain_aligned_models: [], total: 0 };
  throw error;
}
