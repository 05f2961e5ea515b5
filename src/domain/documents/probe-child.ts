// The disposable half of the probe: reads one file and says on its stdout what it holds.
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { Failure } from "../../base/errors.ts";
import type { ProbeAnswer } from "./probe.ts";
import { openArchive } from "./read/archive.ts";
import { refusalOf } from "./refusal.ts";

/** Readers are loaded when they are needed: half of the child's time goes by before it reads anything. */
async function examine(path: string, kind: string, name: string): Promise<ProbeAnswer> {
  const bytes = readFileSync(path);
  if (kind === "pdf") {
    const { readPdf } = await import("./read/pdf.ts");
    const reading = await readPdf(bytes, name);
    const empty = reading.pages!.flatMap((page, index) => (page.characters === 0 ? [index + 1] : []));
    return { format: "pdf", empty, reading };
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
  if (office === null) throw new Failure("document_type", `${name} is a ZIP archive and no document`);
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
// Should the parent die, nobody is left to end an endless loop; a thread of our own still is.
new Worker("setTimeout(() => process.kill(process.pid, 'SIGKILL'), require('node:worker_threads').workerData)", {
  eval: true,
  workerData: Number(deadlineMs),
}).unref();
// The answer is all that stdout carries, whatever a library has to say.
console.log = console.error;
const answer = await examine(path, kind, name).catch((error): ProbeAnswer => {
  const refused = refusalOf(error, name);
  // What a reader did not expect is the file's doing: nothing else went in.
  return {
    refused: refused ?? { code: "document_invalid", message: `${name} is damaged: ${(error as Error).message}` },
  };
});
process.stdout.write(JSON.stringify(answer), () => process.exit(0));
