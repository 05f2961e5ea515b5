// Stores a generated text by calling the upload endpoints' handlers, as if a client had sent the text.
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../../base/files.ts";
import { randomWord } from "../../base/ids.ts";
import type { benchmarks } from "../../contract/benchmarks.ts";
import type { documents } from "../../contract/documents.ts";
import type { Caller, Handler, Reply, UploadedFile } from "../../contract/endpoint.ts";

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
  const inputOf = (file: UploadedFile) => ({
    ...{ params: {}, query: {}, headers: {}, body: {}, raw: {}, requestId: randomWord(), lastEventId: null },
    files: [file],
    signal: new AbortController().signal,
    setHeader: () => {},
  });

  /** Writes the text to a file for `store`. The file is then removed, because what is stored has a link of its own to the content. */
  async function uploaded<T>(
    { name, text, declaredType }: { name: string; text: string; declaredType: string },
    store: (input: ReturnType<typeof inputOf>) => Promise<T>,
  ): Promise<T> {
    const path = join(folder, randomWord());
    const bytes = Buffer.from(text);
    try {
      await writeFile(path, bytes, { mode: 0o600 });
      return await store(inputOf({ name, declaredType, path, bytes: bytes.length, sha256: sha256(bytes) }));
    } finally {
      await rm(path, { force: true });
    }
  }

  return {
    document: (name, text, caller, also) =>
      uploaded({ name, text, declaredType: "text/markdown" }, (input) => {
        const keepReply = (reply: Reply<(typeof documents)["documents.upload"]>): void =>
          also(reply.documents[0]!.document_id);
        return uploadDocument({ ...input, keepReply }, caller);
      }),
    benchmark: (name, text, caller, also) =>
      uploaded({ name, text, declaredType: "application/jsonl" }, (input) => {
        const keepReply = (reply: Reply<(typeof benchmarks)["benchmarks.upload"]>): void => also(reply.benchmark_id);
        return uploadBenchmark({ ...input, keepReply }, caller);
      }),
  };
}
