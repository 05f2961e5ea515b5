// The child process of the probe. It reads one file and writes a ProbeAnswer to stdout as JSON.
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { Failure } from "../../base/errors.ts";
import { pagesWithoutText } from "./elements.ts";
import type { ProbeAnswer } from "./probe.ts";
import { openArchive } from "./read/archive.ts";
import { refusalOf } from "./refusal.ts";

/** Reads the file. The formats' readers are imported on demand, because importing takes half of the child's time. */
async function examine(path: string, kind: string, name: string): Promise<ProbeAnswer> {
  const bytes = readFileSync(path);
  if (kind === "pdf") {
    const { readPdf } = await import("./read/pdf.ts");
    const reading = await readPdf(bytes, name);
    return { format: "pdf", empty: pagesWithoutText(reading.pages!), reading };
  }
  if (kind.startsWith("scan ")) {
    const { pictureOf } = await import("./read/pdf-picture.ts");
    return { picture: await pictureOf(bytes, Number(kind.slice(5))) };
  }
  const archive = await openArchive(bytes, name);
  if (archive.names.has("META-INF/container.xml")) {
    const { readEpub } = await import("./read/epub.ts");
    return { format: "epub", empty: [], reading: await readEpub(archive, name) };
  }
  const { officeFile } = await import("./read/office.ts");
  const office = archive.names.has("[Content_Types].xml") ? await officeFile(archive, name) : null;
  if (office === null) throw new Failure("document_type", `${name} is a ZIP archive, not a document`);
  const { format, main } = office;
  const readers = {
    docx: async () => (await import("./read/docx.ts")).readDocx,
    pptx: async () => (await import("./read/pptx.ts")).readPptx,
    xlsx: async () => (await import("./read/xlsx.ts")).readXlsx,
  };
  const read = await readers[format]();
  return { format, empty: [], reading: await read(archive, main, name) };
}

const [path, kind, name, deadlineMs] = process.argv.slice(2) as [string, string, string, string];
// This thread kills the process at the deadline, because nothing else would end an endless loop if the parent died.
new Worker("setTimeout(() => process.kill(process.pid, 'SIGKILL'), require('node:worker_threads').workerData)", {
  eval: true,
  workerData: Number(deadlineMs),
}).unref();
// Only the answer may go to stdout; whatever libraries log goes to stderr.
console.log = console.error;
const answer = await examine(path, kind, name).catch((error): ProbeAnswer => {
  const refused = refusalOf(error, name);
  // An unexpected error is the file's fault, since the file is the only input.
  return {
    refused: refused ?? { code: "document_invalid", message: `${name} is damaged: ${(error as Error).message}` },
  };
});
process.stdout.write(JSON.stringify(answer), () => process.exit(0));
