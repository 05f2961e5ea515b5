// The demo's material: documents, a benchmark and questions about a fictional company, from config/demo.
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { installation } from "../../base/config.ts";
import { Failure } from "../../base/errors.ts";
import type { ClientFile } from "../client.ts";

export interface Material {
  documents: ClientFile[];
  benchmark: ClientFile;
  /** Questions for the base and the aligned model, side by side. */
  questions: string[];
  /** Questions about nothing in the documents; the aligned model should be unsure of its answers. */
  offTopic: string[];
}

const folder = join(installation, "config/demo");
const mediaTypes: Record<string, string> = { ".md": "text/markdown", ".csv": "text/csv", ".txt": "text/plain" };

export async function readMaterial(): Promise<Material> {
  const names = (await readdir(join(folder, "documents"))).sort();
  const documents = await Promise.all(
    names.map(async (name) => ({
      name,
      mediaType: mediaTypes[extname(name)] ?? "text/plain",
      content: await readFile(join(folder, "documents", name), "utf8"),
    })),
  );
  const benchmark = {
    name: "benchmark.jsonl",
    mediaType: "application/jsonl",
    content: await readFile(join(folder, "benchmark.jsonl"), "utf8"),
  };
  return {
    documents,
    benchmark,
    questions: await questionsOf("chat.json"),
    offTopic: await questionsOf("off-topic.json"),
  };
}

async function questionsOf(name: string): Promise<string[]> {
  const value: unknown = JSON.parse(await readFile(join(folder, name), "utf8"));
  if (Array.isArray(value) && value.every((entry) => typeof entry === "string")) return value;
  throw new Failure("demo_failed", `config/demo/${name} is not a list of questions`);
}
