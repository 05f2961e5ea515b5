// Stores a generated text by calling the upload endpoints' handlers, as if a client had sent the text.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../../base/files.ts";
import { randomWord } from "../../base/ids.ts";
import type { benchmarks } from "../../contract/benchmarks.ts";
import type { documents } from "../../contract/documents.ts";
import type { Caller, Handler, Reply } from "../../contract/endpoint.ts";

export interface UploadParts {
  /** Folder that holds uploads until they are stored. */
  folder: string;
  /** The handlers of the two upload endpoints. */
  uploadDocument: Handler<(typeof documents)["documents.upload"]>;
  uploadBenchmark: Handler<(typeof benchmarks)["benchmarks.upload"]>;
}

/** Stores the text as an upload of the caller. Calls `also` with the new id in the same transaction. */
export type Upload = (name: string, text: string, caller: Caller, also: (id: string) => void) => Promise<unknown>;

export function createUploads({
  folder,
  uploadDocument,
  uploadBenchmark,
}: UploadParts): Record<"document" | "benchmark", Upload> {
  async function inputOf(name: string, text: string, declaredType: string) {
    const path = join(folder, randomWord());
    const bytes = Buffer.from(text);
    await writeFile(path, bytes, { mode: 0o600 });
    return {
      ...{ params: {}, query: {}, headers: {}, body: {}, raw: {}, requestId: randomWord(), lastEventId: null },
      files: [{ name, declaredType, path, bytes: bytes.length, sha256: sha256(bytes) }],
      signal: new AbortController().signal,
      setHeader: () => {},
    };
  }

  return {
    async document(name, text, caller, also) {
      const input = await inputOf(name, text, "text/markdown");
      const keepReply = (reply: Reply<(typeof documents)["documents.upload"]>): void =>
        also(reply.documents[0]!.document_id);
      return uploadDocument({ ...input, keepReply }, caller);
    },
    async benchmark(name, text, caller, also) {
      const input = await inputOf(name, text, "application/jsonl");
      const keepReply = (reply: Reply<(typeof benchmarks)["benchmarks.upload"]>): void => also(reply.benchmark_id);
      return uploadBenchmark({ ...input, keepReply }, caller);
    },
  };
}
