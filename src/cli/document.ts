// plumbline document: manages the documents that models are aligned to, through the API.
import { openAsBlob } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { type Command, Option } from "commander";
import { Failure } from "../base/errors.ts";
import { isErrno } from "../base/files.ts";
import { personalDataModes } from "../contract/documents.ts";
import { asks, asSaid } from "./asks.ts";
import type { Client, ClientFile, Replies } from "./client.ts";
import { exitOf } from "./exit-codes.ts";
import { type Page, paged, pageOf } from "./options.ts";
import { bytesText, table } from "./output.ts";
import { startProgress } from "./progress.ts";

type DocumentRecord = Replies["documents.get"];

export function register(program: Command): void {
  const document = program.command("document").description("documents: add, list, show, read, delete");

  const add = document
    .command("add")
    .description("upload documents; for a folder, all files in it and its subfolders except hidden ones")
    .argument("<paths...>", "PDF, Word, PowerPoint, Excel, HTML, Markdown, EPUB, e-mail, CSV, JSON or text")
    .addOption(
      new Option(
        "--personal-data <mode>",
        "what to do with e-mail addresses, numbers and similar personal data",
      ).choices(personalDataModes),
    );
  asks<{ personalData?: string }, [string[]]>(add, async (client, { personalData }, paths) => {
    const files = (await Promise.all(paths.map(filesAt))).flat();
    if (files.length === 0) throw new Failure("usage", "There is no file to upload in these folders");
    const { documents, failed, untried } = await uploadAll(client, files, personalData);
    const lines = [
      ...(documents.length > 0 ? [recordsTable(documents)] : []),
      ...documents.flatMap(({ name, report }) => (report?.warnings ?? []).map(({ message }) => `${name}: ${message}`)),
      ...failed.map(({ path, message, hint }) => `${path} was not uploaded: ${message}. ${hint}`),
      ...untried.map((path) => `${path} was not tried`),
    ];
    const exit = failed.at(-1)?.exit ?? "ok";
    const json = { documents, failed: failed.map(({ exit: _, ...rest }) => rest), untried };
    return { json, text: lines.join("\n"), exit };
  });

  const list = paged(document.command("ls").description("list documents, newest first"));
  asks<Page>(list, async (client, options) => {
    const reply = await client.api["documents.list"]({ query: pageOf(options) });
    return { json: reply, text: recordsTable(reply.documents) };
  });

  const show = document
    .command("show")
    .description("show a document's record, and what was found out while reading it")
    .argument("<id>", "the document's id, document_…");
  asks(show, async (client, _, id) => {
    const record = await client.api["documents.get"]({ params: { document_id: id } });
    return { json: record, text: recordText(record) };
  });

  const text = document
    .command("text")
    .description("print the clean text of a document, from which alignments and benchmarks are made")
    .argument("<id>", "the document's id, document_…");
  asks(text, async (client, _, id) => {
    const content = await client.text("documents.text", { params: { document_id: id } });
    return { json: { document_id: id, text: content }, text: content, content };
  });

  const remove = document
    .command("rm")
    .description("delete a document permanently; alignments keep their snapshot of it")
    .argument("<id>", "the document's id, document_…")
    .option("--snapshots", "also delete its snapshots, with the training rows made from them");
  asks<{ snapshots?: boolean }>(remove, async (client, { snapshots }, id) => {
    const reply = await client.api["documents.delete"]({ params: { document_id: id }, query: { snapshots } });
    return { json: reply, text: `${id}: ${reply.message}` };
  });
}

/**
 * Returns the path itself if it is a file; for a folder, the paths of all files, and links to files, in it and its subfolders except
 * hidden ones. Throws usage if the path does not exist.
 */
async function filesAt(path: string): Promise<string[]> {
  const facts = await stat(path).catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) throw new Failure("usage", `The file ${path} does not exist`);
    throw error;
  });
  if (!facts.isDirectory()) return [path];
  const entries = await readdir(path, { withFileTypes: true });
  const shown = entries.filter(({ name }) => !name.startsWith(".")).sort((a, b) => a.name.localeCompare(b.name));
  const found: string[] = [];
  for (const entry of shown) {
    const inner = join(path, entry.name);
    if (entry.isDirectory()) found.push(...(await filesAt(inner)));
    else if (entry.isFile() || (entry.isSymbolicLink() && (await isFile(inner)))) found.push(inner);
  }
  return found;
}

/** Whether a link leads to a file. Links to folders are not followed, because they could form a circle. */
const isFile = async (link: string): Promise<boolean> => (await stat(link).catch(() => null))?.isFile() === true;

/** Opens a file, which is read while it is sent. Throws usage. */
export async function fileToSend(path: string): Promise<ClientFile> {
  try {
    return { name: basename(path), mediaType: "application/octet-stream", content: await openAsBlob(path) };
  } catch (error) {
    throw new Failure("usage", `The file ${path} does not exist or cannot be read`, { cause: error });
  }
}

/**
 * Uploads files one after the other, so that a refused file does not stop the rest. Any other failure, such as an invalid key or a
 * full disk, would be the same for every file, so the rest is not tried. It is thrown if nothing was uploaded before.
 */
async function uploadAll(client: Client, paths: readonly string[], personalData: string | undefined) {
  const documents: DocumentRecord[] = [];
  const failed: { path: string; code: string; message: string; hint: string; exit: ReturnType<typeof exitOf> }[] = [];
  let untried: readonly string[] = [];
  const query = { personal_data: personalData };
  const progress = startProgress();
  try {
    for (const [done, path] of paths.entries()) {
      progress.show({ phase: "uploading", done, total: paths.length, unit: "files" });
      try {
        const reply = await client.api["documents.upload"]({ files: [await fileToSend(path)], query });
        documents.push(...reply.documents);
      } catch (error) {
        const said = asSaid(error);
        if (!(said instanceof Failure)) throw said;
        const { code, message, hint, status } = said;
        const isOfFile = [413, 415, 422].includes(status);
        if (!isOfFile && documents.length === 0) throw said;
        failed.push({ path, code, message, hint, exit: exitOf(said) });
        if (isOfFile) continue;
        untried = paths.slice(done + 1);
        break;
      }
    }
  } finally {
    progress.end();
  }
  return { documents, failed, untried };
}

function recordsTable(records: readonly DocumentRecord[]): string {
  const rows = records.map((one) => [
    one.document_id,
    one.name,
    one.format,
    bytesText(one.bytes),
    String(one.characters),
    one.report?.language.main ?? "",
    String(one.report?.warnings.length ?? ""),
    one.created_at,
  ]);
  return table([["id", "name", "format", "size", "characters", "language", "warnings", "created"], ...rows]);
}

function recordText(record: DocumentRecord): string {
  const { report, duplicates } = record;
  const personal = Object.entries(report?.personal_data.found ?? {}).map(([kind, n]) => `${n} × ${kind}`);
  return [
    recordsTable([record]),
    ...(report?.pages ? [`pages       ${report.pages.count}, ${report.pages.without_text.length} without text`] : []),
    ...(personal.length > 0 ? [`personal    ${personal.join(", ")}`] : []),
    ...(duplicates.documents.length > 0
      ? [`duplicates  ${duplicates.exact} paragraphs also in other documents, ${duplicates.near} nearly`]
      : []),
    ...(report?.warnings ?? []).map(({ message }) => `warning     ${message}`),
  ].join("\n");
}
