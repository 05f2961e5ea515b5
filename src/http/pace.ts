// The minimum speed of a request body. A slow body is cut off, because it holds a connection and the memory of what has arrived.
import type { IncomingMessage } from "node:http";
import { Failure } from "../base/errors.ts";

export interface Pace {
  /** Time limit for the whole body. */
  seconds: number;
  /** Minimum number of bytes a second, over every window. */
  rate: number;
  /** Length of a window. */
  windowSeconds: number;
}

/** Calls `fail` once if the body is too slow. Stops watching when the body is complete or the returned function is called. */
export function watchPace(request: IncomingMessage, pace: Pace, fail: (failure: Failure) => void): () => void {
  const least = Math.max(1, Math.ceil(pace.rate * pace.windowSeconds));
  let bytes = 0;
  const count = (part: Buffer): void => {
    bytes += part.length;
  };
  let isOver = false;
  const stop = (): void => {
    isOver = true;
    clearInterval(windows);
    clearTimeout(whole);
    request.off("data", count).off("end", stop);
  };
  const tooSlow = (message: string): void => {
    stop();
    fail(new Failure("request_timeout", message));
  };
  // Data that arrived while this process was busy is read first, because the client is not to blame for that delay.
  const windows = setInterval(
    () =>
      setImmediate(() => {
        if (bytes < least && !isOver)
          tooSlow(`The body arrived more slowly than ${least} bytes in ${pace.windowSeconds} s`);
        bytes = 0;
      }),
    pace.windowSeconds * 1000,
  );
  const whole = setTimeout(() => tooSlow(`The body took longer than ${pace.seconds} s`), pace.seconds * 1000);
  request.on("data", count).on("end", stop);
  return stop;
}
