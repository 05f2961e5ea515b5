// Reads whole JSON bodies, within limits of size and pace.
import type { IncomingMessage } from "node:http";
import { Failure, invalid } from "../base/errors.ts";
import { type ReadBody, readJsonKeeping } from "./json.ts";
import { type Pace, watchPace } from "./pace.ts";

/** Reads and parses a JSON body of at most `maxBytes`. The source text of the fields named in `kept` is returned as well. */
export async function readBody(
  request: IncomingMessage,
  maxBytes: number,
  pace: Pace,
  kept: readonly string[] = [],
): Promise<ReadBody> {
  checkEncoding(request);
  const announced = request.headers["content-length"];
  const empty = request.headers["transfer-encoding"] === undefined && Number(announced ?? 0) === 0;
  if (empty) throw invalid(["body"], "field required", "missing");
  checkType(request, /^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i);
  if (Number(announced ?? 0) > maxBytes) throw tooLarge(maxBytes);
  return readJsonKeeping(await collect(request, maxBytes, pace), kept);
}

/** Refuses compressed bodies, because no client needs them and a small one can expand to any size. */
export function checkEncoding(request: IncomingMessage): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw new Failure("unsupported_media_type", "Content-Encoding is not supported here");
}

export function checkType(request: IncomingMessage, form: RegExp): void {
  if (!form.test(request.headers["content-type"] ?? "")) throw new Failure("unsupported_media_type");
}

const tooLarge = (maxBytes: number): Failure => new Failure("too_large", `The body is larger than ${maxBytes} bytes`);

function collect(request: IncomingMessage, maxBytes: number, pace: Pace): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    const unwatch = watchPace(request, pace, finish);
    const onData = (part: Buffer): void => {
      bytes += part.length;
      if (bytes > maxBytes) finish(tooLarge(maxBytes));
      else parts.push(part);
    };
    const onEnd = (): void => finish(null);
    const onGone = (): void => finish(new Failure("bad_request", "The body was cut off"));
    function finish(failure: Failure | null): void {
      unwatch();
      request.off("data", onData).off("end", onEnd).off("close", onGone);
      if (failure) reject(failure);
      else resolve(Buffer.concat(parts));
    }
    request.on("data", onData).on("end", onEnd).on("close", onGone);
  });
}
