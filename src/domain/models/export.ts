// Exports an aligned model for use elsewhere: the adapter in the format of llama.cpp or of PEFT and vLLM, or merged into
// its base. The trainer makes every format from the adapter in use, and never overwrites a file.
import { isAbsolute } from "node:path";
import { Failure } from "../../base/errors.ts";
import { type GgufHeader, readGgufHeader } from "../../engine/gguf/header.ts";
import type { AdapterShape, AdapterTarget, MergedWeightType, SavedFile, Trainer } from "../../engine/train/trainer.ts";

export const exportFormats = ["gguf", "peft", "merged"] as const;
export type ExportFormat = (typeof exportFormats)[number];

export interface ExportOrder {
  /** Id of an aligned model. */
  id: string;
  format: ExportFormat;
  /** Absolute path of the new file or, for peft, the new folder. Nothing may exist there yet. */
  path: string;
  /** How a merged model stores the matrices that the adapter changes. */
  weightType: MergedWeightType;
}

const name = "export";

/**
 * Makes the export and returns its files. Throws bad_request for a relative path, and trainer_error, for example if
 * something exists at the path.
 */
export async function exportModel(
  model: { basePath: string; adapterPath: string },
  { format, path, weightType }: Omit<ExportOrder, "id">,
  startTrainer: () => Trainer,
): Promise<SavedFile[]> {
  if (!isAbsolute(path)) throw new Failure("bad_request", "The path of an export must be absolute");
  const header = readGgufHeader(model.adapterPath);
  const provenance = provenanceOf(header);
  const trainer = startTrainer();
  try {
    await trainer.open({ path: model.basePath, threads: 1, memoryBytes: 0, device: "cpu" });
    await trainer.createAdapter(name, shapeOf(header));
    await trainer.load(name, model.adapterPath);
    if (format === "peft") return await trainer.exportPeft(name, path, provenance);
    if (format === "merged") return [await trainer.exportMerged(name, path, weightType, provenance)];
    return [await trainer.exportGguf(name, path, provenance)];
  } finally {
    await trainer.close();
  }
}

/** The shape that an adapter must be created with, so that this GGUF adapter can be loaded into it. */
function shapeOf({ values, tensors }: GgufHeader): AdapterShape {
  const firsts = tensors.filter((tensor) => tensor.name.endsWith(".weight.lora_a"));
  const targets = new Set(firsts.map((tensor) => tensor.name.split(".").at(-3) as AdapterTarget));
  const layers = firsts.flatMap(({ name }) => name.match(/^blk\.(\d+)\./)?.[1] ?? []).map(Number);
  return {
    rank: firsts[0]?.shape[1] ?? 0,
    alpha: Number(values.get("adapter.lora.alpha")),
    seed: 0,
    targets: [...targets],
    firstLayer: layers.length === 0 ? 0 : Math.min(...layers),
  };
}

const provenanceOf = ({ values }: GgufHeader): Record<string, string> =>
  Object.fromEntries([...values].filter((entry): entry is [string, string] => entry[0].startsWith("plumbline.")));
