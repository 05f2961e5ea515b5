// Requests byte for byte, for what no HTTP client would send.
import { createConnection } from "node:net";

export interface RawAnswer {
  status: number;
  head: string;
  body: string;
}

/** Sends and reads until the other side closes or, with `until`, until that stands in what came back. */
export function raw(
  url: string,
  bytes: string | Buffer,
  options: { until?: RegExp; ms?: number } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = createConnection(Number(port), hostname);
    let answer = "";
    const timer = setTimeout(() => socket.destroy(), options.ms ?? 5_000);
    socket.on("connect", () => socket.write(bytes));
    socket.on("data", (part) => {
      answer += part.toString("latin1");
      if (options.until?.test(answer)) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(timer);
      const [head = "", ...rest] = answer.split("\r\n\r\n");
      resolve({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1] ?? 0), head, body: rest.join("\r\n\r\n") });
    });
  });
}

/** A GET with these header lines. The connection is closed after the answer. */
export const rawGet = (url: string, path: string, lines: string[], method = "GET"): Promise<RawAnswer> =>
  raw(url, [`${method} ${path} HTTP/1.1`, ...lines, "Connection: close", "", ""].join("\r\n"));
