// Encodes requests to the trainer and decodes its answers. In both directions a frame is one JSON line, followed by raw arrays
// (native/protocol.md). No other file here knows this format.
import type { Readable, Writable } from "node:stream";

export type WireArray = Int32Array | Float32Array;

interface ArrayHead {
  name: string;
  dtype: "i32" | "f32";
  count: number;
}

export interface Answer {
  id: number;
  fields: Record<string, unknown>;
  payload: Record<string, WireArray>;
}

/** What the protocol allows; the worker says the same in `hello`. */
export const wireLimits = { maxHeaderBytes: 1_048_576, maxPayloadBytes: 268_435_456 };

/** A request that would be refused, or an answer that breaks the protocol. */
export class WireError extends Error {
  override name = "WireError";
}

/** Returns the parts of a frame, which must be written one after another. Throws WireError if the frame exceeds the limits. */
export function encodeRequest(
  id: number,
  verb: string,
  fields: Record<string, unknown>,
  payload: Record<string, WireArray> = {},
): Uint8Array[] {
  const arrays = Object.entries(payload);
  const heads: ArrayHead[] = arrays.map(([name, values]) => ({
    name,
    dtype: values instanceof Float32Array ? "f32" : "i32",
    count: values.length,
  }));
  const bytes = arrays.reduce((sum, [, values]) => sum + values.byteLength, 0);
  if (bytes > wireLimits.maxPayloadBytes)
    throw new WireError(`${verb}: the payload has ${bytes} bytes; the limit is ${wireLimits.maxPayloadBytes}`);
  const line = Buffer.from(
    `${JSON.stringify({ id, verb, ...fields, ...(heads.length > 0 ? { payload: heads } : {}) })}\n`,
  );
  if (line.length > wireLimits.maxHeaderBytes)
    throw new WireError(`${verb}: the header has ${line.length} bytes; the limit is ${wireLimits.maxHeaderBytes}`);
  // Copy the arrays, because the caller may reuse them at once.
  return [line, ...arrays.map(([, values]) => Uint8Array.from(bytesOf(values)))];
}

const bytesOf = (values: WireArray): Uint8Array => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/**
 * Writes the parts, and resolves when the stream can take more. Also resolves if the stream is closed, because the reason is
 * then reported by the end of the process.
 */
export function write(stream: Writable, parts: Uint8Array[]): Promise<void> {
  stream.cork();
  let more = true;
  for (const part of parts) more = stream.write(part);
  stream.uncork();
  if (more || stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off("drain", done);
      stream.off("close", done);
      resolve();
    };
    stream.on("drain", done);
    stream.on("close", done);
  });
}

/** Calls `onAnswer` with every complete answer, in order. Throws WireError when the stream breaks the protocol. */
export async function readAnswers(stream: Readable, onAnswer: (answer: Answer) => void): Promise<void> {
  const source = new ByteSource(stream);
  for (;;) {
    const line = await source.line(wireLimits.maxHeaderBytes);
    if (line === null) return;
    const { head, heads } = parseHead(line);
    const payload: Record<string, WireArray> = {};
    for (const { name, dtype, count } of heads) {
      const bytes = await source.bytes(4 * count);
      payload[name] = dtype === "f32" ? new Float32Array(bytes) : new Int32Array(bytes);
    }
    const { id, payload: _arrays, ...fields } = head;
    onAnswer({ id: id as number, fields, payload });
  }
}

function parseHead(line: string): { head: Record<string, unknown>; heads: ArrayHead[] } {
  let head: unknown;
  try {
    head = JSON.parse(line);
  } catch {
    throw new WireError(`not a JSON line: ${line.slice(0, 200)}`);
  }
  if (typeof head !== "object" || head === null || !Number.isSafeInteger((head as { id?: unknown }).id))
    throw new WireError(`not an answer: ${line.slice(0, 200)}`);
  const heads = ((head as { payload?: unknown }).payload ?? []) as ArrayHead[];
  const sound =
    Array.isArray(heads) &&
    heads.every(
      ({ name, dtype, count }) =>
        typeof name === "string" && (dtype === "i32" || dtype === "f32") && Number.isSafeInteger(count) && count >= 0,
    );
  if (!sound || heads.reduce((sum, { count }) => sum + 4 * count, 0) > wireLimits.maxPayloadBytes)
    throw new WireError(`not a payload: ${line.slice(0, 200)}`);
  return { head: head as Record<string, unknown>, heads };
}

/**
 * Takes lines and bytes out of a stream of chunks. At the end of the stream `line` returns null. An end within a line or a
 * payload throws WireError.
 */
class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: Readable) {
    this.#chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async #more(): Promise<boolean> {
    const next = await this.#chunks.next();
    this.#rest = next.done ? Buffer.alloc(0) : next.value;
    return !next.done;
  }

  async line(most: number): Promise<string | null> {
    const parts: Buffer[] = [];
    let bytes = 0;
    for (;;) {
      const end = this.#rest.indexOf(0x0a);
      const part = end < 0 ? this.#rest : this.#rest.subarray(0, end);
      bytes += part.length;
      if (bytes >= most) throw new WireError(`a line longer than ${most} bytes`);
      parts.push(part);
      if (end >= 0) {
        this.#rest = this.#rest.subarray(end + 1);
        return Buffer.concat(parts).toString("utf8");
      }
      if (!(await this.#more())) {
        if (bytes === 0) return null;
        throw new WireError("the stream ended within a line");
      }
    }
  }

  async bytes(count: number): Promise<ArrayBuffer> {
    const result = new Uint8Array(count);
    let done = 0;
    while (done < count) {
      if (this.#rest.length === 0 && !(await this.#more())) throw new WireError("the stream ended within a payload");
      const part = this.#rest.subarray(0, count - done);
      result.set(part, done);
      this.#rest = this.#rest.subarray(part.length);
      done += part.length;
    }
    return result.buffer;
  }
}
