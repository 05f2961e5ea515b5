// A local server that answers as the hub of models does.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** The only one there is, of every repository. */
const revision = "0123456789abcdef0123456789abcdef01234567";

export interface HubRepository {
  files: { path: string; size: number; oid?: string }[];
  /** What a file's request is answered with; the index is always sound. */
  send: (path: string, response: ServerResponse) => void;
}

export interface Hub {
  url: string;
  repositories: Map<string, HubRepository>;
  /** Of every request that came. */
  asked: { path: string; headers: IncomingMessage["headers"] }[];
  close(): Promise<void>;
}

export async function localHub(): Promise<Hub> {
  const repositories = new Map<string, HubRepository>();
  const asked: Hub["asked"] = [];
  const server = createServer((request, response) => {
    const path = request.url!;
    asked.push({ path, headers: request.headers });
    const json = (value: unknown): void => {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
    };
    const [, name, rest] = /^\/(?:api\/models\/)?([^/]+\/[^/?]+)(.*)$/.exec(path)!;
    const repository = repositories.get(name!);
    if (!repository) response.writeHead(404).end();
    else if (!path.startsWith("/api/")) repository.send(rest!.replace(`/resolve/${revision}/`, ""), response);
    else if (rest === "") json({ id: name, sha: revision, siblings: [] });
    else if (rest === `/tree/${revision}?recursive=true`)
      json([
        { type: "directory", path: "images", size: 0 },
        ...repository.files.map(({ path: file, size, oid }) => ({
          type: "file",
          path: file,
          size,
          ...(oid === undefined ? {} : { lfs: { oid, size } }),
        })),
      ]);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    repositories,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
