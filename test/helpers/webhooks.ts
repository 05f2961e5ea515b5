// A receiver of webhooks on loopback that answers as it is told.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  id: string;
  raw: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what was sent as it is.
  body: any;
}

export interface Receiver {
  url: string;
  received: Received[];
  /** How the next requests are answered; 200 at first. */
  answer: (response: ServerResponse, received: Received, request: IncomingMessage) => void;
  close(): Promise<void>;
}

export async function startReceiver(port = 0): Promise<Receiver> {
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const raw = Buffer.concat(parts).toString("utf8");
    const received = {
      path: `${request.method} ${request.url}`,
      headers: request.headers,
      id: String(request.headers["webhook-id"]),
      raw,
      body: raw === "" ? null : JSON.parse(raw),
    };
    it.received.push(received);
    it.answer(response, received, request);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const it: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    received: [],
    answer: (response) => void response.end(),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return it;
}

/** 24 bytes of the specification's own example. */
export const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
