// Downloads an adapter: the GGUF file that is in use, or the run's PEFT files as one archive.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { tarOf } from "../../base/tar.ts";
import type { AlignedRow } from "../../catalog/store.ts";
import { Download } from "../../contract/endpoint.ts";

const peftFiles = ["adapter_config.json", "adapter_model.safetensors"];

export async function downloadAdapter(row: AlignedRow, format: "gguf" | "peft", peft: string): Promise<Download> {
  try {
    if (format === "gguf") {
      const { size } = await stat(row.adapter_path);
      const content = createReadStream(row.adapter_path);
      return new Download({ name: `${row.id}.gguf`, mediaType: "application/octet-stream", bytes: size, content });
    }
    const archive = await tarOf(peftFiles.map((name) => ({ name: `${row.id}/${name}`, path: join(peft, name) })));
    return new Download({ name: `${row.id}.tar`, mediaType: "application/x-tar", ...archive });
  } catch (error) {
    if (isErrno(error, "ENOENT"))
      throw new Failure("not_found", `The model no longer has a ${format.toUpperCase()} file`, { cause: error });
    throw error;
  }
}
