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
  read(name: string, content: string | Uint8Array, options?: Partial<ParseOptions>): Promise<Read>;
  close(): Promise<void>;
}

export function documentReader(): DocumentReader {
  const folder = mkdtempSync(join(tmpdir(), "plumbline-documents-"));
  const parser = createParser();
  let files = 0;
  return {
    parser,
    async read(name, content, options = {}) {
      const path = join(folder, String(files++));
      writeFileSync(path, content);
      const parsed = await parser.parse(
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
