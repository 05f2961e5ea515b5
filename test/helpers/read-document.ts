// A document read as an upload would be: by content, in threads and a process of its own.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Parsed, ParseOptions } from "../../src/domain/documents/parse.ts";
import { createParser, type Parser } from "../../src/domain/documents/parser.ts";
import { type Parts, readStructure } from "../../src/domain/documents/structure.ts";

export interface Read extends Omit<Parsed, "text">, Parts {
  text: string;
}

export interface DocumentReader {
  parser: Parser;
  /** `owner`: whose document it is; the same one's where it is not said. */
  read(name: string, content: string | Uint8Array, options?: Partial<ParseOptions> & { owner?: string }): Promise<Read>;
  close(): Promise<void>;
}

/** `seconds`: of computing that a document of so many bytes has, where that is not as usual. */
export function documentReader(seconds?: (bytes: number) => number): DocumentReader {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-documents-"));
  const parser = createParser(seconds);
  let files = 0;
  return {
    parser,
    async read(name, content, { owner = "u", ...options } = {}) {
      const path = join(folder, String(files++));
      writeFileSync(path, content);
      const parsed = await parser.parse(
        owner,
        path,
        { name, asIs: false, personalData: "off", maskKey: "key", ...options },
        new AbortController().signal,
      );
      const text = Buffer.from(parsed.text).toString("utf8");
      const structure = JSON.parse(Buffer.from(parsed.structure).toString("utf8"));
      return { ...parsed, text, ...readStructure(text, structure) };
    },
    async close() {
      await parser.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
