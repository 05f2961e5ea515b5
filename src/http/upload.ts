// Writes multipart/form-data to files under random names. If an upload fails, e.g. because a file exceeds a limit, the client leaves
// or the disk is full, all its files are removed.
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { type Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import busboy from "busboy";
import { Failure, invalid } from "../base/errors.ts";
import { freeBytes, isErrno } from "../base/files.ts";
import { randomWord } from "../base/ids.ts";
import type { UploadedFile } from "../contract/endpoint.ts";
import { checkEncoding, checkType } from "./body.ts";
import { type Pace, watchPace } from "./pace.ts";

export interface UploadLimits {
  folder: string;
  fileBytes: number;
  files: number;
  /** Names of the settings that set these limits, for error messages. `files` is null if the endpoint takes only one file. */
  settings: { fileBytes: string; files: string | null };
  /** Uploads are refused below this many free bytes on the folder's disk. */
  freeDisk: number;
  /** Whether the files are written. Otherwise they are only read, for their names, types and digests. */
  isKept: boolean;
  /** An upload may take long, but must not stall. */
  pace: Pace;
}

export const removeUploads = (files: UploadedFile[]): Promise<unknown> =>
  Promise.all(files.map((file) => rm(file.path, { force: true })));

export async function receiveUpload(
  request: IncomingMessage,
  limits: UploadLimits,
  signal: AbortSignal,
): Promise<UploadedFile[]> {
  checkEncoding(request);
  checkType(request, /^multipart\/form-data\s*;/i);
  if (limits.isKept && (await freeBytes(limits.folder)) < limits.freeDisk) throw new Failure("disk_full");
  const files: UploadedFile[] = [];
  try {
    await new Upload(request, limits, signal, files).received;
    if (files.length === 0) throw invalid(["body", "file"], "field required", "missing");
    return files;
  } catch (error) {
    await removeUploads(files);
    throw isErrno(error, "ENOSPC", "EDQUOT") ? new Failure("disk_full", undefined, { cause: error }) : error;
  }
}

class Upload {
  readonly received: Promise<void>;
  readonly #limits: UploadLimits;
  readonly #files: UploadedFile[];
  readonly #writing: Promise<void>[] = [];
  #fail: (error: unknown) => void = () => {};

  /** Each file is added to `files` as soon as it is begun, so that the caller can remove it. */
  constructor(request: IncomingMessage, limits: UploadLimits, signal: AbortSignal, files: UploadedFile[]) {
    this.#limits = limits;
    this.#files = files;
    this.received = this.#receive(request, signal);
  }

  async #receive(request: IncomingMessage, signal: AbortSignal): Promise<void> {
    const parser = this.#parser(request);
    const done = new Promise<void>((resolve, reject) => {
      this.#fail = reject;
      parser.on("close", resolve);
    });
    const cutOff = (): void => this.#fail(new Failure("bad_request", "The upload was cut off"));
    signal.addEventListener("abort", cutOff);
    request.on("close", () => request.complete || cutOff());
    // If the client left before this point, no further event reports it.
    if (signal.aborted || request.destroyed) cutOff();
    const unwatch = watchPace(request, this.#limits.pace, this.#fail);
    request.pipe(parser);
    try {
      await done;
      await Promise.all(this.#writing);
    } catch (error) {
      request.unpipe(parser);
      parser.destroy(error as Error);
      await Promise.allSettled(this.#writing);
      throw error;
    } finally {
      unwatch();
      signal.removeEventListener("abort", cutOff);
    }
  }

  #parser(request: IncomingMessage): busboy.Busboy {
    const { files, fileBytes, settings } = this.#limits;
    const refuse = (failure: () => Failure) => () => this.#fail(failure());
    let parser: busboy.Busboy;
    try {
      // One file more than allowed is let in, so that an upload at the limit can be told from one above it.
      const counts = {
        files: files + 1,
        fields: 1,
        parts: files + 2,
        headerPairs: 32,
        fieldNameSize: 100,
        fieldSize: 1024,
      };
      parser = busboy({
        headers: request.headers,
        limits: { ...counts, fileSize: fileBytes },
        defParamCharset: "utf8",
      });
    } catch (error) {
      throw new Failure("bad_request", "The multipart header cannot be parsed", { cause: error });
    }
    const tooMany = refuse(() => tooManyFiles(files, settings.files));
    return parser
      .on("file", (field, content, info) => this.#take(field, content, info))
      .on("field", (name) => this.#fail(invalid(["body", name.slice(0, 100)], "unknown field", "extra_forbidden")))
      .on("filesLimit", tooMany)
      .on("partsLimit", tooMany)
      .on("error", (error) => this.#fail(error instanceof Failure ? error : malformed(error)));
  }

  #take(field: string | undefined, content: Readable, info: busboy.FileInfo): void {
    const path = join(this.#limits.folder, randomWord());
    content.on("error", () => {});
    if (field !== "file") {
      content.resume();
      this.#fail(invalid(["body", String(field).slice(0, 100)], "unknown field", "extra_forbidden"));
      return;
    }
    if (this.#files.length === this.#limits.files) {
      content.resume();
      this.#fail(tooManyFiles(this.#limits.files, this.#limits.settings.files));
      return;
    }
    const file: UploadedFile = {
      name: String(info.filename ?? ""),
      declaredType: info.mimeType,
      path,
      bytes: 0,
      sha256: "",
    };
    this.#files.push(file);
    const writing = this.#write(content, file);
    writing.catch(this.#fail);
    this.#writing.push(writing);
  }

  async #write(content: Readable, file: UploadedFile): Promise<void> {
    const hash = createHash("sha256");
    const count = async function* (parts: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const part of parts) {
        hash.update(part);
        file.bytes += part.length;
        yield part;
      }
    };
    let over = false;
    content.on("limit", () => {
      over = true;
      this.#fail(fileTooLarge(this.#limits.fileBytes, this.#limits.settings.fileBytes));
    });
    const out = this.#limits.isKept
      ? createWriteStream(file.path, { flags: "wx", mode: 0o600 })
      : new Writable({ write: (_chunk, _encoding, done) => done() });
    const closed = new Promise<void>((resolve) => out.once("close", () => resolve()));
    // A failed pipeline does not wait for a file that is still being opened, so this does. Otherwise the file would be created
    // after its removal.
    await pipeline(content, count, out).finally(() => closed);
    if (!over) file.sha256 = hash.digest("hex");
  }
}

const fileTooLarge = (most: number, setting: string): Failure =>
  new Failure("too_large", `A file is larger than ${most} bytes, the limit that ${setting} sets`);

const tooManyFiles = (most: number, setting: string | null): Failure =>
  new Failure(
    "too_large",
    setting === null
      ? "Send one file at a time"
      : `An upload has more than ${most} files, the limit that ${setting} sets`,
  );

const malformed = (error: unknown): Failure =>
  new Failure("validation", "body: is not a valid multipart body", {
    details: [{ loc: ["body"], msg: "is not a valid multipart body", type: "multipart_invalid" }],
    cause: error,
  });
